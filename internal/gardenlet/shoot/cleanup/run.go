package cleanup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// parallelKinds and parallelObjects bound the load that a clean-up puts on the user's API server.
	parallelKinds   = 4
	parallelObjects = 20
	// pageSize bounds the memory of one answer; only metadata is read.
	pageSize = 500
)

// Annotations by which the CSI sidecar deletes a snapshot at the provider.
const (
	annotationSnapshotBeingDeleted = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
	annotationSnapshotBeingCreated = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
)

// Run makes one pass over the step and returns the objects that are still there, as "Kind namespace/name", sorted. An
// empty result means that the step is done.
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

func runKind(ctx context.Context, shoot client.Client, step Step, kind schema.GroupVersionKind, now time.Time) ([]string, error) {
	objects, err := list(ctx, shoot, kind)
	if err != nil {
		return nil, err
	}
	acted := false
	if err := forEach(ctx, objects, func(o *metav1.PartialObjectMetadata) error {
		switch Decide(step, kind.Kind, o, now) {
		case Delete:
			return remove(ctx, shoot, o, step.Grace)
		case Finalize:
			return stripFinalizers(ctx, shoot, o)
		case Wait:
			return markSnapshot(ctx, shoot, kind.Kind, o, step, now)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for i := range objects {
		acted = acted || Decide(step, kind.Kind, &objects[i], now) != Keep
	}
	if !acted {
		return nil, nil
	}
	// Much goes at once; looking again saves the next pass.
	if objects, err = list(ctx, shoot, kind); err != nil {
		return nil, err
	}
	var left []string
	for i := range objects {
		if o := &objects[i]; !Kept(kind.Kind, o.Labels) {
			left = append(left, describe(kind.Kind, o))
		}
	}
	return left, nil
}

func forEach(ctx context.Context, objects []metav1.PartialObjectMetadata, do func(*metav1.PartialObjectMetadata) error) error {
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(parallelObjects)
	for i := range objects {
		group.Go(func() error { return do(&objects[i]) })
	}
	return group.Wait()
}

// list reads the metadata of all objects of a kind; an unknown kind has none.
func list(ctx context.Context, shoot client.Client, kind schema.GroupVersionKind) ([]metav1.PartialObjectMetadata, error) {
	var all []metav1.PartialObjectMetadata
	next := ""
	for {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := shoot.List(ctx, page, client.Limit(pageSize), client.Continue(next))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		for i := range page.Items {
			page.Items[i].SetGroupVersionKind(kind)
		}
		all = append(all, page.Items...)
		if next = page.Continue; next == "" {
			return all, nil
		}
	}
}

func remove(ctx context.Context, shoot client.Client, o *metav1.PartialObjectMetadata, grace time.Duration) error {
	err := shoot.Delete(ctx, o, client.GracePeriodSeconds(int64(grace.Seconds())), client.PropagationPolicy(metav1.DeletePropagationBackground))
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

// markSnapshot makes the CSI sidecar act on a VolumeSnapshotContent whose grace period is over.
func markSnapshot(ctx context.Context, shoot client.Client, kind string, o *metav1.PartialObjectMetadata, step Step, now time.Time) error {
	if kind != "VolumeSnapshotContent" || o.DeletionTimestamp.Add(step.Grace).After(now) || o.Annotations[annotationSnapshotBeingDeleted] == "yes" {
		return nil
	}
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
