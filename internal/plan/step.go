package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"

	"hortus.dev/hortus/internal/maintenance"
)

// Step is one maintenance decision about one Shoot, and the resulting versions.
type Step struct {
	Namespace         string       `json:"namespace"`
	Name              string       `json:"name"`
	Changed           bool         `json:"changed"` // Some version changes.
	Failed            bool         `json:"failed"`  // A due change cannot be made, or there is no CloudProfile.
	KubernetesVersion string       `json:"kubernetesVersion"`
	Workers           []StepWorker `json:"workers"`
	Reasons           []string     `json:"reasons"`
}

// StepWorker is the state of a worker pool after a Step.
type StepWorker struct {
	Name              string `json:"name"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"` // Only if the pool sets its own.
	Image             string `json:"image"`
	ImageVersion      string `json:"imageVersion"`
}

// WriteSteps makes the next maintenance decision for every Shoot at the given time, whatever its window, and writes one
// line of JSON for each.
func WriteSteps(out io.Writer, in *Input, at time.Time) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	deciders := map[profileKey]*maintenance.Decider{}
	for _, s := range in.Shoots {
		if err := encoder.Encode(takeStep(in, s, deciders, at)); err != nil {
			return fmt.Errorf("write step of Shoot %s: %w", s.key, err)
		}
	}
	return nil
}

func takeStep(in *Input, s *Shoot, deciders map[profileKey]*maintenance.Decider, at time.Time) Step {
	after := s.cluster
	step := Step{Namespace: s.Namespace, Name: s.Name, Reasons: []string{}}
	profile, err := in.profileOf(s)
	switch {
	case s.deleting:
	case err != nil:
		step.Failed, step.Reasons = true, append(step.Reasons, err.Error())
	default:
		if deciders[s.profile] == nil {
			deciders[s.profile] = maintenance.NewDecider(profile)
		}
		decision := deciders[s.profile].Decide(&s.cluster, at)
		after = s.cluster.Apply(&decision)
		step.Failed = decision.Failed()
		for i := range decision.Items {
			item := &decision.Items[i]
			text := item.Describe()
			if item.Err != nil {
				text += ". Error: " + item.Err.Error()
			}
			step.Reasons = append(step.Reasons, text)
		}
		for _, c := range s.credentials(at) {
			text := c.Describe()
			if c.Err != "" {
				step.Failed, text = true, text+". Error: "+c.Err
			}
			step.Reasons = append(step.Reasons, text)
		}
		if s.spec != nil {
			step.Reasons = append(step.Reasons, maintenance.FixUp(s.spec.DeepCopy(), &after, s.cluster.Kubernetes)...)
		}
		if decision.ImageErr != nil {
			step.Reasons = append(step.Reasons, "Machine images are not maintained: "+decision.ImageErr.Error())
		}
		if refusal := deciders[s.profile].RefusedBy(&s.cluster, &after); decision.Changed() && refusal != "" {
			step.Reasons = append(step.Reasons, "The API server will refuse the whole maintenance: "+refusal)
		}
	}
	step.Changed = !reflect.DeepEqual(s.cluster, after)
	step.KubernetesVersion = after.Kubernetes
	step.Workers = make([]StepWorker, 0, len(after.Pools))
	for _, pool := range after.Pools {
		step.Workers = append(step.Workers, StepWorker{pool.Name, pool.Kubernetes, pool.Image, pool.ImageVersion})
	}
	return step
}

// credentials are the rotations that a maintenance at the given time starts, or cannot start.
func (s *Shoot) credentials(at time.Time) []maintenance.Credential {
	if !s.startable {
		return nil
	}
	hibernated := s.hibernation != nil && s.hibernation.Enabled != nil && *s.hibernation.Enabled
	return maintenance.DueRotations(s.rotations, s.deferred, hibernated, at)
}
