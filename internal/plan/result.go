package plan

import (
	"time"

	"hortus.dev/hortus/internal/maintenance"
)

// Interval is one occurrence of a maintenance window.
type Interval struct {
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
}

// Effect is what an update does to the nodes of one pool.
type Effect string

const (
	EffectRoll           Effect = "roll"            // Nodes are replaced by a rolling update.
	EffectInPlace        Effect = "in-place"        // Nodes are updated without being replaced.
	EffectManualInPlace  Effect = "in-place-manual" // Nodes are updated in place once the owner has selected them.
	EffectKubeletRestart Effect = "kubelet-restart" // Only kubelets are restarted.
)

// PoolEffect is what an update does to the nodes of a pool.
type PoolEffect struct {
	Pool   string `json:"pool"`
	Effect Effect `json:"effect"`
}

// Change is one version that a maintenance will change.
type Change struct {
	At      time.Time           `json:"at"` // The exact time within the window.
	Window  Interval            `json:"window"`
	Subject maintenance.Subject `json:"subject"`
	Pool    string              `json:"pool,omitempty"`
	Image   string              `json:"image,omitempty"`
	From    string              `json:"from"`
	To      string              `json:"to"`
	Rule    string              `json:"rule"`   // Short name of the cause and the reach: auto/patch, expired/force, ...
	Reason  string              `json:"reason"` // As the controller will report it.
	Forced  bool                `json:"forced,omitempty"`
	// Effects has one entry per affected pool; it is empty for a control plane without pools.
	Effects []PoolEffect `json:"effects,omitempty"`
	// Hibernated is true if there are no nodes at that time: they are created with the new version later.
	Hibernated bool     `json:"hibernated,omitempty"`
	Notes      []string `json:"notes,omitempty"` // Fields that the update removes from the Shoot.

	minor bool // The Kubernetes minor changes.
}

// DeadEnd is a version that has to be updated and cannot be.
type DeadEnd struct {
	Since   time.Time           `json:"since"`           // The first maintenance that fails.
	Until   *time.Time          `json:"until,omitempty"` // The maintenance that resolves it, if one does.
	Subject maintenance.Subject `json:"subject,omitempty"`
	Pool    string              `json:"pool,omitempty"`
	Image   string              `json:"image,omitempty"`
	Version string              `json:"version,omitempty"`
	Reason  string              `json:"reason"`            // As the controller will report it.
	Because string              `json:"because,omitempty"` // The part of the reason that says what is missing.
	Fix     string              `json:"fix"`
	// Deadline is the time until which the fix prevents the dead end: the expiration of the version. Empty if it has
	// passed or there is none.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Temporary is true if a later change in the CloudProfile that is already scheduled resolves the dead end.
	Temporary bool `json:"temporary,omitempty"`
}

// Rotations are the times at which one credential will be rotated.
type Rotations struct {
	Operation string      `json:"operation"`
	Times     []time.Time `json:"times"`
}

// Operation is an operation that the Shoot's owner has scheduled for the next maintenance.
type Operation struct {
	At     time.Time `json:"at"`
	Window Interval  `json:"window"`
	Name   string    `json:"name"`
}

// ShootPlan is the plan for one Shoot.
type ShootPlan struct {
	Namespace    string      `json:"namespace"`
	Name         string      `json:"name"`
	CloudProfile string      `json:"cloudProfile"`
	Kubernetes   string      `json:"kubernetesVersion"` // At the start of the plan.
	Changes      []Change    `json:"changes,omitempty"`
	DeadEnds     []DeadEnd   `json:"deadEnds,omitempty"`
	Rotations    []Rotations `json:"rotations,omitempty"`
	Operations   []Operation `json:"operations,omitempty"`
	// EndKubernetes is the version of the control plane at the end of the plan.
	EndKubernetes string `json:"kubernetesVersionAtEnd"`
}

// Stuck reports whether the Shoot is in a dead end at the end of the plan.
func (s *ShootPlan) Stuck() bool {
	for i := range s.DeadEnds {
		if !s.DeadEnds[i].Temporary {
			return true
		}
	}
	return false
}

// Plan is the plan for a fleet between two times.
type Plan struct {
	At     time.Time   `json:"at"`
	Until  time.Time   `json:"until"`
	Shoots []ShootPlan `json:"shoots"`
}

// DeadEnd reports whether any Shoot is in a dead end at the end of the plan.
func (p *Plan) DeadEnd() bool {
	for i := range p.Shoots {
		if p.Shoots[i].Stuck() {
			return true
		}
	}
	return false
}
