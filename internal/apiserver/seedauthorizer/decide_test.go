package seedauthorizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

// target is an object, or a selection of objects, in the world of two seeds.
type target struct {
	what, subresource, namespace, name string
	fields, labels                     map[string]string
}

const (
	core       = corev1beta1.GroupName
	operations = "operations.gardener.cloud"
	management = "seedmanagement.gardener.cloud"
	security   = "security.gardener.cloud"
)

// matrix has per resource the objects that the gardenlet of seed "a" tries to access. Its own are named a-..., those of
// the other seed b-...; moving is being moved from a to b, shared is in both.
func matrix() map[string][]target {
	collections := func(fields ...string) []target {
		out := []target{
			{what: "all"}, {what: "all in a-namespace", namespace: "garden-a"},
			{what: "marked for a", labels: map[string]string{"name.seed.gardener.cloud/a": "true"}},
			{what: "marked for b", labels: map[string]string{"name.seed.gardener.cloud/b": "true"}},
		}
		for _, field := range fields {
			out = append(out, target{what: field + "=a", fields: map[string]string{field: "a"}},
				target{what: field + "=b", fields: map[string]string{field: "b"}})
		}
		return out
	}
	namespaced := func(what, namespace string, names ...string) []target {
		var out []target
		for _, name := range names {
			out = append(out, target{what: what + " " + namespace + "/" + name, namespace: namespace, name: name})
		}
		return out
	}
	global := func(names ...string) []target {
		var out []target
		for _, name := range names {
			out = append(out, target{what: name, name: name})
		}
		return out
	}
	unnamed := func(namespaces ...string) []target {
		var out []target
		for _, namespace := range namespaces {
			out = append(out, target{what: "unnamed in " + namespace, namespace: namespace})
		}
		return out
	}
	shoots := slices.Concat(namespaced("", "garden-a", "a-shoot", "moving"), namespaced("", "garden-b", "b-shoot"),
		namespaced("", "garden-shared", "a-shared", "b-shared"))
	sub := func(targets []target, subresource string) []target {
		out := slices.Clone(targets)
		for i := range out {
			out[i].subresource, out[i].what = subresource, out[i].what+"/"+subresource
		}
		return out
	}
	identities := slices.Concat(namespaced("", "garden-a", "a-identity", "unused"),
		namespaced("", "garden-shared", "a-identity", "b-identity"))
	accounts := slices.Concat(namespaced("", "seed-a", "extension-x", "any", "x-extension-"),
		namespaced("", "seed-b", "extension-x", "any"), namespaced("", "garden-a", "extension-x"),
		namespaced("", "seed-a-b", "extension-x"))
	m := map[string][]target{
		core + "/shoots": slices.Concat(shoots, sub(shoots[:3], "status"), sub(shoots[:1], "binding"),
			sub(shoots[:1], "adminkubeconfig"), sub(shoots[:1], "viewerkubeconfig"),
			collections("spec.seedName", "status.seedName")),
		core + "/seeds": slices.Concat(global("a", "b", "b-managed", "c"), sub(global("a", "b"), "status"),
			collections("metadata.name")),
		core + "/shootstates": slices.Concat(shoots[:3], namespaced("", "garden-a", "other"),
			unnamed("garden-a", "garden-b"), collections()),
		core + "/internalsecrets": slices.Concat(namespaced("", "garden-a", "a-shoot.ca-client", "moving.ca-client",
			"shoot", "wi-internal"), namespaced("", "garden-b", "b-shoot.ca-client"), unnamed("garden-a", "garden-b"),
			collections()),
		core + "/backupbuckets": slices.Concat(global("a-uid", "b-uid", "a-bucket", "b-bucket", "b-old-bucket"),
			sub(global("a-bucket", "b-bucket"), "status"), collections("spec.seedName")),
		core + "/backupentries": slices.Concat(namespaced("", "garden-a", "a-entry", "moving-entry",
			"shoot--a--a-shoot--a-shoot-uid", "shoot--b--b-shoot--b-shoot-uid"),
			namespaced("", "garden-b", "b-entry", "shoot--a--a-shoot--a-shoot-uid"), unnamed("garden-a", "garden-b"),
			collections("spec.seedName", "status.seedName")),
		core + "/controllerinstallations": slices.Concat(global("a-installation", "b-installation"),
			sub(global("a-installation", "b-installation"), "status"), collections("spec.seedRef.name")),
		core + "/controllerdeployments":   slices.Concat(global("a-deployment", "b-deployment"), collections()),
		core + "/controllerregistrations": slices.Concat(global("any"), collections()),
		core + "/cloudprofiles":           slices.Concat(global("any"), collections()),
		core + "/exposureclasses":         slices.Concat(global("any"), collections()),
		core + "/namespacedcloudprofiles": slices.Concat(namespaced("", "garden-a", "a-profile", "unused"),
			namespaced("", "garden-b", "b-profile"), collections()),
		core + "/projects": slices.Concat(global("a", "b", "shared"), collections(), []target{
			{what: "of a-namespace", fields: map[string]string{"spec.namespace": "garden-a"}},
			{what: "of b-namespace", fields: map[string]string{"spec.namespace": "garden-b"}}}),
		core + "/secretbindings": slices.Concat(namespaced("", "garden-a", "a-binding", "unused"),
			namespaced("", "garden-b", "b-binding"), collections()),
		core + "/quotas": slices.Concat(namespaced("", "garden-a", "any"), collections()),
		security + "/credentialsbindings": slices.Concat(namespaced("", "garden-shared", "binding", "b-binding", "unused"),
			collections()),
		security + "/workloadidentities": slices.Concat(identities, sub(identities, "token"), collections()),
		management + "/managedseeds": slices.Concat(namespaced("", "garden", "b-managed", "c"),
			sub(namespaced("", "garden", "b-managed", "c"), "status"), collections()),
		management + "/gardenlets": slices.Concat(namespaced("", "garden", "a", "b"),
			sub(namespaced("", "garden", "a", "b"), "status"), collections("metadata.name")),
		management + "/managedseedsets": slices.Concat(namespaced("", "garden", "any"), collections()),
		operations + "/bastions": slices.Concat(namespaced("", "garden-a", "a-bastion"),
			namespaced("", "garden-b", "b-bastion"), collections("spec.seedName")),
		"/secrets": slices.Concat(
			namespaced("", "garden", "a-chart", "b-chart"),
			namespaced("", "garden-a", "a-cloud", "a-resource", "a-dns", "a-authorizer", "a-shoot.ssh-keypair",
				"a-shoot.ssh-keypair.old", "a-shoot.monitoring", "a-shoot.else", "unused"),
			namespaced("", "garden-b", "b-cloud", "b-shoot.ssh-keypair"),
			namespaced("", "garden-shared", "cloud", "b-cloud", "b-shared.ssh-keypair"),
			namespaced("", "garden", "a-registry", "b-registry", "ca-of-registries", "a-deployment-login",
				"b-deployment-login"),
			namespaced("", "garden", "a-backup", "b-backup", "b-managed-backup", "generated-bucket-a-bucket",
				"generated-bucket-b-bucket", "generated-bucket-b-old-bucket", "b-old-cloud", "hortus-apiserver"),
			namespaced("", "gardener-system-shoot-issuer", "a--a-shoot-uid", "b--b-shoot-uid", "b--a-shoot-uid"),
			namespaced("", "seed-a", "any"), namespaced("", "seed-b", "any"), unnamed("seed-a", "seed-b", "garden-a", "garden"),
			collections()),
		"/configmaps": slices.Concat(namespaced("", "garden-a", "a-audit", "a-authentication", "a-authorization",
			"a-resource", "a-shoot.ca-cluster", "a-shoot.ca-kubelet", "unused"),
			namespaced("", "garden-b", "b-shoot.ca-cluster"),
			namespaced("", "garden", "a-deployment-places", "b-deployment-places"),
			namespaced("", "kube-system", "cluster-identity", "extension-apiserver-authentication"),
			namespaced("", "gardener-system-public", "gardener-info"), namespaced("", "seed-a", "any"),
			namespaced("", "seed-b", "any"), unnamed("seed-a", "seed-b", "garden-a"), collections()),
		"/serviceaccounts": slices.Concat(accounts, sub(accounts, "token"), namespaced("", "garden", "any"),
			unnamed("seed-a", "seed-b", "garden-a"), sub(unnamed("seed-a"), "token"), collections()),
		"/namespaces": slices.Concat(global("garden-a", "garden-b", "garden-shared", "garden", "seed-a",
			"seed-b", "kube-system"), collections()),
		"/events": slices.Concat(namespaced("", "garden-a", "any"), namespaced("", "garden-b", "any"),
			unnamed("garden-a", "garden-b", "garden", "default", "seed-a", "seed-b"), collections()),
		"coordination.k8s.io/leases": slices.Concat(namespaced("", "gardener-system-seed-lease", "a", "b"),
			unnamed("gardener-system-seed-lease"), namespaced("", "seed-a", "any"), namespaced("", "seed-b", "any"),
			namespaced("", "garden-a", "any"), collections()),
		"certificates.k8s.io/certificatesigningrequests": slices.Concat(global("a-request", "b-request"),
			[]target{{what: "unnamed"}}, collections()),
		"apps/deployments": global("any"),
	}
	m["events.k8s.io/events"] = m["/events"]
	return m
}

var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// TestMatrix records the decision about each verb on each kind of object: + allow, - deny, . no opinion.
func TestMatrix(t *testing.T) {
	g := world(t)
	var out strings.Builder
	fmt.Fprintf(&out, "Seed a: its gardenlet | an extension in it. + allow, - deny, . no opinion\nverbs: %s\n",
		strings.Join(verbs, " "))
	m := matrix()
	for _, resource := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&out, "\n%s\n", strings.TrimPrefix(resource, "/"))
		group, name, _ := strings.Cut(resource, "/")
		for _, target := range m[resource] {
			row := ""
			for _, extension := range []bool{false, true} {
				for _, verb := range verbs {
					decision, _ := Decide(Request{
						Seed: "a", Extension: extension, Verb: verb, Group: group, Resource: name, Subresource: target.subresource,
						Namespace: target.namespace, Name: target.name, Fields: target.fields, Labels: target.labels,
					}, g)
					row += map[Decision]string{Allow: "+", Deny: "-", NoOpinion: "."}[decision]
				}
				row += " "
			}
			fmt.Fprintf(&out, "  %s %s\n", row, strings.TrimSpace(target.what))
		}
	}
	golden.Bytes(t, "matrix.txt", []byte(out.String()))
}

// TestEveryRuleIsInTheMatrix: rules that are not in the matrix are not reviewed.
func TestEveryRuleIsInTheMatrix(t *testing.T) {
	m := matrix()
	for _, rule := range table {
		if _, ok := m[rule.group+"/"+rule.resource]; !ok {
			t.Errorf("the matrix has no %s/%s", rule.group, rule.resource)
		}
	}
}

// TestNothingOfOthers: every request for an object of the other Seed alone is denied.
func TestNothingOfOthers(t *testing.T) {
	g := world(t)
	for _, rule := range table {
		if rule.kind == "ControllerRegistration" || rule.kind == "CloudProfile" || rule.kind == "ExposureClass" {
			continue // All may read what the garden offers.
		}
		for _, namespace := range []string{"", "garden-b", "seed-b", "garden"} {
			for _, name := range []string{"c", "b-shoot", "b-cloud", "b-uid", "b-backup", "b-bucket", "b-entry", "b-binding",
				"b-profile", "b-bastion", "b-request", "b-installation", "b-registry",
				"b-deployment", "b-deployment-login", "b-deployment-places", "extension-b",
				"b-shoot.ca-client", "b-shoot.ssh-keypair", "generated-bucket-b-bucket", "garden-b", "seed-b",
				"any"} {
				if rule.kind == "Event" && namespace == "garden" {
					continue // Events in the garden namespace contain nothing secret.
				}
				for _, verb := range []string{"get", "update", "patch", "delete", "list", "watch"} {
					if rule.kind == ControllerDeployment && (verb == "list" || verb == "watch") {
						continue
					}
					request := Request{
						Seed: "a", Verb: verb, Group: rule.group, Resource: rule.resource, Namespace: namespace, Name: name,
					}
					if decision, _ := Decide(request, g); decision != Deny {
						t.Errorf("%+v: %s", request, decision)
					}
				}
			}
		}
	}
}

func TestReasons(t *testing.T) {
	g := world(t)
	for name, tc := range map[string]struct {
		request Request
		want    string
	}{
		"where it would be allowed": {Request{
			Seed: "a", Verb: "patch", Group: core, Resource: "shoots", Namespace: "garden-b", Name: "b-shoot",
		},
			`the gardenlet of Seed "a" may not patch this: it is allowed only where the object is on the seed`},
		"allowed nowhere": {Request{
			Seed: "a", Verb: "delete", Group: core, Resource: "shoots", Namespace: "garden-a", Name: "a-shoot",
		},
			`the gardenlet of Seed "a" may not delete this: it is never allowed`},
		"no Seed": {Request{Verb: "list", Group: core, Resource: "shoots"}, "the caller is not the gardenlet of any Seed"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := Decide(tc.request, g); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
