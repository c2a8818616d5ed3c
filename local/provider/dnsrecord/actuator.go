// Package dnsrecord acts on DNSRecords: record sets in the DNS of the cloud.
package dnsrecord

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/local/cloud"
)

// zone is the only zone the cloud has.
const zone = "local"

// maxTTLSeconds is the maximum of the cloud, in seconds.
const maxTTLSeconds = 3600

// Records is the part of the cloud the Actuator needs.
type Records interface {
	SetDNSRecord(ctx context.Context, in cloud.DNSRecord) (*cloud.DNSRecord, error)
	DeleteDNSRecord(ctx context.Context, name, recordType string) error
}

// Actuator acts on DNSRecords.
type Actuator struct {
	Client client.Reader
	Clock  clock.PassiveClock
	// Cloud returns the cloud for the credentials in a Secret.
	Cloud func(ctx context.Context, c client.Reader, ref corev1.SecretReference) (Records, error)
}

var (
	_ extension.Actuator[*extensionsv1alpha1.DNSRecord]  = &Actuator{}
	_ extension.Validator[*extensionsv1alpha1.DNSRecord] = &Actuator{}
)

// Validate refuses what the cloud does not support.
func (a *Actuator) Validate(
	_ context.Context, record *extensionsv1alpha1.DNSRecord, _ *extension.Cluster,
) field.ErrorList {
	path := field.NewPath("spec")
	var out field.ErrorList
	if record.Spec.RecordType == extensionsv1alpha1.DNSRecordTypeAAAA {
		out = append(out, field.NotSupported(path.Child("recordType"), record.Spec.RecordType, []string{"A", "CNAME", "TXT"}))
	}
	if record.Spec.RecordType == extensionsv1alpha1.DNSRecordTypeCNAME && len(record.Spec.Values) != 1 {
		out = append(out, field.Invalid(path.Child("values"), record.Spec.Values, "a CNAME has exactly one value"))
	}
	return out
}

func name(record *extensionsv1alpha1.DNSRecord) string {
	return strings.ToLower(strings.TrimSuffix(record.Spec.Name, "."))
}

// Reconcile sets the record. The first attempt leaves a condition that reports whether there is anything to delete.
func (a *Actuator) Reconcile(
	ctx context.Context, record *extensionsv1alpha1.DNSRecord, _ *extension.Cluster,
) (extension.Result, error) {
	err := a.set(ctx, record)
	switch {
	case err == nil:
		a.setCreated(record, corev1beta1.ConditionTrue, "Created", "The record exists.")
		record.Status.Zone = ptr.To(ptr.Deref(record.Spec.Zone, zone))
	case created(record) == nil:
		a.setCreated(record, corev1beta1.ConditionFalse, "CreationFailed", err.Error())
	}
	return extension.Done(), err
}

func (a *Actuator) set(ctx context.Context, record *extensionsv1alpha1.DNSRecord) error {
	api, err := a.Cloud(ctx, a.Client, record.Spec.SecretRef)
	if err != nil {
		return err
	}
	// 0 selects the default of the cloud, which is short because its clients are near.
	ttl := min(max(ptr.Deref(record.Spec.TTL, 0), 0), maxTTLSeconds)
	_, err = api.SetDNSRecord(ctx, cloud.DNSRecord{
		Name: name(record), Type: string(record.Spec.RecordType), Values: record.Spec.Values, TTLSeconds: int(ttl),
	})
	return err
}

// Restore does what Reconcile does.
func (a *Actuator) Restore(
	ctx context.Context, record *extensionsv1alpha1.DNSRecord, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, record, cluster)
}

// Migrate has nothing in the seed to remove.
func (a *Actuator) Migrate(
	context.Context, *extensionsv1alpha1.DNSRecord, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete removes the record, unless it is known that it was never created: then invalid credentials must not block the
// deletion.
func (a *Actuator) Delete(
	ctx context.Context, record *extensionsv1alpha1.DNSRecord, _ *extension.Cluster,
) (extension.Result, error) {
	if c := created(record); c != nil && c.Status == corev1beta1.ConditionFalse {
		return extension.Done(), nil
	}
	api, err := a.Cloud(ctx, a.Client, record.Spec.SecretRef)
	if err != nil {
		return extension.Result{}, err
	}
	err = api.DeleteDNSRecord(ctx, name(record), string(record.Spec.RecordType))
	return extension.Done(), cloud.IgnoreNotFound(err)
}

// ForceDelete leaves the record to the user.
func (a *Actuator) ForceDelete(
	context.Context, *extensionsv1alpha1.DNSRecord, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

func created(record *extensionsv1alpha1.DNSRecord) *corev1beta1.Condition {
	for i := range record.Status.Conditions {
		if record.Status.Conditions[i].Type == extensionsv1alpha1.DNSRecordConditionCreated {
			return &record.Status.Conditions[i]
		}
	}
	return nil
}

func (a *Actuator) setCreated(
	record *extensionsv1alpha1.DNSRecord, status corev1beta1.ConditionStatus, reason, message string,
) {
	now := metav1.NewTime(a.Clock.Now())
	c := created(record)
	if c == nil {
		record.Status.Conditions = append(record.Status.Conditions, corev1beta1.Condition{
			Type: extensionsv1alpha1.DNSRecordConditionCreated, Status: status, Reason: reason, Message: message,
			LastTransitionTime: now, LastUpdateTime: now,
		})
		return
	}
	if c.Status == status && c.Reason == reason && c.Message == message {
		return
	}
	if c.Status != status {
		c.LastTransitionTime = now
	}
	c.Status, c.Reason, c.Message, c.LastUpdateTime = status, reason, message, now
}
