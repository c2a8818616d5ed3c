package care

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/secretsmanager"
)

// caWarning is the time before the expiration of a CA from which users are warned: only they can rotate it.
const caWarning = 365 * 24 * time.Hour

// Constraints checks the observed state and returns the constraints that follow the Shoot's present ones. Constraints
// that are shown only for problems are left out otherwise.
func Constraints(o *Observed) []corev1beta1.Condition {
	var out []corev1beta1.Condition
	add := func(kind corev1beta1.ConditionType, f Finding, always bool) {
		if always || f.Status != corev1beta1.ConditionTrue {
			out = append(out, corev1beta1.Condition{
				Type: kind, Status: f.Status, Reason: f.Reason, Message: f.Message, Codes: f.Codes,
			})
		}
	}
	webhooks := webhookConstraint(o)
	add(corev1beta1.ShootHibernationPossible, webhooks, true)
	add(corev1beta1.ShootMaintenancePreconditionsSatisfied, webhooks, true)
	add(corev1beta1.ShootCACertificateValiditiesAcceptable, certificates(o), false)
	if o.answers() {
		add(corev1beta1.ShootCRDsWithProblematicConversionWebhooks, conversions(o), false)
	}
	add(corev1beta1.ShootManualInPlaceWorkersUpdated, manualUpdates(o.Shoot), false)
	add(corev1beta1.ShootAutomaticCredentialsRotationPossible, automaticRotation(o), false)
	// Another controller reports this constraint.
	if c := corev1beta1.FindCondition(o.Shoot.Status.Constraints, corev1beta1.ShootReadyForMigration); c != nil {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b corev1beta1.Condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return out
}

func webhookConstraint(o *Observed) Finding {
	switch {
	case o.hibernated():
		return good("ConstraintNotChecked", "Shoot cluster has been hibernated.")
	case !o.answers():
		return bad("ConstraintNotChecked", "Shoot control plane is not running at the moment.")
	}
	if names := &o.Webhooks.Problematic; names.Count > 0 {
		message := fmt.Sprintf("Webhooks may keep system components from working if they do not answer: %s. "+
			"Exclude kube-system by a namespaceSelector on the label gardener.cloud/purpose, or set failurePolicy Ignore and timeoutSeconds of at most %d.",
			names, maxTimeoutSeconds)
		if names := &o.Webhooks.ChangedBack; names.Count > 0 {
			message += fmt.Sprintf(" Changed to protect the cluster, and changed back since then: %s.", names)
		}
		return bad("ProblematicWebhooks", message, corev1beta1.ErrorProblematicWebhook)
	}
	if f, ok := tooMuch(o, MutatingWebhooks, ValidatingWebhooks); ok {
		return f
	}
	if names := &o.Webhooks.Repaired; names.Count > 0 {
		return bad("RemediatedWebhooks", fmt.Sprintf("These webhook configurations were changed to protect the cluster; "+
			"see their annotation gardener.cloud/warning: %s.", names), corev1beta1.ErrorProblematicWebhook)
	}
	return good("NoProblematicWebhooks", "All webhooks are properly configured.")
}

func certificates(o *Observed) Finding {
	var expiring []string
	for i := range o.CAs {
		seconds, err := strconv.ParseInt(o.CAs[i].Labels[secretsmanager.LabelValidUntil], 10, 64)
		if err != nil {
			continue
		}
		if end := time.Unix(seconds, 0); end.Before(o.Now.Add(caWarning)) {
			expiring = append(expiring, fmt.Sprintf("%q (expiring at %s)", o.CAs[i].Labels[secretsmanager.LabelName],
				end.UTC().Format(time.RFC3339)))
		}
	}
	if len(expiring) == 0 {
		return good("NoExpiringCACertificates", "All CA certificates are still valid for at least 1y.")
	}
	slices.Sort(expiring)
	return bad("ExpiringCACertificates",
		"Some CA certificates are expiring in less than one year, you should rotate them: "+strings.Join(expiring, ", ")+".")
}

// needsItsWebhook reports whether a definition cannot be moved to one version without its webhook.
func needsItsWebhook(d *apiextensionsv1.CustomResourceDefinition) bool {
	return d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter &&
		len(d.Status.StoredVersions) > 1
}

func conversions(o *Observed) Finding {
	if names := &o.Conversions; names.Count > 0 {
		return bad("CRDsWithProblematicConversionWebhooks", fmt.Sprintf(
			"Some CRDs in your cluster have multiple stored versions present and have a conversion webhook configured: %s.",
			names))
	}
	if f, ok := tooMuch(o, Definitions); ok {
		return f
	}
	return good("NoCRDsWithProblematicConversionWebhooks",
		"No definition depends on a conversion webhook for stored objects.")
}

func manualUpdates(shoot *corev1beta1.Shoot) Finding {
	if u := shoot.Status.InPlaceUpdates; u != nil && u.PendingWorkerUpdates != nil &&
		len(u.PendingWorkerUpdates.ManualInPlaceUpdate) > 0 {
		return bad("WorkerPoolsWithManualInPlaceUpdateStrategyPending",
			fmt.Sprintf("Worker pools wait for their nodes to be selected for an update in place: %s.",
				strings.Join(u.PendingWorkerUpdates.ManualInPlaceUpdate, ", ")))
	}
	return good("NoPendingUpdates", "No worker pool waits for a manual update.")
}

// automaticRotation finds rotations that wait for a maintenance window in which the Shoot is awake, and would for ever.
func automaticRotation(o *Observed) Finding {
	if maintenance.RotationBlocked(o.Shoot, o.Now) {
		return bad("MaintenanceWindowDuringHibernation",
			"The ETCD encryption key is due to be rotated, but the cluster is hibernated in every maintenance window to come. "+
				"Change spec.maintenance.timeWindow or spec.hibernation.schedules, or rotate the key by hand.")
	}
	return good("RotationPossible", "Credentials can be rotated in maintenance windows.")
}
