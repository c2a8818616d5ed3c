package maintenance

// Cluster is what the choice of versions needs to know about a Shoot. It is a value: applying a decision makes a new
// one, and years of maintenance can be played through without touching a Shoot.
type Cluster struct {
	Kubernetes     string
	AutoKubernetes bool // Update Kubernetes, of control plane and pools, before its version expires.
	AutoImage      bool // The same for machine images.
	Pools          []Pool
}

// Pool is the part of a Cluster that is one worker pool.
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
