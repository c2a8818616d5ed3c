package cleanup

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"hortus.dev/hortus/internal/boundedlist"
)

const (
	// parallelKinds and parallelObjects bound the load that a clean-up puts on the user's API server.
	parallelKinds   = 4
	parallelObjects = 20
	// maxRequests bounds the requests of a pass per kind, so that all kinds progress: the client sends 50 per second.
	maxRequests = 1000
	// maxLeft bounds the objects of a kind that a pass names.
	maxLeft = 1000
)

// Annotations that make the CSI sidecar delete a snapshot at the provider.
const (
	annotationSnapshotBeingDeleted = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
	annotationSnapshotBeingCreated = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
)

// Run makes one pass over the step and returns the remaining objects, as "Kind namespace/name", sorted. An empty result
// means that the step is done. If a kind has more than maxLeft objects, some of them are left out.
func Run(ctx context.Context, shoot client.Client, step Step, now time.Time) ([]string, error) {
	left := make([][]string, len(step.Kinds))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelKinds)
	for i, kind := range step.Kinds {
		group.Go(func() error {
			var err error
			left[i], err = runKind(ctx, shoot, step, kind, now)
			if err != nil {
				return fmt.Errorf("clean up %ss: %w", kind.Kind, err)
			}
			return nil
		})
	}
	err := group.Wait()
	all := slices.Concat(left...)
	slices.Sort(all)
	return all, err
}

func runKind(
	ctx context.Context, shoot client.Client, step Step, kind schema.GroupVersionKind, now time.Time,
) ([]string, error) {
	found, requests, made := false, 0, &tally{}
	defer func() { made.log(ctx, kind.Kind) }()
	err := list(ctx, shoot, kind, func(page []metav1.PartialObjectMetadata) (bool, error) {
		for i := range page {
			action := Decide(step, kind.Kind, &page[i], now)
			found = found || action != Keep
			if action == Delete || action == Finalize || action == Force {
				requests++
			}
		}
		return requests < maxRequests, forEach(ctx, page, func(o *metav1.PartialObjectMetadata) error {
			return act(ctx, shoot, step, kind, o, now, made)
		})
	})
	if err != nil || !found {
		return nil, err
	}
	// Many objects are removed at once; reading again saves the next pass.
	var left []string
	err = list(ctx, shoot, kind, func(page []metav1.PartialObjectMetadata) (bool, error) {
		for i := range page {
			if o := &page[i]; !Kept(kind.Kind, o.Labels) {
				left = append(left, describe(kind.Kind, o))
			}
		}
		return len(left) < maxLeft, nil
	})
	return left, err
}

func act(
	ctx context.Context, shoot client.Client, step Step, kind schema.GroupVersionKind, o *metav1.PartialObjectMetadata,
	now time.Time, made *tally,
) error {
	switch Decide(step, kind.Kind, o, now) {
	case Delete:
		return made.count(&made.deleted, remove(ctx, shoot, o, step.Grace))
	case Force:
		return made.count(&made.deleted, remove(ctx, shoot, o, 0))
	case Finalize:
		return made.count(&made.finalized, stripFinalizers(ctx, shoot, o))
	case Wait:
		if snapshotDue(kind.Kind, o, step, now) {
			return made.count(&made.marked, markSnapshot(ctx, shoot, o))
		}
	}
	return nil
}

// tally counts what a pass has changed of a kind. There may be thousands of objects, so they share a log line.
type tally struct{ deleted, finalized, marked atomic.Int64 }

// count counts a change unless it has failed.
func (*tally) count(n *atomic.Int64, err error) error {
	if err == nil {
		n.Add(1)
	}
	return err
}

func (t *tally) log(ctx context.Context, kind string) {
	deleted, finalized, marked := t.deleted.Load(), t.finalized.Load(), t.marked.Load()
	if deleted+finalized+marked > 0 {
		log.FromContext(ctx).Info("Cleaned up objects of the Shoot, since it is deleted", "kind", kind,
			"deleted", deleted, "finalizersRemoved", finalized, "snapshotsReleased", marked)
	}
}

func forEach(
	ctx context.Context, objects []metav1.PartialObjectMetadata, do func(*metav1.PartialObjectMetadata) error,
) error {
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(parallelObjects)
	for i := range objects {
		group.Go(func() error { return do(&objects[i]) })
	}
	return group.Wait()
}

// list hands the metadata of all objects of a kind to visit, page by page; an unknown kind has none.
func list(
	ctx context.Context, shoot client.Client, kind schema.GroupVersionKind,
	visit func([]metav1.PartialObjectMetadata) (bool, error),
) error {
	like := &metav1.PartialObjectMetadataList{}
	like.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	var visitError error
	visitPage := func(page *metav1.PartialObjectMetadataList) (bool, error) {
		for i := range page.Items {
			page.Items[i].SetGroupVersionKind(kind)
		}
		var more bool
		more, visitError = visit(page.Items)
		return more, visitError
	}
	err := boundedlist.Read(ctx, shoot, boundedlist.Limits{}, like, visitPage)
	switch {
	case visitError != nil:
		return visitError
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("list: %w", err)
	}
	return nil
}

// remove requests the deletion of an object. It leaves the grace period to the object first: a Pod that ignores the
// signal to end would otherwise run for as long as the step allows.
func remove(ctx context.Context, shoot client.Client, o *metav1.PartialObjectMetadata, grace time.Duration) error {
	options := []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationBackground)}
	if grace == 0 || o.DeletionTimestamp != nil {
		options = append(options, client.GracePeriodSeconds(int64(grace.Seconds())))
	}
	err := shoot.Delete(ctx, o, options...)
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("delete %s: %w", client.ObjectKeyFromObject(o), err)
	}
	return nil
}

func stripFinalizers(ctx context.Context, shoot client.Client, o *metav1.PartialObjectMetadata) error {
	before := o.DeepCopy()
	o.Finalizers = nil
	if err := client.IgnoreNotFound(shoot.Patch(ctx, o, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("remove finalizers of %s: %w", client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// snapshotDue reports whether an object is a VolumeSnapshotContent whose grace period is over, and that is not marked.
func snapshotDue(kind string, o *metav1.PartialObjectMetadata, step Step, now time.Time) bool {
	return kind == "VolumeSnapshotContent" && !o.DeletionTimestamp.Add(step.Grace).After(now) &&
		o.Annotations[annotationSnapshotBeingDeleted] != "yes"
}

// markSnapshot makes the CSI sidecar act on a VolumeSnapshotContent.
func markSnapshot(ctx context.Context, shoot client.Client, o *metav1.PartialObjectMetadata) error {
	before := o.DeepCopy()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[annotationSnapshotBeingDeleted] = "yes"
	delete(o.Annotations, annotationSnapshotBeingCreated)
	if err := client.IgnoreNotFound(shoot.Patch(ctx, o, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("annotate %s: %w", client.ObjectKeyFromObject(o), err)
	}
	return nil
}

func describe(kind string, o *metav1.PartialObjectMetadata) string {
	if o.Namespace == "" {
		return kind + " " + o.Name
	}
	return kind + " " + o.Namespace + "/" + o.Name
}
