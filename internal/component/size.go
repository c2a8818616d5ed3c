package component

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Size is how large a cluster may become. There are few, so that few changes of a Shoot restart its control plane.
// Empty is the size of nothing that a tenant drives.
type Size string

// The sizes, by the number of nodes.
const (
	Small  Size = "small"  // At most 30.
	Medium Size = "medium" // At most 300.
	Large  Size = "large"
)

// ElectionRetryPeriod is how often controllers of Kubernetes renew the Lease of their leader, and look whether it is
// free. Each time is a write of etcd: with the default, 2s, three quarters of what an idle control plane is asked for.
// The Lease lasts 15 s, as ever.
const ElectionRetryPeriod = "5s"

// SizeFor a number of nodes.
func SizeFor(nodes int32) Size {
	switch {
	case nodes <= 30:
		return Small
	case nodes <= 300:
		return Medium
	}
	return Large
}

// MemoryLimit of a process whose memory grows with its cluster, by that of a small one. A process that reaches it is
// ended by the kernel, instead of a neighbour on its node. Limits are several times what clusters of a size need, since
// a control plane that its owner has filled can't start again below its limit.
func (s Size) MemoryLimit(small string) string {
	factor, known := map[Size]int64{Small: 1, Medium: 4, Large: 16}[s]
	if !known {
		return ""
	}
	limit := resource.MustParse(small)
	limit.Mul(factor)
	return limit.String()
}

// collector is how Go collects garbage in a process of a cluster. Most clusters are small and idle, so that memory is
// what they cost: a heap that grows by half before it is collected, instead of doubling, takes a quarter of the memory
// of an idle kube-apiserver away (191 MiB become 144) and costs it a tenth of a second when it starts. Large ones have
// more to do.
func (s Size) collector() []corev1.EnvVar {
	if s != Small {
		return nil
	}
	return []corev1.EnvVar{{Name: "GOGC", Value: "50"}}
}

// softMemoryLimit is where Go collects garbage more often rather than taking more: seven eighths of the limit. The rest
// is for what Go does not count, such as stacks of threads and the kernel's buffers.
func softMemoryLimit(limit string) corev1.EnvVar {
	bytes := resource.MustParse(limit)
	soft := resource.NewQuantity(bytes.Value()/8*7/(1<<20)*(1<<20), resource.BinarySI)
	return corev1.EnvVar{Name: "GOMEMLIMIT", Value: soft.String() + "B"}
}
