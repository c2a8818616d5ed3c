package maintenance

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Describe says in one sentence what the item does or would have done.
func (i *Item) Describe() string {
	prefix := i.prefix()
	if i.Err == nil {
		if i.Subject == PoolImage {
			return fmt.Sprintf("%sUpdated machine image %q from %q to %q. Reason: %s", prefix, i.Image, i.From, i.To, i.Reason)
		}
		return fmt.Sprintf("%sUpdated Kubernetes version from %q to %q. Reason: %s", prefix, i.From, i.To, i.Reason)
	}
	switch i.Subject {
	case ControlPlane:
		return prefix + "Kubernetes version update failed. Reason for update: " + i.Reason
	case PoolKubernetes:
		return prefix + "Kubernetes version maintenance failed. Reason for update: " + i.Reason
	}
	return prefix + "machine image version maintenance failed. Reason for update: " + i.Reason
}

func (i *Item) prefix() string {
	if i.Subject == ControlPlane {
		return "Control Plane: "
	}
	return fmt.Sprintf("Worker pool %q: ", i.Pool)
}

func (i *Item) failure() string {
	if i.Subject == PoolImage {
		return i.prefix() + i.Err.Error()
	}
	return i.prefix() + "Kubernetes maintenance failure due to: " + i.Err.Error()
}

// Describe says in one sentence what the rotation does or would have done.
func (c *Credential) Describe() string {
	if c.Err != "" {
		return fmt.Sprintf("Credentials %q: Automatic rotation failed. Reason for update: %s", c.Operation, c.Reason)
	}
	return fmt.Sprintf("Credentials %q: %s. Reason: %s", c.Operation, c.text, c.Reason)
}

// LastMaintenance is the entry for the Shoot's status until the changes have been written.
func (o *Outcome) LastMaintenance(now time.Time) *corev1beta1.LastMaintenance {
	var texts, failures []string
	var succeeded, failed int
	count := func(failure string) {
		if failure == "" {
			succeeded++
			return
		}
		failed++
		failures = append(failures, failure)
	}
	for i := range o.Decision.Items {
		item := &o.Decision.Items[i]
		texts = append(texts, item.Describe())
		if item.Err != nil {
			count(item.failure())
		} else {
			count("")
		}
	}
	for i := range o.Credentials {
		c := &o.Credentials[i]
		texts = append(texts, c.Describe())
		if c.Err != "" {
			count(fmt.Sprintf("Credentials %q: %s", c.Operation, c.Err))
		} else {
			count("")
		}
	}
	texts = append(texts, o.Operations...)
	last := &corev1beta1.LastMaintenance{
		Description:   "All maintenance operations successful. " + strings.Join(texts, ", "),
		TriggeredTime: metav1.NewTime(now),
		State:         corev1beta1.LastOperationStateProcessing,
	}
	if failed > 0 {
		reason := strings.Join(failures, ", ")
		last.Description = fmt.Sprintf("(%d/%d) maintenance operations successful. %s", succeeded, succeeded+failed,
			strings.Join(texts, ", "))
		last.State, last.FailureReason = corev1beta1.LastOperationStateFailed, &reason
	}
	return last
}

// Refused is the entry for a maintenance whose changes the API server refuses.
func Refused(now time.Time, err error) *corev1beta1.LastMaintenance {
	reason := "Updates to the Shoot failed to be applied: " + err.Error()
	return &corev1beta1.LastMaintenance{
		Description:   "Maintenance failed",
		TriggeredTime: metav1.NewTime(now),
		State:         corev1beta1.LastOperationStateFailed,
		FailureReason: &reason,
	}
}

// Settle returns the entry after a maintenance has been carried out, or nil to leave it as it is. A maintenance with
// nothing to do clears an earlier failure; a failure of this maintenance remains until a later one succeeds.
func Settle(last *corev1beta1.LastMaintenance, recorded bool) *corev1beta1.LastMaintenance {
	if last == nil {
		return nil
	}
	settled := last.DeepCopy()
	settled.State, settled.FailureReason = corev1beta1.LastOperationStateSucceeded, nil
	switch {
	case last.State == corev1beta1.LastOperationStateProcessing:
		return settled
	case last.State == corev1beta1.LastOperationStateFailed && !recorded:
		settled.Description = "Maintenance succeeded"
		return settled
	}
	return nil
}

// Event is an event on the Shoot about one item.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// Events lists the events, in the order of the items.
func (o *Outcome) Events() []Event {
	var events []Event
	for i := range o.Decision.Items {
		item := &o.Decision.Items[i]
		e := Event{Reason: corev1beta1.EventKubernetesVersionMaintenance, Message: item.Describe(), Warning: item.Err != nil}
		if item.Subject == PoolImage {
			e.Reason = corev1beta1.EventMachineImageVersionMaintenance
		}
		if item.Err != nil {
			e.Message += ". Error: " + item.Err.Error()
		}
		events = append(events, e)
	}
	for i := range o.Credentials {
		if c := &o.Credentials[i]; c.Err != "" {
			events = append(events, Event{
				Warning: true, Reason: corev1beta1.EventMaintenanceFailed, Message: c.Describe() + ". Error: " + c.Err,
			})
		}
	}
	return events
}
