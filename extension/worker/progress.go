package worker

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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
		if s.Spec.Template.Labels[labelName] == deployment && s.Spec.Template.Spec.Class.Name == class &&
			s.DeletionTimestamp.IsZero() {
			return s
		}
	}
	return nil
}

// progress returns why the wanted machines are not all there yet, or "". An error means that something failed and will
// not get better by waiting alone; it carries the codes found in what the provider said.
func progress(want []Wanted, have observed, hibernated bool) (string, error) {
	failed := failures(want, have)
	if hibernated {
		if n := len(have.machines); n > 0 && failed == nil {
			return fmt.Sprintf("%d machine(s) are still to be deleted", n), nil
		}
		return "", failed
	}
	var reasons []string
	for i := range want {
		if reason := want[i].waitingFor(have); reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	reason := strings.Join(reasons, "; ")
	if failed != nil && reason != "" { // The error of one pool must not hide the reason why another waits.
		return "", fmt.Errorf("%w; %s", failed, reason)
	}
	return reason, failed
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

// DefaultMachineTimeout is how long machines may take to join, or may be unhealthy, if their pool sets no other time.
const DefaultMachineTimeout = 10 * time.Minute

const (
	// cloudMessage is the prefix of machine-controller-manager's descriptions of failed creations.
	cloudMessage = "Cloud provider message - "
	// drainFailed is the prefix of machine-controller-manager's descriptions of failed evictions.
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
	if strings.HasPrefix(description, drainFailed) { // A PodDisruptionBudget blocks it until the drain is forced.
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
	if w.waitsFor != "" {
		return fmt.Sprintf("machines of pool %q wait: %s", w.PoolName, w.waitsFor)
	}
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
		return fmt.Sprintf("MachineDeployment %q has %d of %d machines updated, %d in total%s",
			w.Name, updated, md.Spec.Replicas, s.Replicas, w.unfinishedMachines(have))
	}
	if s.AvailableReplicas < md.Spec.Replicas || s.UnavailableReplicas > 0 {
		return fmt.Sprintf("MachineDeployment %q has %d of %d machines available%s",
			w.Name, s.AvailableReplicas, md.Spec.Replicas, w.unfinishedMachines(have))
	}
	for _, c := range s.Conditions {
		bad := c.Status == machinev1alpha1.ConditionFalse
		if c.Type == machinev1alpha1.MachineDeploymentReplicaFailure || c.Type == machinev1alpha1.MachineDeploymentFrozen {
			bad = c.Status == machinev1alpha1.ConditionTrue
		}
		if bad {
			return fmt.Sprintf("MachineDeployment %q: condition %s is %s: %s", w.Name, c.Type, c.Status,
				cmp.Or(c.Message, c.Reason))
		}
	}
	return ""
}

// maxNamed bounds the machines that a reason names: with more, something else than single machines is wrong.
const maxNamed = 3

// unfinishedMachines continues a reason with the machines that have not joined, are unhealthy or are being deleted,
// and since when; "" if there are none.
func (w *Wanted) unfinishedMachines(have observed) string {
	var found []string
	for i := range have.machines {
		if m := &have.machines[i]; m.Labels[labelName] == w.Name {
			if state := w.unfinished(m); state != "" {
				found = append(found, fmt.Sprintf("machine %q %s", m.Name, state))
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	if more := len(found) - maxNamed; more > 0 {
		found = append(found[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return ": " + strings.Join(found, ", ")
}

// unfinished returns what a machine waits for, since when, and after which time it is replaced; "" if it runs.
func (w *Wanted) unfinished(m *machinev1alpha1.Machine) string {
	at := func(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
	configured := ptr.Deref(m.Spec.MachineConfiguration, machinev1alpha1.MachineConfiguration{})
	phase := m.Status.CurrentStatus
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "has been in deletion since " + at(*m.DeletionTimestamp)
	case phase.Phase == machinev1alpha1.MachinePending:
		return fmt.Sprintf("has not joined since its creation at %s (replaced after %s)",
			at(m.CreationTimestamp), timeout(configured.MachineCreationTimeout))
	case phase.Phase == machinev1alpha1.MachineUnknown && ptr.Deref(configured.DisableHealthTimeout, false):
		return "has been unhealthy since " + at(phase.LastUpdateTime)
	case phase.Phase == machinev1alpha1.MachineUnknown:
		return fmt.Sprintf("has been unhealthy since %s (replaced after %s)",
			at(phase.LastUpdateTime), timeout(configured.MachineHealthTimeout))
	}
	return ""
}

// timeout is that of a pool, or the default.
func timeout(d *metav1.Duration) time.Duration {
	return ptr.Deref(d, metav1.Duration{Duration: DefaultMachineTimeout}).Duration
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

// inPlaceReason is the progress of the update of a machine in place, or "" if none was requested.
func inPlaceReason(m *machinev1alpha1.Machine) string {
	for _, c := range m.Status.Conditions {
		if c.Type == machinev1alpha1.NodeInPlaceUpdate && c.Status == corev1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}
