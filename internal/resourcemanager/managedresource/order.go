package managedresource

import (
	"cmp"
	"slices"
)

// installOrder is the order of kinds in which Helm installs them. Helm's own list would bring all of Helm with it, of
// which every control plane would keep several MiB in memory; a test compares both.
var installOrder = []string{
	"PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount",
	"Secret", "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition",
	"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "DaemonSet", "Pod", "ReplicationController",
	"ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress",
	"APIService",
}

// kindRank is the place of a kind in the order of installation; kinds that are not in it come last.
var kindRank = func() map[string]int {
	rank := make(map[string]int, len(installOrder))
	for i, kind := range installOrder {
		rank[kind] = i
	}
	return rank
}()

func rankOf(kind string) int {
	if r, ok := kindRank[kind]; ok {
		return r
	}
	return len(kindRank)
}

// inOrder groups objects for application: groups one after the other, objects of a group in any order.
func inOrder(objects []*object) [][]*object {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b *object) int {
		return cmp.Or(cmp.Compare(rankOf(a.ref.Kind), rankOf(b.ref.Kind)), cmp.Compare(a.ref.Kind, b.ref.Kind))
	})
	var groups [][]*object
	for i, o := range sorted {
		if i == 0 || o.ref.Kind != sorted[i-1].ref.Kind {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], o)
	}
	return groups
}
