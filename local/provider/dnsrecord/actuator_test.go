package dnsrecord

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

func record(mutate func(*extensionsv1alpha1.DNSRecord)) *extensionsv1alpha1.DNSRecord {
	r := &extensionsv1alpha1.DNSRecord{Spec: extensionsv1alpha1.DNSRecordSpec{
		Name: "API.demo.local.hortus.dev.", RecordType: extensionsv1alpha1.DNSRecordTypeA, Values: []string{"198.18.8.1"},
	}}
	if mutate != nil {
		mutate(r)
	}
	return r
}

// newActuator returns an actuator whose calls go to the cloud while *refuse is nil.
func newActuator(t *testing.T, refuse *error) (*Actuator, *cloud.Client) {
	c := cloudtest.Start(t, cloudtest.Options{})
	return &Actuator{
		Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		Cloud: func(context.Context, client.Reader, corev1.SecretReference) (Records, error) {
			return c.Client, *refuse
		},
	}, c.Client
}

func TestCreatedReportsWhetherThereIsAnythingToDelete(t *testing.T) {
	errCredentials := errors.New("AuthFailure")
	for name, tc := range map[string]struct {
		attempts   []error // Results of reading the credentials, one per attempt to create.
		want       corev1beta1.ConditionStatus
		deleteFail bool // Whether a deletion with invalid credentials fails.
	}{
		"a record that was never created is released": {
			attempts: []error{errCredentials}, want: corev1beta1.ConditionFalse,
		},
		"a created record must be deleted": {
			attempts: []error{nil}, want: corev1beta1.ConditionTrue, deleteFail: true,
		},
		"a later success counts": {
			attempts: []error{errCredentials, nil}, want: corev1beta1.ConditionTrue, deleteFail: true,
		},
		"a later failure does not undo it": {
			attempts: []error{nil, errCredentials}, want: corev1beta1.ConditionTrue, deleteFail: true,
		},
		"without a condition the record must be deleted": {deleteFail: true},
	} {
		t.Run(name, func(t *testing.T) {
			var refuse error
			a, api := newActuator(t, &refuse)
			r := record(nil)
			for _, refuse = range tc.attempts {
				_, err := a.Reconcile(t.Context(), r, nil)
				if (err != nil) != (refuse != nil) {
					t.Fatalf("Reconcile() error is %v, want %v", err, refuse)
				}
			}
			var got corev1beta1.ConditionStatus
			if c := created(r); c != nil {
				got = c.Status
			}
			if got != tc.want {
				t.Errorf("Created is %q, want %q", got, tc.want)
			}
			refuse = errCredentials
			if _, err := a.Delete(t.Context(), r, nil); (err != nil) != tc.deleteFail {
				t.Errorf("Delete() error is %v, want one: %v", err, tc.deleteFail)
			}
			refuse = nil
			if _, err := a.Delete(t.Context(), r, nil); err != nil {
				t.Errorf("Delete() with good credentials: %v", err)
			}
			if found, err := api.ListDNSRecords(t.Context(), cloud.Filter{}); err != nil || len(found) != 0 {
				t.Errorf("records after deletion are %v, %v, want none", found, err)
			}
		})
	}
}

func TestZoneOfTheSpecWins(t *testing.T) {
	for want, spec := range map[string]*string{"local": nil, "mine": ptrTo("mine")} {
		var refuse error
		a, _ := newActuator(t, &refuse)
		r := record(func(r *extensionsv1alpha1.DNSRecord) { r.Spec.Zone = spec })
		if _, err := a.Reconcile(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		if r.Status.Zone == nil || *r.Status.Zone != want {
			t.Errorf("zone is %v, want %q", r.Status.Zone, want)
		}
	}
}

func ptrTo(s string) *string { return &s }

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		record *extensionsv1alpha1.DNSRecord
		valid  bool
	}{
		"an address": {record(nil), true},
		"an IPv6 address": {
			record(func(r *extensionsv1alpha1.DNSRecord) { r.Spec.RecordType = extensionsv1alpha1.DNSRecordTypeAAAA }), false,
		},
		"a name with two values": {record(func(r *extensionsv1alpha1.DNSRecord) {
			r.Spec.RecordType, r.Spec.Values = extensionsv1alpha1.DNSRecordTypeCNAME, []string{"a", "b"}
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len((&Actuator{}).Validate(t.Context(), tc.record, nil)) == 0; got != tc.valid {
				t.Errorf("valid: %v, want %v", got, tc.valid)
			}
		})
	}
}

func TestSetCreatedKeepsTheTimeOfTheTransition(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	a, r := &Actuator{Clock: clk}, record(nil)
	a.setCreated(r, corev1beta1.ConditionFalse, "CreationFailed", "a")
	clk.SetTime(time.Unix(2000, 0))
	a.setCreated(r, corev1beta1.ConditionFalse, "CreationFailed", "b")
	c := created(r)
	if !c.LastTransitionTime.Equal(ptrTime(1000)) || !c.LastUpdateTime.Equal(ptrTime(2000)) {
		t.Errorf("times are %v and %v, want an unchanged transition time", c.LastTransitionTime, c.LastUpdateTime)
	}
}

func ptrTime(seconds int64) *metav1.Time {
	t := metav1.NewTime(time.Unix(seconds, 0))
	return &t
}
