package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/test/env"
)

// controlPlane runs a real etcd, and real kube-apiservers with the encryption configuration that the Deployment mounts,
// one after the other as in a roll-out. Whenever a server has started or stopped, every written object is read through
// every server.
type controlPlane struct {
	*world
	etcd    *url.URL
	servers map[string]*env.KubeAPIServer // By name of their Pod.
	written []client.ObjectKey            // A Secret and a ConfigMap each.
	// configurations that servers have run with, in order.
	configurations []string
}

func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	w := newWorld(t)
	cp := &controlPlane{world: w, etcd: env.Etcd(t), servers: map[string]*env.KubeAPIServer{}}
	w.user = nil
	w.r.Shoots = realConnector{connector{w}, cp}
	w.apiServers = cp.act
	return cp
}

// realConnector reads the real etcd.
type realConnector struct {
	connector
	cp *controlPlane
}

func (c realConnector) Connect([]byte) (client.Client, error) {
	for _, name := range slices.Sorted(maps.Keys(c.cp.servers)) {
		return c.cp.servers[name].Client, nil
	}
	return nil, errors.New("no API server runs")
}

func (c realConnector) Stored(
	ctx context.Context, _ steps.EtcdAccess, prefix string, visit func(string, []byte) bool,
) error {
	etcd, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{c.cp.etcd.String()}})
	if err != nil {
		return err
	}
	defer etcd.Close()
	return shoot.VisitStored(ctx, etcd, prefix, visit)
}

// act makes one step of a roll-out: the first step starts the new server alongside the old one, the next one stops the
// old one.
func (cp *controlPlane) act(d *appsv1.Deployment) appsv1.DeploymentStatus {
	cp.t.Helper()
	want := ""
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == kubeapiserver.EncryptionVolume {
			want = v.Secret.SecretName
		}
	}
	name := strings.Replace(want, kubeapiserver.EncryptionSecretName, kubeapiserver.Name, 1)
	if cp.servers[name] == nil {
		cp.start(d, name, want)
		n := int32(len(cp.servers))
		return appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: 1, AvailableReplicas: n, ReadyReplicas: n,
		}
	}
	for other, server := range cp.servers {
		if other != name {
			server.Stop(cp.t)
			delete(cp.servers, other)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: other}}
			cp.must(cp.Client.Delete(cp.ctx, pod, client.GracePeriodSeconds(0)))
		}
	}
	cp.readEverything()
	return appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1,
	}
}

func (cp *controlPlane) start(d *appsv1.Deployment, name, secretName string) {
	cp.t.Helper()
	secret := &corev1.Secret{}
	cp.must(cp.Client.Get(cp.ctx, client.ObjectKey{Namespace: d.Namespace, Name: secretName}, secret))
	file := filepath.Join(cp.t.TempDir(), "encryption.yaml")
	cp.must(os.WriteFile(file, secret.Data[kubeapiserver.KeyEncryption], 0o600))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name, Labels: d.Spec.Template.Labels},
		Spec:       d.Spec.Template.Spec,
	}
	pod.Spec.PriorityClassName = ""
	cp.must(cp.Client.Create(cp.ctx, pod))
	cp.servers[name] = env.StartKubeAPIServer(cp.t, cp.etcd, map[string]string{"encryption-provider-config": file})
	cp.configurations = append(cp.configurations, secretName)
	for _, server := range cp.servers { // Old and new servers write at the same time.
		cp.write(server.Client)
	}
	cp.readEverything()
}

// write creates a Secret and a ConfigMap.
func (cp *controlPlane) write(c client.Client) {
	cp.t.Helper()
	key := client.ObjectKey{Namespace: "default", Name: env.Name("o-")}
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	cp.must(c.Create(cp.ctx, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"a": key.Name}}))
	cp.must(c.Create(cp.ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": key.Name}}))
	cp.written = append(cp.written, key)
}

// readEverything reads all written objects from etcd through every server.
func (cp *controlPlane) readEverything() {
	cp.t.Helper()
	for name, server := range cp.servers {
		for _, key := range cp.written {
			secret, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
			if err := server.Client.Get(cp.ctx, key, secret); err != nil || string(secret.Data["a"]) != key.Name {
				cp.t.Fatalf("server %s reads Secret %s: %v, %q", name, key, err, secret.Data)
			}
			if err := server.Client.Get(cp.ctx, key, configMap); err != nil || configMap.Data["a"] != key.Name {
				cp.t.Fatalf("server %s reads ConfigMap %s: %v, %q", name, key, err, configMap.Data)
			}
		}
		if err := server.Client.List(cp.ctx, &corev1.SecretList{}); err != nil {
			cp.t.Fatalf("server %s lists Secrets: %v", name, err)
		}
		if err := server.Client.List(cp.ctx, &corev1.ConfigMapList{}); err != nil {
			cp.t.Fatalf("server %s lists ConfigMaps: %v", name, err)
		}
	}
}

// stored checks that all objects of a resource are stored with one prefix, and returns it up to the key's name.
func (cp *controlPlane) stored(resource, cipher string) (keyName string) {
	cp.t.Helper()
	count := 0
	c := realConnector{cp: cp}
	cp.must(c.Stored(cp.ctx, steps.EtcdAccess{}, "/registry/"+resource+"/", func(key string, value []byte) bool {
		count++
		parts := strings.SplitN(string(value[:min(len(value), 60)]), ":", 6)
		switch {
		case cipher == "" && parts[0] == "k8s" && len(parts) > 1 && parts[1] == "enc":
			cp.t.Errorf("%s is encrypted: %q", key, parts[:5])
		case cipher != "" && (len(parts) < 6 || parts[2] != cipher || keyName != "" && parts[4] != keyName):
			cp.t.Errorf("%s has the prefix %q, want %s and the key of the others, %q", key, parts[0], cipher, keyName)
		case cipher != "":
			keyName = parts[4]
		}
		return true
	}))
	if count < len(cp.written) {
		cp.t.Errorf("etcd has %d %s, want at least %d", count, resource, len(cp.written))
	}
	return keyName
}

// encrypt changes the spec of the Shoot.
func (cp *controlPlane) encrypt(
	s *corev1beta1.Shoot, cipher corev1beta1.EncryptionProviderType, resources ...string,
) *corev1beta1.Shoot {
	cp.t.Helper()
	before := s.DeepCopy()
	if s.Spec.Kubernetes.KubeAPIServer == nil {
		s.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{}
	}
	s.Spec.Kubernetes.KubeAPIServer.EncryptionConfig = &corev1beta1.EncryptionConfig{
		Resources: resources, Provider: corev1beta1.EncryptionProvider{Type: ptr.To(cipher)},
	}
	cp.must(cp.Client.Patch(cp.ctx, s, client.MergeFrom(before)))
	return s
}

func (cp *controlPlane) annotate(s *corev1beta1.Shoot, key, value string) *corev1beta1.Shoot {
	cp.t.Helper()
	before := s.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value)
	cp.must(cp.Client.Patch(cp.ctx, s, client.MergeFrom(before)))
	return s
}

// untilServers steps the Shoot until the given number of configurations has been rolled out.
func (cp *controlPlane) untilServers(s *corev1beta1.Shoot, more int) *corev1beta1.Shoot {
	cp.t.Helper()
	want := len(cp.configurations) + more
	return cp.run(s, func(*corev1beta1.Shoot) bool { return len(cp.configurations) >= want })
}

func (cp *controlPlane) reported(s *corev1beta1.Shoot, cipher corev1beta1.EncryptionProviderType, resources ...string) {
	cp.t.Helper()
	got := ptr.Deref(s.Status.Credentials.EncryptionAtRest, corev1beta1.EncryptionAtRest{})
	if got.Provider.Type != cipher || !slices.Equal(got.Resources, resources) {
		cp.t.Errorf("status.credentials.encryptionAtRest = %+v, want %s of %v", got, cipher, resources)
	}
}

func TestNoObjectIsEverUnreadable(t *testing.T) {
	t.Parallel()
	cp := newControlPlane(t)
	s := cp.run(cp.newShoot(), succeeded)
	cp.write(cp.servers[slices.Collect(maps.Keys(cp.servers))[0]].Client)
	cp.stored("configmaps", "")
	first := cp.stored("secrets", "aescbc")
	cp.reported(s, "aescbc")

	s = cp.run(cp.encrypt(s, "aescbc", "configmaps"), succeeded)
	cp.reported(s, "aescbc", "configmaps")
	cp.stored("configmaps", "aescbc") // Including objects from before.

	// The key is rotated, with the readiness of API servers skipped.
	s = cp.annotate(s, corev1beta1.AnnotationShootSkipReadiness, "true")
	s = cp.run(cp.annotate(s, corev1beta1.AnnotationOperation, corev1beta1.OperationRotateETCDEncryptionKey), rotated)
	if key := cp.stored("secrets", "aescbc"); key == first || key != cp.stored("configmaps", "aescbc") {
		t.Errorf("after the rotation key %q is in use, before it was %q", key, first)
	}

	s = cp.run(cp.encrypt(s, "aescbc"), succeeded)
	cp.reported(s, "aescbc")
	cp.stored("configmaps", "")
	cp.stored("secrets", "aescbc")

	// A change is reverted when servers already write with the new cipher.
	s = cp.untilServers(cp.encrypt(s, "secretbox"), 2)
	if err := cp.Client.Patch(cp.ctx, changed(s, "aesgcm"), client.MergeFrom(s)); !apierrors.IsInvalid(err) {
		t.Errorf("a third cipher while a change is being rolled out: %v, want it to be refused", err)
	}
	s = cp.run(cp.encrypt(s, "aescbc"), succeeded)
	cp.reported(s, "aescbc")
	cp.stored("secrets", "aescbc")

	// The Deployment is lost in the middle of a change.
	s = cp.untilServers(cp.encrypt(s, "secretbox"), 2)
	cp.loseServers(s)
	s = cp.run(s, succeeded)
	cp.reported(s, "secretbox")
	cp.stored("secrets", "secretbox")
	t.Logf("%d roll-outs, %d objects of each kind", len(cp.configurations), len(cp.written))
}

func changed(s *corev1beta1.Shoot, cipher corev1beta1.EncryptionProviderType) *corev1beta1.Shoot {
	out := s.DeepCopy()
	out.Spec.Kubernetes.KubeAPIServer.EncryptionConfig.Provider.Type = &cipher
	return out
}

// rotated: the rotation of the key is complete, and the operation that completed it has succeeded.
func rotated(s *corev1beta1.Shoot) bool {
	return succeeded(s) && s.Status.Credentials.Rotation != nil &&
		s.Status.Credentials.Rotation.ETCDEncryptionKey.Phase == corev1beta1.RotationCompleted
}

// loseServers removes the API servers and all records of their encryption except the keys.
func (cp *controlPlane) loseServers(s *corev1beta1.Shoot) {
	cp.t.Helper()
	for name, server := range cp.servers {
		server.Stop(cp.t)
		delete(cp.servers, name)
	}
	in := client.InNamespace(s.Status.TechnicalID)
	cp.must(cp.Client.DeleteAllOf(cp.ctx, &corev1.Pod{}, in, client.GracePeriodSeconds(0)))
	cp.must(cp.Client.Delete(cp.ctx,
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Status.TechnicalID, Name: kubeapiserver.Name}}))
	secrets := &corev1.SecretList{}
	cp.must(cp.Client.List(cp.ctx, secrets, in))
	for i := range secrets.Items {
		if strings.HasPrefix(secrets.Items[i].Name, kubeapiserver.EncryptionSecretName) {
			cp.must(cp.Client.Delete(cp.ctx, &secrets.Items[i]))
		}
	}
	if len(cp.servers) > 0 {
		cp.t.Fatal(fmt.Sprint("servers left: ", cp.servers))
	}
}
