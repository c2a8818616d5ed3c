package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Patterns are paths below the module, in which "..." matches anything, as in the go command; "a/..." includes a. Only
// code outside of tests is checked.

// clients are libraries that use or serve a Kubernetes API.
const clients = "k8s.io/client-go/... sigs.k8s.io/controller-runtime/... k8s.io/apiserver/..."

// TestPackagesImportOnly defines which packages of this project a package may import. Unlisted packages below internal/
// are unrestricted.
func TestPackagesImportOnly(t *testing.T) {
	for _, boundary := range []struct{ packages, only, since string }{
		{"api/...", "api/...", "it is a module of its own"},
		{"local/cloud", "", "it is a client that anybody may use"},
		{"extension/...", "api/... extension/...", "it is a module of its own"},
		{"examples/extension", "api/... extension/...", "somebody else could have written it"},
		{"local/provider/...",
			"api/... local/cloud extension/... local/provider/... internal/component internal/image internal/kube internal/machinecontrol internal/webhook/...",
			"it shows what an extension needs"},
		{"charts", "", "it only embeds the charts"},

		{"cmd/hortus", "internal/cli", "a command is a line in internal/cli"},
		{"local/cmd/machine-init", "local/machineinit", "process 1 of a machine stays small"},
		{"cmd/tunnel", "internal/tunnel", "every Shoot runs two of it"},
		{"cmd/control-plane",
			"internal/machinecontrol internal/resourcemanager internal/version local/provider/cloudcontroller local/provider/machine",
			"every Shoot runs four of it"},
		{"local/cmd/echo", "", "it is a workload like any other"},
		{"local/cmd/cni-policy", "local/provider/networkagent/hook", "it starts for every pod"},
		{"local/provider/networkagent/hook", "", "the program that starts for every pod stays small"},
		{"local/machineinit/...", "local/machineinit/...", "process 1 of a machine stays small"},

		{"internal/flow", "", "it knows nothing of Shoots"},
		{"internal/image", "internal/version", "it knows names only"},
		{"internal/networkpolicy", "api/...", "it decides who may talk to whom"},
		{"internal/manifest", "api/...", "what objects mean is up to those who read them"},
		{"internal/fleet", "api/... internal/garden internal/manifest", "it reads what others decide about"},
		{"internal/pki", "", "it knows certificates only"},
		{"internal/csr", "", "it knows requests for certificates only"},
		{"internal/kube", "api/...", "parts build on it, not the other way round"},
		{"internal/secretsmanager", "internal/pki", "parts build on it, not the other way round"},
		{"internal/encryption", "", "it decides about one file of API servers"},
		{"internal/component/...",
			"api/... internal/component/... internal/encryption internal/etcdmember/configuration internal/image internal/networkpolicy " +
				"internal/pki internal/resourcemanager/webhook/configuration",
			"a component is values in, objects out"},
		{"internal/etcdmember/configuration", "", "the gardenlet and the process of etcd compute the same checksum with it"},
		{"internal/webhook/...", "internal/kube internal/pki", "any process may serve webhooks"},
		{"internal/resourcemanager/webhook/configuration", "api/...", "it is what the gardenlet renders of them"},

		{"internal/cloudprofile", "api/...", "every decision about versions builds on it"},
		{"internal/maintenance", "api/... internal/cloudprofile", "controllers, admission and plans ask it alike"},
		{"internal/cloudprofile/offer", "api/...", "admission and 'hortus validate' ask it alike"},
		{"internal/plan", "api/... internal/fleet internal/maintenance internal/cloudprofile internal/output",
			"it calls the same decisions as the controllers, not the controllers"},
	} {
		for _, p := range matching(t, boundary.packages) {
			for _, imported := range repository(t).imports[p] {
				if own(imported) && !matches(boundary.only, below(imported)) {
					t.Errorf("%s imports %s, but may import %q only: %s", below(p), below(imported), boundary.only, boundary.since)
				}
			}
		}
	}
}

// TestPackagesNeverReach defines which packages another one must not import, not even indirectly.
func TestPackagesNeverReach(t *testing.T) {
	for _, boundary := range []struct{ packages, never, since string }{
		{"api/...", clients, "authors of extensions and clients have few dependencies"},
		{"extension/errorcode extension/poolhash", clients, "they are pure"},
		{"local/cloud charts local/cmd/echo local/cmd/cni-policy", "*.*/...", "the standard library is enough for them"},
		{"local/cmd/machine-init", "k8s.io/...", "process 1 of a machine stays small"},
		{"cmd/tunnel", "k8s.io/api/... k8s.io/apimachinery/... k8s.io/client-go/...", "every Shoot runs two of it"},
		{"cmd/control-plane",
			"k8s.io/apiserver/... go.etcd.io/... github.com/containerd/... github.com/envoyproxy/... cloud.google.com/...",
			"every Shoot runs four of it"},
		{"internal/cloudprofile internal/maintenance internal/cloudprofile/offer internal/nodeagent/change", clients,
			"they decide: objects and a time in, a value out"},
		{"internal/manifest internal/validate",
			"sigs.k8s.io/controller-runtime/... k8s.io/client-go/kubernetes/... internal/garden", "it works without a garden"},
		{"cmd/... local/cmd/...",
			"testing test/... .../test/... .../conformance internal/golden local/clouddaemon/cloudtest local/clouddaemon/sandboxtest",
			"programs contain no tests"},
		{"api/core/... api/extensions/... extension extension/worker", "testing test/... .../conformance internal/golden",
			"programs contain no tests"},
	} {
		for _, p := range matching(t, boundary.packages) {
			for reached, by := range repository(t).reach(p) {
				if matches(boundary.never, below(reached)) {
					t.Errorf("%s reaches %s (which %s imports): %s", below(p), below(reached), below(by), boundary.since)
				}
			}
		}
	}
}

// TestPartsDoNotImportEachOther allows every part to be a separate process. The exceptions are decisions on which two
// of them have to agree.
func TestPartsDoNotImportEachOther(t *testing.T) {
	parts := []string{
		"internal/apiserver", "internal/controllermanager", "internal/scheduler", "internal/gardenlet",
		"internal/resourcemanager",
		"internal/nodeagent", "internal/gateway", "internal/tunnel", "internal/apiserverproxy", "local/provider",
		"local/clouddaemon",
		"internal/plan", "internal/lint", "internal/validate", "local/landscape", "internal/bench",
	}
	agreed := []struct{ part, imports, since string }{
		{"internal/gardenlet", "internal/controllermanager/controllerregistration",
			"both decide which extensions a Shoot needs"},
		{"internal/gardenlet", "internal/nodeagent/osc internal/nodeagent/config",
			"one writes what the other applies on the machine"},
		{"internal/gardenlet", "internal/tunnel", "one deploys what the other listens on"},
		{"internal/gardenlet", "internal/resourcemanager/token",
			"both keep tokens in Secrets: one of the garden, the other of a Shoot"},
		{"internal/gateway", "internal/tunnel/relay internal/tunnel/gate", "both accept connections and pass them on"},
		{"internal/apiserverproxy", "internal/tunnel/relay", "both pass connections on"},
		{"internal/lint", "internal/plan", "both read the same fleets"},
		{"internal/bench", "internal/scheduler", "it measures the decision alone, too"},
		{"local/landscape", "local/clouddaemon local/clouddaemon/cleanup", "it starts the cloud and removes its leftovers"},
		{"local/landscape", "internal/apiserver/seedauthorizer", "the garden's kube-apiserver calls it at its path"},
		{"local/landscape", "local/provider/credentials", "both hand the credentials of a bucket to etcd-backup"},
	}
	for _, part := range parts {
		for _, p := range matching(t, part+"/...") {
			for _, imported := range repository(t).imports[p] {
				for _, other := range parts {
					allowed := slices.ContainsFunc(agreed, func(a struct{ part, imports, since string }) bool {
						return a.part == part && matches(a.imports, below(imported))
					})
					if other != part && own(imported) && matches(other+"/...", below(imported)) && !allowed {
						t.Errorf("%s imports %s", below(p), below(imported))
					}
				}
			}
		}
	}
	for _, a := range agreed {
		used := false
		for _, p := range matching(t, a.part+"/...") {
			used = used || slices.ContainsFunc(repository(t).imports[p],
				func(i string) bool { return matches(a.imports, below(i)) })
		}
		if !used {
			t.Errorf("%s imports nothing of %s any more: the exception can go", a.part, a.imports)
		}
	}
}

// TestProductDoesNotNeedTheLocalCloud separates the code that runs anywhere from the simulated provider on one machine.
// The exceptions use both.
func TestProductDoesNotNeedTheLocalCloud(t *testing.T) {
	exceptions := []struct{ packages, imports, since string }{
		{"internal/cli", "local/...", "all commands are in one program"},
		{"cmd/control-plane", "local/provider/cloudcontroller local/provider/machine",
			"the control planes of the local cloud run them: commands of one program share its pages"},
		{"internal/bench", "local/cloud", "it measures what operations cost on machines of the local cloud"},
		{"internal/nodeagent", "local/machineinit", "its default is the control socket of machines of the local cloud"},
		{"internal/nodeagent/units/machineinit", "local/machineinit/unit",
			"it controls units through process 1 of machines of the local cloud"},
	}
	used := make([]bool, len(exceptions))
	for _, p := range matching(t, "api/... charts/... cmd/... extension/... internal/...") {
		for _, imported := range repository(t).imports[p] {
			if !own(imported) || !matches("local/...", below(imported)) {
				continue
			}
			allowed := false
			for i, e := range exceptions {
				if matches(e.packages, below(p)) && matches(e.imports, below(imported)) {
					allowed, used[i] = true, true
				}
			}
			if !allowed {
				t.Errorf("%s imports %s", below(p), below(imported))
			}
		}
	}
	for i, e := range exceptions {
		if !used[i] {
			t.Errorf("%s imports nothing of %s any more: the exception can go", e.packages, e.imports)
		}
	}
}

// TestDecisionsArePure checks single files, since most decisions are next to the controller that executes them. Their
// inputs are arguments: objects and a time.
func TestDecisionsArePure(t *testing.T) {
	for _, decision := range []struct{ files, what string }{
		{"internal/cloudprofile/*.go", "which versions may be used"},
		{"internal/maintenance/*.go", "which updates are due, what a maintenance changes"},
		{"internal/cloudprofile/offer/*.go", "what a CloudProfile allows"},
		{"internal/scheduler/decide.go internal/scheduler/filters.go internal/scheduler/fixes.go",
			"which seed runs a Shoot, and why others do not"},
		{"internal/scheduler/elsewhere.go", "where Shoots go that leave a seed"},
		{"internal/garden/keyrotation/decide.go", "what a rotation of the garden's key does next"},
		{"internal/cli/move/decide.go", "which Shoots of a drain move next, how far a move is"},
		{"internal/scheduler/distance.go internal/scheduler/profile.go internal/scheduler/regions.go",
			"which seed is the nearest"},
		{"internal/controllermanager/controllerregistration/required.go", "which extensions are needed"},
		{"internal/gardenlet/shoot/decide.go", "what is to be done with a Shoot"},
		{"internal/gardenlet/shoot/care/checks.go internal/gardenlet/shoot/care/nodes.go internal/gardenlet/shoot/care/thresholds.go", "its conditions"},
		{"internal/gardenlet/shoot/care/constraints.go internal/gardenlet/shoot/care/webhooks.go", "its constraints"},
		{"internal/gardenlet/shoot/cleanup/order.go", "what is deleted in which order"},
		{"internal/networkpolicy/*.go", "who may talk to whom in a seed"},
		{"internal/resourcemanager/csr/decide.go", "which certificates nodes get"},
		{"internal/controllermanager/csr/decide.go", "which certificates gardenlets get"},
		{"internal/gardenlet/access/decide.go", "when the gardenlet's certificate is renewed, which one is used"},
		{"internal/resourcemanager/health/*.go", "whether objects are healthy"},
		{"internal/resourcemanager/node/readiness.go", "whether a node is ready"},
		{"internal/nodeagent/change/*.go", "what changes on a node"},
		{"internal/gateway/table.go", "where the gateway leads connections"},
		{"internal/gateway/limits.go", "how many connections a control plane may have"},
		{"internal/apiserver/seedauthorizer/decide.go", "what a gardenlet may do"},
		{"local/clouddaemon/decide.go local/clouddaemon/ipam.go", "what an instance needs next, which address is free"},
		{"extension/poolhash/*.go extension/errorcode/*.go", "when a pool rolls, who can help with an error"},
		{"extension/worker/render.go extension/worker/spread.go extension/worker/replicas.go extension/worker/progress.go",
			"the machines of a pool, and how far they are"},
	} {
		checkPure(t, decision.files, decision.what, outside+clients)
	}
	// They use the type of objects of the client library, but send no requests.
	checkPure(t, "internal/component/*.go internal/component/*/*.go", "what a component is made of", outside+
		"k8s.io/client-go/...")
}

// outside are packages by which code gets inputs other than its arguments.
const outside = "context io/... net net/http os os/... math/rand/... crypto/rand k8s.io/utils/clock/... "

func checkPure(t *testing.T, files, what, never string) {
	t.Helper()
	for _, file := range sources(t, files) {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range parsed.Imports {
			if p := strings.Trim(imported.Path.Value, `"`); matches(never, p) {
				t.Errorf("%s decides %s, but imports %s", file, what, p)
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if called, isSelector := n.(*ast.SelectorExpr); isSelector {
				from, isName := called.X.(*ast.Ident)
				if isName && from.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, called.Sel.Name) {
					t.Errorf("%s decides %s, but calls time.%s", file, what, called.Sel.Name)
				}
			}
			return true
		})
	}
}
