package kubeapiserver

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// TestSystemIsTheSameForAuditAndWebhooks: the default audit policy leaves out exactly the groups that webhooks are not
// called for, except bootstrappers, and the users that send requests.
func TestSystemIsTheSameForAuditAndWebhooks(t *testing.T) {
	loaded, err := policy.LoadPolicyFromBytes([]byte(defaultAuditPolicy()))
	if err != nil {
		t.Fatal(err)
	}
	var users, groups []string
	for _, rule := range loaded.Rules {
		if rule.Level == audit.LevelNone {
			users, groups = append(users, rule.Users...), append(groups, rule.UserGroups...)
		}
	}
	if diff := cmp.Diff(unloggedUsers(), users); diff != "" {
		t.Errorf("users (-list +policy):\n%s", diff)
	}
	spared := slices.DeleteFunc(slices.Clone(sparedGroups),
		func(group string) bool { return group == corev1beta1.BootstrappersGroup })
	slices.Sort(spared)
	slices.Sort(groups)
	if diff := cmp.Diff(spared, groups); diff != "" {
		t.Errorf("groups (-webhooks +policy):\n%s", diff)
	}
	for _, u := range systemUsers {
		if u.master && u.atKubelets {
			t.Errorf("%s is in neither", u.name)
		}
	}
}

func TestDefaultAuditPolicy(t *testing.T) {
	loaded, err := policy.LoadPolicyFromBytes([]byte(defaultAuditPolicy()))
	if err != nil {
		t.Fatal(err)
	}
	evaluator := policy.NewPolicyRuleEvaluator(loaded)
	somebody := func(name string, groups ...string) user.Info {
		return &user.DefaultInfo{Name: name, Groups: append(groups, "system:authenticated")}
	}
	me := somebody("me")
	masters := somebody("admin", "system:masters")
	request := func(who user.Info, verb, group, resource, subresource string) authorizer.Attributes {
		return authorizer.AttributesRecord{
			User: who, Verb: verb, APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: subresource,
			Namespace: "a", Name: "b", ResourceRequest: true,
		}
	}
	for name, tc := range map[string]struct {
		request authorizer.Attributes
		logged  bool
	}{
		"a change":           {request(me, "patch", "apps", "deployments", ""), true},
		"a deletion of many": {request(me, "deletecollection", "", "pods", ""), true},
		"a change by an administrator": {
			request(masters, "create", "rbac.authorization.k8s.io", "clusterrolebindings", ""), true,
		},
		"a change of what users add":    {request(me, "update", "example.org", "things", "status"), true},
		"a token for a service account": {request(me, "create", "", "serviceaccounts", "token"), true},
		"a shell":                       {request(me, "get", "", "pods", "exec"), true},
		"a way through a node":          {request(me, "get", "", "nodes", "proxy"), true},
		"a secret that is read":         {request(me, "get", "", "secrets", ""), true},
		"a service account that reads it": {
			request(somebody("system:serviceaccount:a:b", "system:serviceaccounts", "system:serviceaccounts:a"), "list", "",
				"secrets", ""), true,
		},
		"anything else that is read": {request(me, "list", "", "pods", ""), false},
		"an event":                   {request(me, "create", "events.k8s.io", "events", ""), false},
		"an old event":               {request(me, "create", "", "events", ""), false},
		"a lease":                    {request(me, "update", "coordination.k8s.io", "leases", ""), false},
		"a question about rights": {
			request(me, "create", "authorization.k8s.io", "selfsubjectaccessreviews", ""), false,
		},
		"a kubelet": {
			request(somebody("system:node:a", "system:nodes"), "patch", "", "nodes", "status"), false,
		},
		"a node agent": {
			request(somebody("gardener.cloud:node-agent:machine:a", "gardener.cloud:node-agents"), "patch", "",
				"nodes", ""), false,
		},
		"the controllers of Kubernetes": {
			request(somebody("system:serviceaccount:kube-system:deployment-controller", "system:serviceaccounts:kube-system"),
				"create", "", "pods", ""), false,
		},
		"the controller manager": {
			request(somebody("system:kube-controller-manager"), "update", "", "endpoints", ""), false,
		},
		"the gardenlet": {
			request(somebody("gardener.cloud:system:gardenlet", "system:masters"), "patch", "", "secrets", ""), false,
		},
		"somebody who proves nothing": {request(nil, "create", "", "pods", ""), false},
		"a stranger": {request(&user.DefaultInfo{
			Name: "system:anonymous", Groups: []string{"system:unauthenticated"},
		}, "create", "", "pods", ""), false},
		"no object": {authorizer.AttributesRecord{User: me, Verb: "get", Path: "/metrics"}, false},
	} {
		config := evaluator.EvaluatePolicyRule(tc.request)
		if config.Level != audit.LevelNone && config.Level != audit.LevelMetadata {
			t.Errorf("%s: level %s has contents", name, config.Level)
		}
		if logged := config.Level != audit.LevelNone; logged != tc.logged {
			t.Errorf("%s: logged = %t, want %t", name, logged, tc.logged)
		}
		if tc.logged && len(config.OmitStages) != 1 {
			t.Errorf("%s: stages that are left out: %v", name, config.OmitStages)
		}
	}
}
