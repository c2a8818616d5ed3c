package csr

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Decision on a request.
type Decision struct {
	Approved bool
	Reason   string // Reason of the condition: names the approver.
	Message  string // Why.
}

// Write approves or denies a request. A request that has changed or is gone meanwhile is left alone without an error:
// the change triggers another reconciliation.
func Write(
	ctx context.Context, c client.Client, r *certificatesv1.CertificateSigningRequest, d Decision, now time.Time,
) error {
	kind := certificatesv1.CertificateDenied
	if d.Approved {
		kind = certificatesv1.CertificateApproved
	}
	at := metav1.NewTime(now)
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: d.Reason, Message: d.Message, LastUpdateTime: at,
		LastTransitionTime: at,
	})
	err := c.SubResource("approval").Update(ctx, r)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("update approval: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Approved or denied CertificateSigningRequest", "CertificateSigningRequest", r.Name,
		"decision", kind, "requester", r.Spec.Username, "reason", d.Message)
	return nil
}
