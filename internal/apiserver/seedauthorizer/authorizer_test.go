package seedauthorizer

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"
)

func TestIdentify(t *testing.T) {
	type identity struct {
		Seed                string
		Extension, Confined bool
	}
	for name, tc := range map[string]struct {
		user   string
		groups []string
		want   identity
	}{
		"a gardenlet": {
			"gardener.cloud:system:seed:a", []string{"gardener.cloud:system:seeds"}, identity{"a", false, true},
		},
		"the name alone is not sufficient": {"gardener.cloud:system:seed:a", nil, identity{}},
		"a member with another name":       {"alice", []string{"gardener.cloud:system:seeds"}, identity{"", false, true}},
		"a member without a Seed": {
			"gardener.cloud:system:seed:", []string{"gardener.cloud:system:seeds"}, identity{"", false, true},
		},
		"an extension":                       {"system:serviceaccount:seed-a:extension-dns", nil, identity{"a", true, true}},
		"another ServiceAccount of the seed": {"system:serviceaccount:seed-a:default", nil, identity{}},
		"a ServiceAccount of a project":      {"system:serviceaccount:garden-a:extension-dns", nil, identity{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got identity
			got.Seed, got.Extension, got.Confined = Identify(&user.DefaultInfo{Name: tc.user, Groups: tc.groups})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Identify() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func getShoot(name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "gardener.cloud:system:seed:a", Groups: []string{"gardener.cloud:system:seeds"}},
		Verb: "get", APIGroup: core, APIVersion: "v1beta1", Resource: "shoots", Namespace: "garden-a", Name: name,
		ResourceRequest: true,
	}
}

func TestRefusalWaitsForTheGraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(clock.RealClock{})
		a.Sync()
		go func() {
			time.Sleep(patience / 2)
			for _, o := range objects() {
				ref, node, _ := Of(o)
				a.Graph.Set(ref, node)
			}
		}()
		began := time.Now()
		if decision, reason, err := a.Authorize(t.Context(), getShoot("a-shoot")); decision != authorizer.DecisionAllow {
			t.Errorf("a Shoot that becomes known in time: %v, %s, %v", decision, reason, err)
		}
		if waited := time.Since(began); waited != patience/2 {
			t.Errorf("waited %s", waited)
		}
		began = time.Now()
		if decision, _, err := a.Authorize(t.Context(), getShoot("unknown")); decision != authorizer.DecisionDeny ||
			err != nil {
			t.Errorf("an unknown Shoot: %v, %v", decision, err)
		}
		if waited := time.Since(began); waited != patience {
			t.Errorf("waited %s", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began = time.Now()
		if decision, _, _ := a.Authorize(ctx, getShoot("unknown")); decision != authorizer.DecisionDeny ||
			time.Since(began) > 0 {
			t.Error("a cancelled request still waits")
		}
	})
}

// TestWhatIsAllowedNowhereIsRefusedAtOnce: no later change of the graph would allow these requests.
func TestWhatIsAllowedNowhereIsRefusedAtOnce(t *testing.T) {
	gardenlet := getShoot("a-shoot").User
	extension := &user.DefaultInfo{Name: "system:serviceaccount:seed-a:extension-dns"}
	for name, tc := range map[string]struct {
		user                        user.Info
		verb, resource, subresource string
		want                        authorizer.Decision
	}{
		"deletion of a Shoot":                 {gardenlet, "delete", "shoots", "", authorizer.DecisionDeny},
		"a Quota":                             {gardenlet, "get", "quotas", "", authorizer.DecisionDeny},
		"a subresource that no grant names":   {gardenlet, "create", "shoots", "adminkubeconfig", authorizer.DecisionDeny},
		"a verb that extensions may never do": {extension, "patch", "shoots", "status", authorizer.DecisionNoOpinion},
		"a member of the group without Seed": {
			&user.DefaultInfo{Name: "alice", Groups: gardenlet.GetGroups()}, "get", "shoots", "", authorizer.DecisionDeny,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := New(clock.RealClock{})
				a.Sync()
				request := getShoot("a-shoot")
				request.User, request.Verb, request.Resource, request.Subresource = tc.user, tc.verb, tc.resource, tc.subresource
				began := time.Now()
				if decision, reason, err := a.Authorize(t.Context(), request); decision != tc.want || err != nil {
					t.Errorf("got %v, %s, %v", decision, reason, err)
				}
				if waited := time.Since(began); waited != 0 {
					t.Errorf("waited %s", waited)
				}
			})
		})
	}
}

func TestFewRefusalsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(clock.RealClock{})
		a.Sync()
		began, waited := time.Now(), make(chan time.Duration, 2*maxWaiting)
		for range 2 * maxWaiting {
			go func() {
				_, _, _ = a.Authorize(t.Context(), getShoot("unknown"))
				waited <- time.Since(began)
			}()
		}
		atOnce := 0
		for range 2 * maxWaiting {
			if <-waited == 0 {
				atOnce++
			}
		}
		if atOnce != maxWaiting {
			t.Errorf("%d of %d were denied at once, want %d", atOnce, 2*maxWaiting, maxWaiting)
		}
		if len(a.waiting) > 0 {
			t.Errorf("still waiting: %v", a.waiting)
		}
	})
}

func TestNothingIsDecidedBeforeTheGraphIsFilled(t *testing.T) {
	a := New(clock.RealClock{})
	if decision, _, err := a.Authorize(t.Context(), getShoot("a-shoot")); decision == authorizer.DecisionAllow ||
		err == nil {
		t.Errorf("got %v, %v", decision, err)
	}
	others := getShoot("a-shoot")
	others.User = &user.DefaultInfo{Name: "alice"}
	if decision, _, err := a.Authorize(t.Context(), others); decision != authorizer.DecisionNoOpinion || err != nil {
		t.Errorf("others do not wait for it: got %v, %v", decision, err)
	}
}

func TestWebhook(t *testing.T) {
	a := &Authorizer{Graph: world(t), Clock: clock.RealClock{}}
	gardenlet := authorizationv1.SubjectAccessReviewSpec{
		User: "gardener.cloud:system:seed:a", Groups: []string{"gardener.cloud:system:seeds"},
	}
	of := func(resource *authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
		spec := gardenlet
		spec.ResourceAttributes = resource
		return spec
	}
	ask := func(body any) (int, authorizationv1.SubjectAccessReview) {
		t.Helper()
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		a.Webhook().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(encoded)))
		var review authorizationv1.SubjectAccessReview
		if answer.Code == http.StatusOK {
			if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil {
				t.Fatal(err)
			}
		}
		return answer.Code, review
	}
	review := func(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReview {
		return authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{
			APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview",
		}, Spec: spec}
	}
	if code, _ := ask(review(gardenlet)); code != http.StatusServiceUnavailable {
		t.Errorf("before the graph is filled: %d", code)
	}
	a.Sync()
	if code, _ := ask(map[string]string{"kind": "Pod"}); code != http.StatusBadRequest {
		t.Errorf("not a review: %d", code)
	}
	type status struct{ Allowed, Denied bool }
	for name, tc := range map[string]struct {
		spec authorizationv1.SubjectAccessReviewSpec
		want status
	}{
		"a Secret of its own": {of(&authorizationv1.ResourceAttributes{
			Verb: "get", Version: "v1", Resource: "secrets", Namespace: "garden-a", Name: "a-cloud",
		}), status{true, false}},
		"a Secret of another": {of(&authorizationv1.ResourceAttributes{
			Verb: "get", Version: "v1", Resource: "secrets", Namespace: "garden-b", Name: "b-cloud",
		}), status{false, true}},
		"all Secrets": {
			of(&authorizationv1.ResourceAttributes{Verb: "list", Version: "v1", Resource: "secrets"}), status{false, true},
		},
		"a kind that is unknown": {of(&authorizationv1.ResourceAttributes{
			Verb: "get", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "garden", Name: "x",
		}), status{}},
		"a path": {func() authorizationv1.SubjectAccessReviewSpec {
			spec := gardenlet
			spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/version"}
			return spec
		}(), status{}},
		"its Shoots by label": {of(&authorizationv1.ResourceAttributes{Verb: "watch", Group: core, Resource: "shoots",
			LabelSelector: &authorizationv1.LabelSelectorAttributes{
				Requirements: []metav1.LabelSelectorRequirement{{
					Key: "name.seed.gardener.cloud/a", Operator: "In", Values: []string{"true"},
				}}}}), status{true, false}},
		"Shoots by a label with several values": {of(&authorizationv1.ResourceAttributes{Verb: "watch", Group: core,
			Resource: "shoots", LabelSelector: &authorizationv1.LabelSelectorAttributes{
				Requirements: []metav1.LabelSelectorRequirement{{
					Key: "name.seed.gardener.cloud/a", Operator: "In", Values: []string{"true", "false"},
				}}}}), status{false, true}},
		"Shoots without its label": {of(&authorizationv1.ResourceAttributes{Verb: "watch", Group: core, Resource: "shoots",
			LabelSelector: &authorizationv1.LabelSelectorAttributes{
				Requirements: []metav1.LabelSelectorRequirement{{
					Key: "name.seed.gardener.cloud/a", Operator: "NotIn", Values: []string{"true"},
				}}}}), status{false, true}},
		"its Shoots by field": {of(&authorizationv1.ResourceAttributes{Verb: "list", Group: core, Resource: "shoots",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{
				Requirements: []metav1.FieldSelectorRequirement{{Key: "spec.seedName", Operator: "In", Values: []string{"a"}}}}}),
			status{true, false}},
		"its Shoots by a raw selector": {of(&authorizationv1.ResourceAttributes{
			Verb: "list", Group: core, Resource: "shoots",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "spec.seedName=a"},
		}), status{true, false}},
		"Shoots of others by a raw selector": {of(&authorizationv1.ResourceAttributes{
			Verb: "list", Group: core, Resource: "shoots",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "spec.seedName!=a"},
		}), status{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			code, answer := ask(review(tc.spec))
			if code != http.StatusOK {
				t.Fatalf("status %d", code)
			}
			if diff := cmp.Diff(tc.want, status{answer.Status.Allowed, answer.Status.Denied}); diff != "" {
				t.Errorf("mismatch (-want +got), reason %q:\n%s", answer.Status.Reason, diff)
			}
		})
	}
}
