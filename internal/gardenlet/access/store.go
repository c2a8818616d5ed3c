package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"

	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/pki"
)

// store keeps a new certificate for the next start: in the Secret, or else in the file. A file that cannot be written
// is often mounted from a Secret that others maintain; then the certificate is used until the gardenlet stops.
func (a *Access) store(ctx context.Context, pair pki.KeyPair) error {
	if a.secret != nil {
		return a.storeInSecret(ctx, a.transport.base, pair)
	}
	if err := a.storeInFile(pair); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "New certificate is kept in memory only: the file cannot be written", "path",
			a.kubeconfig)
	}
	return nil
}

// storeInSecret fails with a conflict if another replica stores one at the same time.
func (a *Access) storeInSecret(ctx context.Context, garden *rest.Config, pair pki.KeyPair) error {
	server, err := serverOf(garden)
	if err != nil {
		return err
	}
	server.Client = &pair
	kubeconfig, err := server.Render()
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.secret.Namespace, Name: a.secret.Name}}
	found, err := kube.Exists(ctx, a.seed, secret)
	if err != nil {
		return err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[keyKubeconfig] = kubeconfig
	if found {
		err = a.seed.Update(ctx, secret)
	} else {
		err = a.seed.Create(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("store certificate in Secret %s: %w", a.secret, err)
	}
	return nil
}

// Garden returns a kubeconfig for the garden without credentials.
func (a *Access) Garden(ctx context.Context) (pki.Kubeconfig, error) {
	base, err := a.base(ctx)
	if err != nil {
		return pki.Kubeconfig{}, err
	}
	return serverOf(base)
}

// serverOf returns a kubeconfig for the same server without credentials.
func serverOf(c *rest.Config) (pki.Kubeconfig, error) {
	base := rest.CopyConfig(c)
	if err := rest.LoadTLSFiles(base); err != nil {
		return pki.Kubeconfig{}, fmt.Errorf("read CA bundle of the garden: %w", err)
	}
	return pki.Kubeconfig{
		Name: "garden", Server: base.Host, TLSServerName: base.ServerName, CAPEM: base.CAData,
	}, nil
}

// storeInFile replaces the certificate in the kubeconfig and leaves the rest of it.
func (a *Access) storeInFile(pair pki.KeyPair) (err error) {
	kubeconfig, err := clientcmd.LoadFromFile(a.kubeconfig)
	if err != nil {
		return err
	}
	current := kubeconfig.Contexts[kubeconfig.CurrentContext]
	if current == nil || kubeconfig.AuthInfos[current.AuthInfo] == nil {
		return errors.New("the file no longer has a user")
	}
	user := kubeconfig.AuthInfos[current.AuthInfo]
	user.ClientCertificateData, user.ClientKeyData = pair.CertPEM, pair.KeyPEM
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(a.kubeconfig), ".kubeconfig-*") // Only its owner may read it.
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), a.kubeconfig)
}
