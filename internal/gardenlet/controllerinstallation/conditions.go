package controllerinstallation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// Condition types and reasons of a ControllerInstallation.
const (
	conditionValid       corev1beta1.ConditionType = "Valid"
	conditionInstalled   corev1beta1.ConditionType = "Installed"
	conditionHealthy     corev1beta1.ConditionType = "Healthy"
	conditionProgressing corev1beta1.ConditionType = "Progressing"
)

// reasonNotPulled is the reason of condition Valid if the registry of the chart does not return it.
const reasonNotPulled = "OCIChartCannotBePulled"

// observed is what one reconcile has found out.
type observed struct {
	invalid       error                              // Why the newest chart or values are not used; nil if they are.
	invalidReason string                             // Reason of the condition in this case.
	resource      *resourcesv1alpha1.ManagedResource // As applied; nil if it was not.
	usedBy        *string                            // An object in the seed that needs the extension; nil if not read.
	unregistered  bool                               // The ControllerRegistration is being deleted.
	secretValues  bool                               // The chart has values of Secrets.
}

// fail stores why the newest chart or values are not used, and returns it. Shoots continue to use what is installed,
// which the other conditions are about: a passing error, even the last before a deletion, must not keep them from it.
func (o *observed) fail(reason string, err error) error {
	o.invalid, o.invalidReason = err, reason
	return err
}

// next is when to look again whether the extension is in use.
func (o *observed) next() reconcile.Result {
	if o.unregistered {
		return reconcile.Result{RequeueAfter: removalPeriod}
	}
	return reconcile.Result{RequeueAfter: requiredPeriod}
}

// required says whether the extension may be removed. Nothing else than that makes a difference to the
// controller-manager.
func required(usedBy string) corev1beta1.Condition {
	c := corev1beta1.Condition{
		Type: corev1beta1.ControllerInstallationRequired, Status: corev1beta1.ConditionFalse, Reason: "NoExtensionObjects",
		Message: "No object in the seed needs the extension.",
	}
	if usedBy != "" {
		c.Status, c.Reason, c.Message = corev1beta1.ConditionTrue, "ExtensionObjectsExist",
			"Objects in the seed need the extension, such as "+usedBy+"."
	}
	return c
}

// conditionsFor turns it into conditions, all at once. Conditions about what was not observed keep their values: an
// extension whose chart cannot be rendered stays as it was installed. One whose chart could not be pulled again is both
// invalid and applied.
func conditionsFor(before []corev1beta1.Condition, o observed, now time.Time) []corev1beta1.Condition {
	conditions := before
	set := func(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus, reason, message string) {
		conditions = corev1beta1.SetCondition(conditions,
			corev1beta1.Condition{Type: kind, Status: status, Reason: reason, Message: message}, now)
	}
	if o.usedBy != nil {
		conditions = corev1beta1.SetCondition(conditions, required(*o.usedBy), now)
	}
	if o.invalid != nil {
		set(conditionValid, corev1beta1.ConditionFalse, o.invalidReason, o.invalid.Error())
	}
	if o.resource == nil {
		return conditions
	}
	if o.invalid == nil {
		set(conditionValid, corev1beta1.ConditionTrue, "RegistrationValid", "The chart can be rendered.")
	}
	for _, row := range []struct {
		kind                   corev1beta1.ConditionType
		from                   corev1beta1.ConditionType
		yes, no, pending, text string
		progressing            bool
	}{
		{conditionInstalled, resourcesv1alpha1.ResourcesApplied, "InstallationSuccessful", "InstallationFailed",
			"InstallationPending", "The extension is installed.", false},
		{conditionHealthy, resourcesv1alpha1.ResourcesHealthy, "ControllerHealthy", "ControllerNotHealthy",
			"ControllerNotHealthy", "The extension is healthy.", false},
		{conditionProgressing, resourcesv1alpha1.ResourcesProgressing, "ControllerNotRolledOut", "ControllerRolledOut",
			"ControllerNotRolledOut", "The extension is being rolled out.", true},
	} {
		source := sourceCondition(o.resource, row.from)
		switch {
		case source == nil || source.Status == corev1beta1.ConditionUnknown ||
			source.Status == corev1beta1.ConditionProgressing:
			pending := corev1beta1.ConditionFalse
			if row.progressing {
				pending = corev1beta1.ConditionTrue
			}
			message := "The resource-manager has not reported yet."
			if source != nil {
				message = o.messageOf(source)
			}
			set(row.kind, pending, row.pending, message)
		case source.Status == corev1beta1.ConditionTrue:
			set(row.kind, corev1beta1.ConditionTrue, row.yes, textOr(o.messageOf(source), row.text))
		default:
			set(row.kind, corev1beta1.ConditionFalse, row.no, o.messageOf(source))
		}
	}
	return conditions
}

// valueless are reasons of a ManagedResource's conditions whose messages contain nothing of the objects.
var valueless = []string{
	resourcesv1alpha1.ReasonApplyProgressing, resourcesv1alpha1.ReasonApplySucceeded,
	resourcesv1alpha1.ReasonChecksPending,
	resourcesv1alpha1.ReasonResourcesHealthy, resourcesv1alpha1.ReasonResourcesRolledOut,
}

// messageOf returns the message of a condition of the ManagedResource for readers of the ControllerInstallation. Errors
// of API servers, which are also in the status of objects, repeat invalid values.
func (o *observed) messageOf(source *corev1beta1.Condition) string {
	if !o.secretValues || slices.Contains(valueless, source.Reason) {
		return source.Message
	}
	return fmt.Sprintf("See the condition %s of ManagedResource %s in the seed: the message is left out here because it "+
		"may contain values of the Secrets in resources.", source.Type, client.ObjectKeyFromObject(o.resource))
}

// errNotApplied stands for an error that may contain values of Secrets.
var errNotApplied = errors.New("the ManagedResource of the extension cannot be applied to the seed; see the log of the " +
	"gardenlet: the error is left out here because it may contain values of the Secrets in resources")

// withoutValues is an error of applying the objects, for readers of the ControllerInstallation.
func (o *observed) withoutValues(err error) error {
	if o.secretValues {
		return errNotApplied
	}
	return err
}

// sourceCondition returns a condition of the ManagedResource, nil if it speaks of an older spec.
func sourceCondition(mr *resourcesv1alpha1.ManagedResource, kind corev1beta1.ConditionType) *corev1beta1.Condition {
	if mr.Status.ObservedGeneration != mr.Generation {
		return nil
	}
	return corev1beta1.FindCondition(mr.Status.Conditions, kind)
}

func textOr(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
