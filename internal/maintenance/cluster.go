package maintenance

// Cluster is the part of a Shoot from which versions are chosen. It is a value: applying a decision returns a new one,
// so that years of maintenance can be simulated without changing a Shoot.
type Cluster struct {
	Kubernetes     string
	AutoKubernetes bool // Update Kubernetes of the control plane and the pools before its version expires.
	AutoImage      bool // Likewise for machine images.
	Pools          []Pool
}

// Pool is the part of a Cluster that describes one worker pool.
type Pool struct {
	Name         string
	Kubernetes   string // Empty: follows the control plane.
	MachineType  string
	Architecture string
	CRI          string
	Runtimes     string // Types of additional runtimes, sorted, joined by commas.
	Image        string
	ImageVersion string
	InPlace      bool
}

// effectiveKubernetes is the version of the pool's kubelets.
func (p *Pool) effectiveKubernetes(controlPlane string) string {
	if p.Kubernetes != "" {
		return p.Kubernetes
	}
	return controlPlane
}
