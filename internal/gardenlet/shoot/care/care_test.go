package care

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestThresholds(t *testing.T) {
	minute := ptr.To(time.Minute)
	op := func(kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState,
		ago time.Duration) *corev1beta1.LastOperation {
		return &corev1beta1.LastOperation{Type: kind, State: state, LastUpdateTime: metav1.Time{Time: now.Add(-ago)}}
	}
	succeeded := func(ago time.Duration) *corev1beta1.LastOperation {
		return op(corev1beta1.LastOperationTypeReconcile, corev1beta1.LastOperationStateSucceeded, ago)
	}
	for name, tc := range map[string]struct {
		old       corev1beta1.ConditionStatus
		since     time.Duration
		threshold *time.Duration
		last      *corev1beta1.LastOperation
		hasErrors bool
		changed   bool
		want      corev1beta1.ConditionStatus
	}{
		"true gets time": {
			old: "True", since: time.Hour, threshold: minute, last: succeeded(time.Hour), want: "Progressing",
		},
		"true without a threshold": {
			old: "True", since: time.Hour, last: succeeded(time.Hour), want: "False",
		},
		"progressing within the threshold": {
			old: "Progressing", since: 59 * time.Second, threshold: minute, last: succeeded(time.Hour), want: "Progressing",
		},
		"progressing beyond the threshold": {
			old: "Progressing", since: 61 * time.Second, threshold: minute, last: succeeded(time.Hour), want: "False",
		},
		"progressing just after a success": {
			old: "Progressing", since: 10 * time.Minute, threshold: minute, last: succeeded(30 * time.Second),
			want: "Progressing",
		},
		"progressing after an error": {
			old: "Progressing", since: 10 * time.Minute, threshold: minute, last: op("Reconcile", "Error", time.Minute),
			hasErrors: true, want: "False",
		},
		"false stays": {
			old: "False", since: time.Hour, threshold: minute, last: succeeded(time.Hour), want: "False",
		},
		"false for another reason": {
			old: "False", since: time.Hour, threshold: minute, last: succeeded(time.Hour), changed: true, want: "Progressing",
		},
		"unknown": {
			old: "Unknown", since: time.Hour, threshold: minute, last: succeeded(time.Hour), want: "False",
		},
		"pardoned while an operation runs": {
			old: "False", since: time.Hour, last: op("Reconcile", "Processing", 0), want: "Progressing",
		},
		"not pardoned when the operation has errors": {
			old: "False", since: time.Hour, last: op("Reconcile", "Processing", 0), hasErrors: true, want: "False",
		},
		"pardoned as long as the creation is not done": {
			old: "False", since: time.Hour, last: op("Create", "Error", 0), hasErrors: true, want: "Progressing",
		},
		"pardoned before the first operation": {old: "Unknown", since: time.Hour, want: "Progressing"},
	} {
		t.Run(name, func(t *testing.T) {
			old := &corev1beta1.Condition{Status: tc.old, Reason: "R", LastTransitionTime: metav1.Time{Time: now.Add(-tc.since)}}
			f := bad("R", "")
			if tc.changed {
				f.Reason = "Other"
			}
			got := next("T", old, f, tc.threshold, Operation{tc.last, tc.hasErrors}, now)
			if got.Status != tc.want {
				t.Errorf("status = %s, want %s", got.Status, tc.want)
			}
		})
	}
}

// The worked examples of the specification.
func TestProblematicWebhooks(t *testing.T) {
	fail, ignore := ptr.To(admissionregistrationv1.Fail), ptr.To(admissionregistrationv1.Ignore)
	notIn := func(key string, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values,
		}}}
	}
	const purpose, name = "gardener.cloud/purpose", "kubernetes.io/metadata.name"
	type rule struct{ group, version, resource string }
	pods := rule{"", "v1", "pods"}
	leases := rule{"coordination.k8s.io", "v1", "leases"}
	for title, tc := range map[string]struct {
		rule       rule
		operation  admissionregistrationv1.OperationType
		scope      *admissionregistrationv1.ScopeType
		object, ns *metav1.LabelSelector
		policy     *admissionregistrationv1.FailurePolicyType
		timeout    *int32
		want       bool
	}{
		"pods, Fail, 10":           {rule: pods, policy: fail, timeout: ptr.To(int32(10)), want: true},
		"pods, nothing set":        {rule: pods, want: true},
		"pods, Ignore, 10":         {rule: pods, policy: ignore, timeout: ptr.To(int32(10))},
		"pods, Ignore, 15":         {rule: pods, policy: ignore, timeout: ptr.To(int32(15))},
		"pods, Ignore, 16":         {rule: pods, policy: ignore, timeout: ptr.To(int32(16)), want: true},
		"pods, Ignore, no timeout": {rule: pods, policy: ignore, want: true},
		"pods outside kube-system": {
			rule: pods, ns: notIn(purpose, "kube-system"), policy: fail, timeout: ptr.To(int32(30)),
		},
		"pods outside of the system": {
			rule: pods, object: notIn("origin", "gardener"), policy: fail, timeout: ptr.To(int32(10)),
		},
		"pods of a team's namespaces": {
			rule: pods, ns: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}, policy: fail,
			timeout: ptr.To(int32(10)),
		},
		"pods, only deletion": {
			rule: pods, operation: admissionregistrationv1.Delete, policy: fail, timeout: ptr.To(int32(10)),
		},
		"pods, only connecting": {
			rule: pods, operation: admissionregistrationv1.Connect, policy: fail, timeout: ptr.To(int32(10)),
		},
		"nodes with a namespace selector": {
			rule: rule{"", "v1", "nodes"}, ns: notIn(purpose,
				"kube-system"), policy: fail, timeout: ptr.To(int32(10)), want: true,
		},
		"status of nodes": {
			rule: rule{"", "v1", "nodes/status"}, policy: fail, timeout: ptr.To(int32(10)), want: true,
		},
		"configmaps, by the namespace's name": {
			rule: rule{"", "v1", "configmaps"}, ns: notIn(name, "kube-system"), policy: fail, timeout: ptr.To(int32(10)),
		},
		"services outside kube-system": {
			rule: rule{"", "v1", "services"}, ns: notIn(purpose,
				"kube-system"), policy: fail, timeout: ptr.To(int32(10)), want: true,
		},
		"services outside both": {
			rule: rule{"", "v1", "services"}, ns: notIn(name, "kube-system", "default"), policy: fail,
			timeout: ptr.To(int32(10)),
		},
		"everything outside kube-system": {
			rule: rule{"*", "*", "*"}, ns: notIn(purpose, "kube-system"), policy: fail, timeout: ptr.To(int32(10)), want: true,
		},
		"leases, Ignore, 10": {rule: leases, policy: ignore, timeout: ptr.To(int32(10)), want: true},
		"leases, Ignore, 3":  {rule: leases, policy: ignore, timeout: ptr.To(int32(3))},
		"leases outside kube-system": {
			rule: leases, ns: notIn(purpose, "kube-system"), policy: fail, timeout: ptr.To(int32(3)), want: true,
		},
		"definitions": {
			rule: rule{"apiextensions.k8s.io", "v1", "customresourcedefinitions"}, policy: fail, timeout: ptr.To(int32(5)),
			want: true,
		},
		"a kind of the user's own": {
			rule: rule{"example.com", "v1", "foos"}, policy: fail, timeout: ptr.To(int32(30)),
		},
		"status of deployments": {
			rule: rule{"apps", "v1", "deployments/status"}, policy: fail, timeout: ptr.To(int32(10)),
		},
		"pods in the scope of the cluster": {
			rule: pods, scope: ptr.To(admissionregistrationv1.ClusterScope), policy: fail, timeout: ptr.To(int32(10)),
		},
	} {
		t.Run(title, func(t *testing.T) {
			operation := tc.operation
			if operation == "" {
				operation = admissionregistrationv1.Create
			}
			w := Webhook{
				Name: "w", FailurePolicy: tc.policy, TimeoutSeconds: tc.timeout, ObjectSelector: tc.object,
				NamespaceSelector: tc.ns,
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{operation},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{tc.rule.group}, APIVersions: []string{tc.rule.version}, Resources: []string{tc.rule.resource},
						Scope: tc.scope,
					},
				}},
			}
			if got := Problematic(w); got != tc.want {
				t.Errorf("Problematic() = %t, want %t", got, tc.want)
			}
			// Every repaired webhook is harmless, and a harmless one is not changed.
			f := remediate(w)
			if !tc.want && len(f.changes) > 0 {
				t.Errorf("a harmless webhook was changed: %v", f.changes)
			}
			if repaired := f.applyTo(w); Problematic(repaired) {
				t.Errorf("still problematic after %v: %+v", f.changes, repaired)
			}
		})
	}
}
