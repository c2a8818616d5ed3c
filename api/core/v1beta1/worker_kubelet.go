package v1beta1

// EffectiveKubelet returns the kubelet settings of a pool: its own, which replace those of the Shoot as a whole, else
// those of the Shoot; nil if neither has any.
func EffectiveKubelet(shoot *Shoot, pool *Worker) *KubeletConfig {
	if pool.Kubernetes != nil && pool.Kubernetes.Kubelet != nil {
		return pool.Kubernetes.Kubelet
	}
	return shoot.Spec.Kubernetes.Kubelet
}
