package test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/test/env"
)

// userScheme has the kinds of the Shoot's cluster.
func userScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// userCluster is the Shoot's cluster. The clean-up deletes much in it, so it is not the cluster of the test. Nothing
// but the API server runs there.
func userCluster(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(env.UserCluster(t).Config, client.Options{Scheme: userScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// connector simulates the network to the user's cluster.
type connector struct{ *world }

func (c connector) Connect([]byte) (client.Client, error)     { return c.user, nil }
func (c connector) Healthy(context.Context, []byte) error     { return nil }
func (c connector) TunnelWorks(context.Context, []byte) error { return nil }

// Stored simulates API servers that have stored every object as they are configured to. The user's cluster encrypts
// nothing.
func (c connector) Stored(
	ctx context.Context, access steps.EtcdAccess, prefix string, visit func(string, []byte) bool,
) error {
	config, err := c.encryption(ctx, access)
	if err != nil {
		return err
	}
	for name := range config.Providers {
		if encryption.StoragePrefix(name) != prefix {
			continue
		}
		gvk, err := c.user.RESTMapper().KindFor(schema.ParseGroupResource(name).WithVersion(""))
		if meta.IsNoMatchError(err) {
			return nil
		}
		if err != nil {
			return err
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		if err := c.user.List(ctx, list); err != nil {
			return err
		}
		for _, o := range list.Items {
			value := config.Of(name)[0].Prefix() + o.Name
			if !visit(prefix+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), []byte(value)) {
				return nil
			}
		}
	}
	return nil
}

// encryption is the configuration of the API servers of an etcd.
func (c connector) encryption(ctx context.Context, access steps.EtcdAccess) (encryption.Config, error) {
	servers := &appsv1.DeploymentList{}
	if err := c.Client.List(ctx, servers); err != nil {
		return encryption.Config{}, err
	}
	for _, d := range servers.Items {
		if d.Name != kubeapiserver.Name || access.Endpoint != etcd.URL(d.Namespace) {
			continue
		}
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.Name != kubeapiserver.EncryptionVolume {
				continue
			}
			secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: d.Namespace, Name: v.Secret.SecretName}
			if err := c.Client.Get(ctx, key, secret); err != nil {
				return encryption.Config{}, err
			}
			return encryption.Parse(secret.Data[kubeapiserver.KeyEncryption])
		}
	}
	return encryption.Config{}, fmt.Errorf("no API server with an encryption configuration at %s", access.Endpoint)
}

// SaveBackup does nothing.
func (c connector) SaveBackup(context.Context, steps.EtcdAccess) (int64, error) {
	c.saves++
	return c.revision, c.saveError
}
