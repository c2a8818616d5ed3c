package keyrotation

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/encryption"
)

const (
	// tries and tryPause bound the retries of a request: the aggregator takes some seconds to notice that one of several
	// servers has ended.
	tries    = 30
	tryPause = time.Second
)

// rewrite makes the API server write every object of the target's resources with the target's key.
//
// An empty patch is enough: a server writes an object that is stored with a different key than its current one even if
// the patch changes nothing, and otherwise skips the write. In both cases the object is then stored with the current
// key. So are objects that are created meanwhile, because no running server writes with a different key.
func (r *Rotation) rewrite(ctx context.Context, t encryption.Target) error {
	for _, resource := range t.Resources {
		gvk, err := r.Garden.RESTMapper().KindFor(schema.ParseGroupResource(resource).WithVersion(""))
		if err != nil {
			return fmt.Errorf("find the kind of %s: %w", resource, err)
		}
		objects, err := r.list(ctx, gvk)
		if err != nil {
			return fmt.Errorf("list %s: %w", resource, err)
		}
		written := 0
		for i := range objects {
			changed, err := r.writeAgain(ctx, gvk, &objects[i])
			if err != nil {
				return fmt.Errorf("write %s %s again: %w", gvk.Kind, client.ObjectKeyFromObject(&objects[i]), err)
			}
			if changed {
				written++
			}
		}
		fmt.Fprintf(r.Out, "%s: %d of %d objects written with %s, the others were already.\n",
			resource, written, len(objects), t.Writer.Key)
	}
	return nil
}

// list reads metadata only, because a ShootState may have 20 MiB.
func (r *Rotation) list(ctx context.Context, gvk schema.GroupVersionKind) ([]metav1.PartialObjectMetadata, error) {
	like := &metav1.PartialObjectMetadataList{}
	like.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	var objects []metav1.PartialObjectMetadata
	err := r.retry(ctx, func() error {
		objects = nil
		collect := func(page *metav1.PartialObjectMetadataList) (bool, error) {
			for _, o := range page.Items {
				objects = append(objects, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
					Namespace: o.Namespace, Name: o.Name, ResourceVersion: o.ResourceVersion,
				}})
			}
			return true, nil
		}
		return boundedlist.Read(ctx, r.Garden, boundedlist.Limits{}, like, collect)
	})
	return objects, err
}

// writeAgain reports whether the object has changed since it was listed. It ignores an object that is gone.
func (r *Rotation) writeAgain(
	ctx context.Context, gvk schema.GroupVersionKind, o *metav1.PartialObjectMetadata,
) (changed bool, err error) {
	before := o.ResourceVersion
	err = r.retry(ctx, func() error {
		answer := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
		answer.SetGroupVersionKind(gvk)
		err := r.Garden.Patch(ctx, answer, client.RawPatch(types.MergePatchType, []byte("{}")))
		changed = err == nil && answer.ResourceVersion != before
		return client.IgnoreNotFound(err)
	})
	return changed, err
}

// retry repeats a request unless the response says that this would not help.
func (r *Rotation) retry(ctx context.Context, request func() error) error {
	for try := 1; ; try++ {
		err := request()
		switch {
		case err == nil, try == tries, ctx.Err() != nil, meta.IsNoMatchError(err),
			apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsBadRequest(err):
			return err
		}
		if err := r.sleep(ctx, tryPause); err != nil {
			return err
		}
	}
}
