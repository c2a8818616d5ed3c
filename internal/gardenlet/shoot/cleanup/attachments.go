package cleanup

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/boundedlist"
)

// attachments is the step in which VolumeAttachments are deleted: at once, since no kubelet uses the volume, but their
// driver has some time to detach it.
var attachments = Step{
	Name: "volume-attachments", Kinds: kinds("storage.k8s.io", "v1", "VolumeAttachment"), Grace: 0, Finalize: finalizeSoon,
}

// attachmentLimits bound what a pass reads of VolumeAttachments, and of nodes: 100,000 objects of 1 KiB each.
var attachmentLimits = boundedlist.Limits{Bytes: 128 << 20}

// RunLostAttachments makes one pass over the VolumeAttachments of nodes that do not exist, and returns the remaining
// ones, as Run does. Those of other nodes are left alone.
func RunLostAttachments(ctx context.Context, shoot client.Client, now time.Time) ([]string, error) {
	lost, err := lostAttachments(ctx, shoot)
	if err != nil || len(lost) == 0 {
		return nil, err
	}
	kind, made := attachments.Kinds[0], &tally{}
	defer func() { made.log(ctx, kind.Kind) }()
	if err := forEach(ctx, lost[:min(len(lost), maxRequests)], func(o *metav1.PartialObjectMetadata) error {
		return act(ctx, shoot, attachments, kind, o, now, made)
	}); err != nil {
		return nil, fmt.Errorf("clean up VolumeAttachments: %w", err)
	}
	// Those without finalizers are gone by now; reading again saves the next pass.
	if lost, err = lostAttachments(ctx, shoot); err != nil {
		return nil, err
	}
	var left []string
	for i := range lost {
		left = append(left, describe(kind.Kind, &lost[i]))
	}
	slices.Sort(left)
	return left, nil
}

// lostAttachments reads the VolumeAttachments whose nodes do not exist. It reads nodes last: what is attached to a node
// that appears meanwhile is not lost.
func lostAttachments(ctx context.Context, shoot client.Client) ([]metav1.PartialObjectMetadata, error) {
	var all []metav1.PartialObjectMetadata
	var nodeOf []string
	err := boundedlist.Read(ctx, shoot, attachmentLimits, &storagev1.VolumeAttachmentList{},
		func(page *storagev1.VolumeAttachmentList) (bool, error) {
			for i := range page.Items {
				o := metav1.PartialObjectMetadata{ObjectMeta: page.Items[i].ObjectMeta}
				o.SetGroupVersionKind(attachments.Kinds[0])
				o.ManagedFields = nil
				if !Kept(attachments.Kinds[0].Kind, o.Labels) {
					all, nodeOf = append(all, o), append(nodeOf, page.Items[i].Spec.NodeName)
				}
			}
			return true, nil
		})
	if err != nil {
		return nil, fmt.Errorf("list VolumeAttachments: %w", err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	nodes := sets.New[string]()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	err = boundedlist.Read(ctx, shoot, attachmentLimits, list, func(page *metav1.PartialObjectMetadataList) (bool, error) {
		for i := range page.Items {
			nodes.Insert(page.Items[i].Name)
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var lost []metav1.PartialObjectMetadata
	for i := range all {
		if !nodes.Has(nodeOf[i]) {
			lost = append(lost, all[i])
		}
	}
	return lost, nil
}
