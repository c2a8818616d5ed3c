package kubeapiserver

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
)

// authorizationSecretName is the prefix of the name of the Secret with the kubeconfigs of the user's webhooks.
const authorizationSecretName = "kube-apiserver-authorization-kubeconfigs"

const pathAuthorization = "/etc/kubernetes/authorization"

// sparedGroups are groups of the system that webhooks of users do not decide about, like [sparedUsers]. Otherwise nodes
// could not join, and nothing could be repaired, while a webhook does not answer, which may run in the Shoot itself.
// Members of system:masters are authorized before any webhook. The default audit policy leaves out the same groups,
// except bootstrappers: it logs which machines join.
var sparedGroups = []string{
	corev1beta1.KubeletsGroup, corev1beta1.BootstrappersGroup, corev1beta1.NodeAgentsGroup,
	"system:serviceaccounts:kube-system",
}

// spare is the match condition of a webhook that excludes them. It also excludes the paths of health checks: otherwise
// the server would be restarted because of a webhook that does not answer.
func spare() string {
	list := func(names []string) string { return "['" + strings.Join(names, "', '") + "']" }
	return fmt.Sprintf("!(request.user in %s) && !request.groups.exists(g, g in %s) && "+
		"!(has(request.nonResourceAttributes) && request.nonResourceAttributes.path in %s)",
		list(sparedUsers()), list(sparedGroups), list(healthPaths))
}

// authorizationConfiguration is the user's, or "" if there is none: the webhooks come first, since after RBAC they
// could not forbid anything; then Node and RBAC, as in a server without webhooks.
func authorizationConfiguration(v Values) (string, error) {
	if v.Authorization == "" {
		return "", nil
	}
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(v.Authorization), &config); err != nil {
		return "", fmt.Errorf("read the Shoot's AuthorizationConfiguration: %w", err)
	}
	authorizers, _ := config["authorizers"].([]any)
	for _, a := range authorizers {
		authorizer, _ := a.(map[string]any)
		webhook, ok := authorizer["webhook"].(map[string]any)
		if !ok {
			return "", fmt.Errorf("read the Shoot's AuthorizationConfiguration: authorizer %v is no webhook", authorizer["name"])
		}
		name := fmt.Sprint(authorizer["name"])
		if _, ok := v.AuthorizationKubeconfigs[name]; !ok {
			return "", fmt.Errorf("the Shoot has no kubeconfig for authorizer %q", name)
		}
		webhook["connectionInfo"] = map[string]any{
			"type": "KubeConfigFile", "kubeConfigFile": pathAuthorization + "/" + kubeconfigKey(name),
		}
		addCondition(webhook, spare())
	}
	config["authorizers"] = append(slices.Clone(authorizers),
		map[string]any{"type": "Node", "name": "node"}, map[string]any{"type": "RBAC", "name": "rbac"})
	return marshal(config), nil
}

// addCondition puts a match condition in front of those of a webhook; the same twice would be refused.
func addCondition(webhook map[string]any, expression string) {
	conditions, _ := webhook["matchConditions"].([]any)
	if !slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["expression"] == expression
	}) {
		webhook["matchConditions"] = append([]any{map[string]any{"expression": expression}}, conditions...)
	}
	if webhook["matchConditionSubjectAccessReviewVersion"] == nil {
		webhook["matchConditionSubjectAccessReviewVersion"] = "v1"
	}
}

func kubeconfigKey(authorizer string) string { return authorizer + ".kubeconfig" }

// authorizationSecret holds the kubeconfigs of the webhooks; nil if there are none.
func authorizationSecret(v Values) *corev1.Secret {
	if v.Authorization == "" {
		return nil
	}
	data := map[string][]byte{}
	for name, kubeconfig := range v.AuthorizationKubeconfigs {
		data[kubeconfigKey(name)] = kubeconfig
	}
	return component.UniqueSecret(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: authorizationSecretName, Namespace: v.Namespace, Labels: component.Labels(Name)},
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	})
}
