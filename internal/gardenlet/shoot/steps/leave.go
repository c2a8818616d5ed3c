package steps

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/backup"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// StopLeftover stops the leftovers on this seed of a control plane that another seed has taken over. The volume of etcd
// remains: the other seed may not have all the data yet.
func StopLeftover() *flow.Graph[*Scope] { return flow.New(LeftoverStopped) }

// RemoveLeftover removes all leftovers without touching the cluster or the provider, which belong to the other seed
// now. Extensions are involved only in the deletion of Bastions, whose machines belong to nobody else. Of all other
// objects the finalizers are removed first.
func RemoveLeftover() *flow.Graph[*Scope] {
	return flow.New(LeftoverStopped, BastionsRemoved,
		LeftoverObjectsDropped).Then(flow.Reverse(nil, Etcd)).Then(flow.Reverse(nil, Namespace))
}

var (
	// LeftoverStopped scales every workload to zero, and waits until its pods are gone.
	LeftoverStopped = &flow.Step[*Scope]{
		Name:    "leftover-stopped",
		Ensure:  use1(ensureLeftoverStopped),
		Recheck: recheckPods,
	}
	// LeftoverObjectsDropped removes the objects that represent external resources, without deleting these. Until then
	// the extension of Bastions has the credentials that it needs.
	LeftoverObjectsDropped = &flow.Step[*Scope]{
		Name:    "leftover-objects-dropped",
		After:   []*flow.Step[*Scope]{LeftoverStopped, BastionsRemoved},
		Ensure:  use2(ensureLeftoverObjectsDropped),
		Recheck: recheckPods,
	}
)

func ensureLeftoverStopped(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	deployments, sets, pods := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{sets, deployments, pods} {
		if err := seed.List(ctx, list, client.InNamespace(seed.namespace)); err != nil {
			return flow.Outcome{}, fmt.Errorf("list what is left of the control plane: %w", err)
		}
	}
	for i := range sets.Items {
		if err := seed.stopStatefulSet(ctx, &sets.Items[i]); err != nil {
			return flow.Outcome{}, err
		}
	}
	for i := range deployments.Items {
		if err := seed.scaleDeployment(ctx, deployments.Items[i].Name, 0); err != nil {
			return flow.Outcome{}, err
		}
	}
	if len(pods.Items) == 0 {
		return flow.Done(), nil
	}
	for i := range pods.Items { // Also pods that no workload controls.
		if err := seed.endPod(ctx, &pods.Items[i]); err != nil {
			return flow.Outcome{}, err
		}
	}
	return flow.Waiting(waitPod, fmt.Sprintf("%d pods are terminating", len(pods.Items))), nil
}

func ensureLeftoverObjectsDropped(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
	machines, err := seed.release(ctx, machineGroupVersion, machineKinds...)
	if err != nil {
		return flow.Outcome{}, err
	}
	var kinds []string
	for _, kind := range extensionobject.Kinds {
		kinds = append(kinds, kind.Name)
	}
	extensions, err := seed.release(ctx, extensionsv1alpha1.SchemeGroupVersion, kinds...)
	if err != nil {
		return flow.Outcome{}, err
	}
	// The BackupEntry is not in the namespace. After a hand-over it no longer exists.
	entries, err := dropBackupEntry(ctx, s, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	// Machine controllers put finalizers on the Secrets of their machines.
	secrets, err := seed.release(ctx, corev1.SchemeGroupVersion, "Secret")
	if err != nil {
		return flow.Outcome{}, err
	}
	resources, err := seed.managedResources(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	for i := range resources {
		if err := seed.releaseResource(ctx, &resources[i], true); err != nil {
			return flow.Outcome{}, err
		}
	}
	if left := machines + extensions + entries + secrets + len(resources); left > 0 {
		return flow.Waiting(waitObject, fmt.Sprintf("%d objects are being removed", left)), nil
	}
	return flow.Done(), nil
}

// dropBackupEntry drops the object by which an extension keeps the place of the backups in its bucket, with its
// credentials. The backups are another seed's now.
func dropBackupEntry(ctx context.Context, s *Values, seed *SeedNamespace) (int, error) {
	entry := &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: backupEntryName(s)}}
	found, err := kube.Exists(ctx, seed, entry)
	if err != nil {
		return 0, err
	}
	if found {
		before := entry.DeepCopy()
		entry.Finalizers = nil
		metav1.SetMetaDataAnnotation(&entry.ObjectMeta, extensionsv1alpha1.AnnotationConfirmDeletion, "true")
		if err := client.IgnoreNotFound(seed.Patch(ctx, entry, client.MergeFrom(before))); err != nil {
			return 0, fmt.Errorf("drop BackupEntry %q: %w", entry.Name, err)
		}
		_, err := seed.remove(ctx, entry)
		return 1, err
	}
	_, err = backup.DeleteSecret(ctx, seed, backup.EntrySecretPrefix+entry.Name)
	return 0, err
}

// RemoveCluster deletes the Cluster object, after everything in the namespace is deleted.
func RemoveCluster(ctx context.Context, seed client.Client, namespace string) error {
	_, err := kube.Delete(ctx, seed, &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	return err
}
