package worker

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/extension/errorcode"
)

// observed is what is there of a Worker's machines.
type observed struct {
	deployments []machinev1alpha1.MachineDeployment
	sets        []machinev1alpha1.MachineSet
	machines    []machinev1alpha1.Machine
}

func (o *observed) deployment(name string) *machinev1alpha1.MachineDeployment {
	for i := range o.deployments {
		if o.deployments[i].Name == name {
			return &o.deployments[i]
		}
	}
	return nil
}

// setOf returns the MachineSet of a MachineDeployment with the given class, or nil.
func (o *observed) setOf(deployment, class string) *machinev1alpha1.MachineSet {
	for i := range o.sets {
		s := &o.sets[i]
		if s.Spec.Template.Labels[labelName] == deployment && s.Spec.Template.Spec.Class.Name == class && s.DeletionTimestamp.IsZero() {
			return s
		}
	}
	return nil
}

// progress returns why the wanted machines are not all there yet, or "". An error means that something failed and will not
// get better by waiting alone; it carries the codes found in what the provider said.
func progress(want []Wanted, have observed, hibernated bool) (string, error) {
	if err := failures(want, have); err != nil {
		return "", err
	}
	if hibernated {
		if n := len(have.machines); n > 0 {
			return fmt.Sprintf("%d machine(s) are still to be deleted", n), nil
		}
		return "", nil
	}
	var reasons []string
	for i := range want {
		if reason := want[i].waitingFor(have); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	return strings.Join(reasons, "; "), nil
}

// failures collects what went wrong with machines of wanted deployments, the same text every time.
func failures(want []Wanted, have observed) error {
	names := map[string]bool{}
	for i := range want {
		names[want[i].Name] = true
	}
	said := map[string]string{}
	var known []corev1beta1.ErrorCode
	for i := range have.machines {
		m := &have.machines[i]
		if names[m.Labels[labelName]] && m.Status.LastOperation.State == machinev1alpha1.MachineStateFailed {
			said[m.Name] = m.Status.LastOperation.Description
			known = append(known, codesOf(m.Status.LastOperation.Description)...)
		}
	}
	if len(said) == 0 {
		return nil
	}
	var texts []string
	for name, text := range said {
		texts = append(texts, fmt.Sprintf("machine %q failed: %s", name, text))
	}
	slices.Sort(texts)
	return errorcode.With(errors.New(strings.Join(texts, "; ")), known...)
}

const (
	// cloudMessage begins what machine-controller-manager writes when a machine could not be created.
	cloudMessage = "Cloud provider message - "
	// drainFailed begins what machine-controller-manager writes when pods could not be evicted.
	drainFailed = "Drain failed due to - "
)

// statusText is how machine-controller-manager writes an error of the cloud: its status code and the cloud's own text.
var statusText = regexp.MustCompile(`(?s)machine codes error: code = \[(\w+)\] message = \[(.*)\]`)

// codesOf returns the codes of a failed operation on a machine. Only the cloud's own text is searched: the rest has the
// names of status codes, machines and pods, node conditions, and errors of the Shoot's API server, all of which pass.
func codesOf(description string) []corev1beta1.ErrorCode {
	if match := statusText.FindStringSubmatch(description); match != nil {
		found := errorcode.OfText(match[2])
		switch codes.StringToCode(match[1]) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Canceled:
			return slices.DeleteFunc(found, func(c corev1beta1.ErrorCode) bool { return !slices.Contains(retryable, c) })
		}
		return found
	}
	if text, found := strings.CutPrefix(description, cloudMessage); found {
		return errorcode.OfText(text)
	}
	if strings.HasPrefix(description, drainFailed) { // A PodDisruptionBudget is in the way until the drain is forced.
		return slices.DeleteFunc(errorcode.OfText(description), func(c corev1beta1.ErrorCode) bool {
			return c != corev1beta1.ErrorRetryableConfigurationProblem
		})
	}
	return nil
}

// retryable are the codes of errors that pass without a user.
var retryable = []corev1beta1.ErrorCode{
	corev1beta1.ErrorInfraRateLimitsExceeded, corev1beta1.ErrorRetryableInfraDependencies,
	corev1beta1.ErrorInfraResourcesDepleted, corev1beta1.ErrorRetryableConfigurationProblem,
}

func (w *Wanted) waitingFor(have observed) string {
	md := have.deployment(w.Name)
	if md == nil {
		return fmt.Sprintf("MachineDeployment %q does not exist yet", w.Name)
	}
	if md.Status.ObservedGeneration < md.Generation {
		return fmt.Sprintf("MachineDeployment %q has not been observed yet", w.Name)
	}
	set := have.setOf(w.Name, w.ClassName)
	if set == nil {
		return fmt.Sprintf("MachineDeployment %q has no MachineSet of class %q yet", w.Name, w.ClassName)
	}
	old := w.oldMachinesByHand(have, set.Name)
	for _, m := range old {
		if reason := inPlaceReason(m); reason != "" && reason != "CandidateForUpdate" && reason != "UpdateSuccessful" {
			return fmt.Sprintf("machine %q is being updated (%s)", m.Name, reason)
		}
	}
	s := md.Status
	if updated := s.UpdatedReplicas + int32(len(old)); updated != md.Spec.Replicas || s.Replicas != md.Spec.Replicas {
		return fmt.Sprintf("MachineDeployment %q has %d of %d machines updated, %d in total", w.Name, updated, md.Spec.Replicas, s.Replicas)
	}
	if s.AvailableReplicas < md.Spec.Replicas || s.UnavailableReplicas > 0 {
		return fmt.Sprintf("MachineDeployment %q has %d of %d machines available", w.Name, s.AvailableReplicas, md.Spec.Replicas)
	}
	for _, c := range s.Conditions {
		bad := c.Status == machinev1alpha1.ConditionFalse
		if c.Type == machinev1alpha1.MachineDeploymentReplicaFailure || c.Type == machinev1alpha1.MachineDeploymentFrozen {
			bad = c.Status == machinev1alpha1.ConditionTrue
		}
		if bad {
			return fmt.Sprintf("MachineDeployment %q: condition %s is %s: %s", w.Name, c.Type, c.Status, cmp.Or(c.Message, c.Reason))
		}
	}
	return ""
}

// oldMachinesByHand returns the machines that wait in old sets until a user selects them.
func (w *Wanted) oldMachinesByHand(have observed, newSet string) []*machinev1alpha1.Machine {
	if strategy(w.pool) != corev1beta1.ManualInPlaceUpdate {
		return nil
	}
	var out []*machinev1alpha1.Machine
	for i := range have.machines {
		m := &have.machines[i]
		if m.Labels[labelName] != w.Name || !m.DeletionTimestamp.IsZero() {
			continue
		}
		if len(m.OwnerReferences) > 0 && m.OwnerReferences[0].Name != newSet {
			out = append(out, m)
		}
	}
	return out
}

// inPlaceReason is how far the update of a machine in place has come, or "" if none was asked for.
func inPlaceReason(m *machinev1alpha1.Machine) string {
	for _, c := range m.Status.Conditions {
		if c.Type == machinev1alpha1.NodeInPlaceUpdate && c.Status == corev1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}
