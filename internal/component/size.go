package component

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Size is how large a cluster may become. There are few sizes, so that few changes of a Shoot restart its control
// plane. Empty is for processes whose load does not come from tenants.
type Size string

// The sizes, by the number of nodes.
const (
	Small  Size = "small"  // At most 30.
	Medium Size = "medium" // At most 300.
	Large  Size = "large"
)

// SizeFor returns the size for a number of nodes.
func SizeFor(nodes int32) Size {
	switch {
	case nodes <= 30:
		return Small
	case nodes <= 300:
		return Medium
	}
	return Large
}

// MemoryLimit returns the limit of a process whose memory grows with its cluster, from the limit for a small one. The
// kernel ends a process that reaches its limit, instead of a neighbour on its node. Limits are several times what
// clusters of a size need, since a control plane that its owner has filled can't start again below its limit.
func (s Size) MemoryLimit(small string) string {
	factor, known := map[Size]int64{Small: 1, Medium: 4, Large: 16}[s]
	if !known {
		return ""
	}
	limit := resource.MustParse(small)
	limit.Mul(factor)
	return limit.String()
}

// collector configures Go's garbage collector in a process of a cluster. Most clusters are small and idle, so their
// main cost is memory. A heap that grows by half before it is collected, instead of doubling, saves a quarter of the
// memory of an idle kube-apiserver (144 instead of 191 MiB), and costs a tenth of a second at its start. Large clusters
// have more load.
func (s Size) collector() []corev1.EnvVar {
	if s != Small {
		return nil
	}
	return []corev1.EnvVar{{Name: "GOGC", Value: "50"}}
}

// softMemoryLimit is the memory use from which Go collects garbage more often instead of allocating more: seven eighths
// of the limit. The rest is for memory that Go does not count, such as stacks of threads and the kernel's buffers.
func softMemoryLimit(limit string) corev1.EnvVar {
	bytes := resource.MustParse(limit)
	soft := resource.NewQuantity(bytes.Value()/8*7/(1<<20)*(1<<20), resource.BinarySI)
	return corev1.EnvVar{Name: "GOMEMLIMIT", Value: soft.String() + "B"}
}
