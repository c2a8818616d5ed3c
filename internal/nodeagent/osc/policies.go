package osc

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/nodeagent/config"
)

// policy is a ValidatingAdmissionPolicy and its binding, for the members of one group.
type policy struct {
	name, group         string
	apiGroup, resources string // Separated by commas.
	operations          []admissionregistrationv1.OperationType
	variables           []admissionregistrationv1.Variable
	validations         []admissionregistrationv1.Validation
}

// policies bound what machines write about themselves. Roles cannot do that: they know the names of objects, but
// neither their contents nor the names of created objects.
func policies() []client.Object {
	var out []client.Object
	for _, p := range []policy{nodesOfAgents(), leasesOfAgents(), nodesOfKubelets()} {
		out = append(out, p.objects()...)
	}
	return out
}

// nodesOfAgents lets node agents change the necessary fields of their Node, and none that influence the scheduling of
// pods.
func nodesOfAgents() policy {
	return policy{
		name: "nodes-of-node-agents.gardener.cloud", group: corev1beta1.NodeAgentsGroup, resources: "nodes",
		operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		variables:  []admissionregistrationv1.Variable{newLabels, oldLabels, newAnnotations, oldAnnotations},
		validations: []admissionregistrationv1.Validation{
			unchanged("labels", "newLabels", "oldLabels", config.NodeLabels()),
			unchanged("annotations", "newAnnotations", "oldAnnotations", config.NodeAnnotations()),
			{
				Expression: "object.spec == oldObject.spec && " +
					"object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences && " +
					"object.metadata.?finalizers == oldObject.metadata.?finalizers",
				Message: "node agents change labels and annotations of their Node only",
			},
		},
	}
}

// leasesOfAgents lets a node agent create only the Lease of its own Node: the one that it may patch.
func leasesOfAgents() policy {
	return policy{
		name: "leases-of-node-agents.gardener.cloud", group: corev1beta1.NodeAgentsGroup,
		apiGroup: "coordination.k8s.io", resources: "leases",
		operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		validations: []admissionregistrationv1.Validation{{
			Expression: fmt.Sprintf("object.metadata.name.startsWith('%s') && "+
				"authorizer.group('').resource('nodes').name(object.metadata.name.substring(%d)).check('patch').allowed()",
				corev1beta1.NodeAgentLeasePrefix, len(corev1beta1.NodeAgentLeasePrefix)),
			Message: "node agents create only the Lease of their own Node",
		}},
	}
}

// nodesOfKubelets keeps a kubelet from labelling its Node as one of a pool, or as one for components of kube-system, if
// its machine is none. Kubernetes' own admission leaves such labels to kubelets.
func nodesOfKubelets() policy {
	claim := func(label, resource, what string) admissionregistrationv1.Validation {
		return admissionregistrationv1.Validation{
			Expression: fmt.Sprintf("!('%[1]s' in variables.newLabels) || "+
				"('%[1]s' in variables.oldLabels && variables.oldLabels['%[1]s'] == variables.newLabels['%[1]s']) || "+
				"authorizer.group('%[2]s').resource('%[3]s').name(variables.newLabels['%[1]s']).check('%[4]s').allowed()",
				label, corev1beta1.ClaimGroup, resource, corev1beta1.ClaimVerb),
			Message: "the machine of this Node " + what,
		}
	}
	return policy{
		name: "nodes-of-kubelets.gardener.cloud", group: corev1beta1.KubeletsGroup, resources: "nodes,nodes/status",
		operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		variables:  []admissionregistrationv1.Variable{newLabels, oldLabelsIfAny},
		validations: []admissionregistrationv1.Validation{
			claim(corev1beta1.LabelWorkerPool, corev1beta1.ClaimPools, "is of another pool"),
			claim(corev1beta1.LabelWorkerPoolDeprecated, corev1beta1.ClaimPools, "is of another pool"),
			claim(corev1beta1.LabelWorkerPoolSystemComponents, corev1beta1.ClaimSystemComponents,
				"is of a pool without system components"),
		},
	}
}

// Variables of expressions.
var (
	newLabels = admissionregistrationv1.Variable{Name: "newLabels", Expression: "object.metadata.?labels.orValue({})"}
	oldLabels = admissionregistrationv1.Variable{
		Name: "oldLabels", Expression: "oldObject.metadata.?labels.orValue({})",
	}
	newAnnotations = admissionregistrationv1.Variable{
		Name: "newAnnotations", Expression: "object.metadata.?annotations.orValue({})",
	}
	oldAnnotations = admissionregistrationv1.Variable{
		Name: "oldAnnotations", Expression: "oldObject.metadata.?annotations.orValue({})",
	}
	oldLabelsIfAny = admissionregistrationv1.Variable{
		Name: "oldLabels", Expression: "oldObject == null ? {} : oldObject.metadata.?labels.orValue({})",
	}
)

// unchanged requires two maps to be equal except for some keys.
func unchanged(what, after, before string, but []string) admissionregistrationv1.Validation {
	keys := "['" + strings.Join(but, "', '") + "']"
	return admissionregistrationv1.Validation{
		Expression: fmt.Sprintf("variables.%[1]s.all(k, k in %[3]s || "+
			"(k in variables.%[2]s && variables.%[2]s[k] == variables.%[1]s[k])) && "+
			"variables.%[2]s.all(k, k in %[3]s || k in variables.%[1]s)", after, before, keys),
		Message: fmt.Sprintf("node agents change these %s of their Node only: %s", what, strings.Join(but, ", ")),
	}
}

func (p policy) objects() []client.Object {
	meta := metav1.ObjectMeta{Name: p.name}
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta: metav1.TypeMeta{
				APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy",
			},
			ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: ptr.To(admissionregistrationv1.Fail),
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: p.operations,
							Rule: admissionregistrationv1.Rule{
								APIGroups: []string{p.apiGroup}, APIVersions: []string{"v1"}, Resources: strings.Split(p.resources, ","),
							},
						},
					}},
				},
				MatchConditions: []admissionregistrationv1.MatchCondition{{
					Name: "group", Expression: fmt.Sprintf("'%s' in request.userInfo.groups", p.group),
				}},
				Variables:   p.variables,
				Validations: p.validations,
			},
		},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: metav1.TypeMeta{
				APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding",
			},
			ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: p.name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
}
