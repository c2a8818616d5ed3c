package shoot

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	backupv1alpha1 "hortus.dev/hortus/api/backup/v1alpha1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// ListBackups lists the backups of a Shoot.
type ListBackups func(context.Context, *corev1beta1.Shoot) (*backupv1alpha1.ShootBackups, error)

// backupsREST lists the backups that a Shoot can be restored from. It stores nothing.
type backupsREST struct {
	store *genericregistry.Store
	list  ListBackups
}

func (r *backupsREST) New() runtime.Object { return &backupv1alpha1.ShootBackups{} }
func (r *backupsREST) Destroy()            {} // The store belongs to the resource.

func (r *backupsREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return backupv1alpha1.SchemeGroupVersion.WithKind("ShootBackups")
}

// Get lists the backups.
func (r *backupsREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	stored, err := r.store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return r.list(ctx, stored.(*corev1beta1.Shoot))
}
