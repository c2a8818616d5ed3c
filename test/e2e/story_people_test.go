//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPeople has the members of a project do what their roles allow, and try what they do not allow: the owner creates
// a project and its Shoot, an administrator uses it, a viewer reads it, a user access manager adds members, and a
// non-member has no access.
func TestPeople(t *testing.T) {
	story(t, bothSeeds) // The scheduler binds its Shoot to one of the seeds.
	const project, namespace, shoot = "team", "garden-team", "shared"
	garden := kubeconfigOf("garden")
	in := people{garden, namespace}
	as, may, mayNot := in.as, in.may, in.mayNot
	createProject(t, project, namespace, member("olga", "admin"), member("alice", "admin"), member("bob", "viewer"),
		member("carol", "uam"))

	file := filepath.Join(t.TempDir(), "shoot.yaml")
	text := strings.NewReplacer("name: api-only", "name: "+shoot, "namespace: "+projectNS, "namespace: "+
		namespace).Replace(example(t, "shoot-workerless.yaml"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"bob", "carol", "eve"} {
		mayNot(t, user, "create", "-f", file)
	}
	may(t, "alice", "create", "-f", file)
	kubectl(t, garden, "-n", namespace, "wait", "shoot", shoot, "--for=jsonpath={.status.lastOperation.state}=Succeeded",
		withPatience)

	step(t, "each role reads and changes what it may", func(t *testing.T) {
		for _, user := range []string{"olga", "alice", "bob"} {
			may(t, user, "get", "shoots,secretbindings,configmaps")
			may(t, user, "get", "project", project)
		}
		may(t, "carol", "get", "project", project)
		mayNot(t, "carol", "get", "shoots")
		for _, what := range []string{"shoots", "secrets", "configmaps"} {
			mayNot(t, "eve", "get", what)
		}
		mayNot(t, "eve", "get", "project", project)
		may(t, "alice", "get", "secrets")
		mayNot(t, "bob", "get", "secrets")
		for _, user := range []string{"olga", "alice", "bob", "carol"} { // Only the system reads these.
			mayNot(t, user, "get", "internalsecrets")
			mayNot(t, user, "get", "shootstates")
		}
		mayNot(t, "bob", "annotate", "shoot", shoot, "looked=at")
		bastion := filepath.Join(t.TempDir(), "bastion.yaml")
		content := fmt.Sprintf(`{"apiVersion": "operations.gardener.cloud/v1alpha1", "kind": "Bastion",
			"metadata": {"name": "b"}, "spec": {"shootRef": {"name": %q}, "ingress": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
			"sshPublicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGykj8Nqmi5x5ifc7MlS0R1A8p1rxMWUWnIgmyNXuxVS"}}`, shoot)
		if err := os.WriteFile(bastion, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		may(t, "bob", "get", "bastions")
		for _, user := range []string{"bob", "carol", "eve"} {
			mayNot(t, user, "create", "-f", bastion)
		}
		if out, err := as(t, "alice", "create", "-f", bastion); err == nil || !strings.Contains(out, "has no machines") {
			t.Errorf("a member gets a Bastion for a Shoot without machines: %v\n%s", err, out)
		}
		may(t, "alice", "annotate", "shoot", shoot, "looked=at")
	})
	step(t, "user access managers add members", func(t *testing.T) {
		patch := fmt.Sprintf(`[{"op": "add", "path": "/spec/members/-", "value": %s}]`, member("dave", "viewer"))
		mayNot(t, "bob", "patch", "project", project, "--type=json", "-p", patch)
		mayNot(t, "alice", "patch", "project", project, "--type=json", "-p", patch)
		mayNot(t, "dave", "get", "shoots")
		may(t, "carol", "patch", "project", project, "--type=json", "-p", patch)
		in.awaitAccess(t, "dave", "get", "shoots")
	})
	step(t, "a viewer's kubeconfig reads no Secrets and writes nothing", func(t *testing.T) {
		request := func(user, kind string) (string, error) {
			body := filepath.Join(t.TempDir(), "request.json")
			content := fmt.Sprintf(`{"apiVersion": "authentication.gardener.cloud/v1alpha1", "kind": "%sKubeconfigRequest", "spec": {"expirationSeconds": 600}}`, kind)
			if err := os.WriteFile(body, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			path := "/apis/core.gardener.cloud/v1beta1/namespaces/" + namespace + "/shoots/" + shoot + "/" +
				strings.ToLower(kind) + "kubeconfig"
			out, err := kubectlE(t, garden, "--as="+user, "create", "--raw", path, "-f", body)
			if err != nil {
				return out, err
			}
			var answer struct{ Status struct{ Kubeconfig []byte } }
			if err := json.Unmarshal([]byte(out), &answer); err != nil {
				return out, err
			}
			kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
			return kubeconfig, os.WriteFile(kubeconfig, answer.Status.Kubeconfig, 0o600)
		}
		for user, kinds := range map[string][]string{
			"bob": {"Admin"}, "carol": {"Admin", "Viewer"}, "eve": {"Admin", "Viewer"},
		} {
			for _, kind := range kinds {
				if out, err := request(user, kind); err == nil || !strings.Contains(out, "orbidden") {
					t.Errorf("%s gets a kubeconfig of a Shoot's %s: %v", user, strings.ToLower(kind), err)
				}
			}
		}
		admin, err := request("alice", "Admin")
		if err != nil {
			t.Fatalf("%v: %s", err, admin)
		}
		viewer, err := request("bob", "Viewer")
		if err != nil {
			t.Fatalf("%v: %s", err, viewer)
		}
		kubectl(t, admin, "create", "secret", "generic", "password", "--from-literal=a=b")
		kubectl(t, admin, "create", "configmap", "motto", "--from-literal=a=b")
		kubectl(t, viewer, "get", "configmap", "motto")
		kubectl(t, viewer, "get", "namespaces,services,events", "-A")
		for _, args := range [][]string{
			{"get", "secret", "password"}, {"get", "secrets", "-A"}, {"create", "configmap", "more"},
			{"delete", "configmap", "motto"},
			{"label", "namespace", "default", "a=b"}, {"create", "token", "default"}, {"get", "--raw", "/metrics"},
		} {
			if out, err := kubectlE(t, viewer, args...); err == nil || !strings.Contains(out, "orbidden") {
				t.Errorf("a viewer may %v: %v\n%s", args, err, out)
			}
		}
	})
	step(t, "a project is deleted after its last Shoot", func(t *testing.T) {
		mayNot(t, "carol", "delete", "project", project)
		may(t, "olga", "annotate", "project", project, "confirmation.gardener.cloud/deletion=true")
		may(t, "olga", "delete", "project", project, "--wait=false")
		kubectl(t, garden, "wait", "project", project, "--for=jsonpath={.status.phase}=Terminating", withPatience)
		if deleted := may(t, "alice", "get", "shoot", shoot, "-o", "jsonpath={.metadata.deletionTimestamp}"); deleted != "" {
			t.Error("the Shoot is deleted with its project, without a confirmation")
		}
		may(t, "alice", "annotate", "shoot", shoot, "confirmation.gardener.cloud/deletion=true")
		may(t, "alice", "delete", "shoot", shoot, "--wait=false")
		kubectl(t, garden, "wait", "project", project, "--for=delete", withPatience)
		if out := kubectl(t, garden, "get", "namespace", namespace, "--ignore-not-found", "-o", "name"); out != "" {
			t.Errorf("the project is gone, its namespace is not: %s", out)
		}
	})
}

// TestRolesOfMembers has a service account manager make an account, which becomes a member, and a member with the role
// of an extension do what the extension defines. Nobody else may do the same.
func TestRolesOfMembers(t *testing.T) {
	story(t, firstSeed)
	const project, namespace, extensionRole = "roles", "garden-roles", "limiter"
	garden := kubeconfigOf("garden")
	in := people{garden, namespace}
	as, may, mayNot := in.as, in.may, in.mayNot
	createProject(t, project, namespace, member("olga", "admin"), member("alice", "admin"), member("bob", "viewer"),
		member("carol", "uam"), member("sam", "serviceaccountmanager"), member("erik", "extension:"+extensionRole))
	t.Cleanup(func() {
		kubectl(t, garden, "annotate", "project", project, "confirmation.gardener.cloud/deletion=true")
		kubectl(t, garden, "delete", "project", project, withPatience)
	})
	in.awaitAccess(t, "bob", "get", "shoots")
	in.awaitAccess(t, "sam", "get", "serviceaccounts")

	step(t, "service account managers make accounts, which can be members", func(t *testing.T) {
		for _, user := range []string{"alice", "bob", "carol", "erik", "eve"} {
			mayNot(t, user, "create", "serviceaccount", "robot")
		}
		may(t, "sam", "create", "serviceaccount", "robot")
		if token := may(t, "sam", "create", "token", "robot"); strings.Count(token, ".") != 2 {
			t.Errorf("the token of the account is %q", token)
		}
		for _, what := range []string{"shoots", "secrets", "configmaps"} {
			mayNot(t, "sam", "get", what)
		}
		mayNot(t, "sam", "get", "project", project)
		const robot = "system:serviceaccount:" + namespace + ":robot"
		mayNot(t, robot, "get", "shoots")
		may(t, "alice", "patch", "project", project, "--type=json", "-p", `[{"op": "add", "path": "/spec/members/-", "value":
			{"kind": "ServiceAccount", "namespace": "`+namespace+`", "name": "robot", "role": "viewer"}}]`)
		in.awaitAccess(t, robot, "get", "shoots")
		mayNot(t, robot, "get", "secrets")
		may(t, "sam", "delete", "serviceaccount", "robot")
	})
	step(t, "the role of an extension allows what the extension defines", func(t *testing.T) {
		mayNot(t, "erik", "get", "limitranges")
		role := strings.ReplaceAll(roleOfExtension, "NAME", extensionRole)
		if out, err := applyText(t, garden, role); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		t.Cleanup(func() { kubectl(t, garden, "delete", "clusterrole", "example.com:"+extensionRole) })
		in.awaitAccess(t, "erik", "get", "limitranges")
		for _, user := range []string{"bob", "carol", "sam", "eve"} {
			mayNot(t, user, "get", "limitranges")
		}
		mayNot(t, "erik", "get", "shoots")
		mayNot(t, "erik", "get", "limitranges", "-n", "garden")
		index := slices.Index(strings.Fields(kubectl(t, garden, "get", "project", project, "-o",
			"jsonpath={.spec.members[*].name}")), "erik")
		may(t, "carol", "patch", "project", project, "--type=json", "-p",
			fmt.Sprintf(`[{"op": "remove", "path": "/spec/members/%d"}]`, index))
		eventually(t, "no permissions of a former member", func() error {
			if out, err := as(t, "erik", "get", "limitranges"); err == nil || !strings.Contains(out, "orbidden") {
				return fmt.Errorf("it may still read limitranges: %v\n%s", err, out)
			}
			return nil
		})
	})
}

// roleOfExtension is what an extension adds to the role of the same name in all projects.
const roleOfExtension = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: example.com:NAME
  labels: {rbac.gardener.cloud/aggregate-to-extension-role: NAME}
rules: [{apiGroups: [""], resources: [limitranges], verbs: [get, list]}]
`

// people act in the namespace of a project.
type people struct{ garden, namespace string }

// as runs kubectl as a user.
func (p people) as(t *testing.T, user string, args ...string) (string, error) {
	t.Helper()
	return kubectlE(t, p.garden, append([]string{"--as=" + user, "-n", p.namespace}, args...)...)
}

func (p people) may(t *testing.T, user string, args ...string) string {
	t.Helper()
	out, err := p.as(t, user, args...)
	if err != nil {
		t.Errorf("%s may not %v: %s", user, args, out)
	}
	return out
}

func (p people) mayNot(t *testing.T, user string, args ...string) {
	t.Helper()
	if out, err := p.as(t, user, args...); err == nil || !strings.Contains(out, "orbidden") {
		t.Errorf("%s may %v: %v\n%s", user, args, err, out)
	}
}

// awaitAccess waits until a user may do something.
func (p people) awaitAccess(t *testing.T, user string, args ...string) {
	t.Helper()
	eventually(t, "the permissions of "+user, func() error {
		out, err := p.as(t, user, args...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// createProject creates a project of olga, and waits for its namespace and roles.
func createProject(t *testing.T, project, namespace string, members ...string) {
	t.Helper()
	garden := kubeconfigOf("garden")
	manifest := fmt.Sprintf(`{"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project", "metadata": {"name": %q},
		"spec": {"namespace": %q, "owner": %s, "members": [%s]}}`, project, namespace, member("olga", ""),
		strings.Join(members, ","))
	if out, err := applyText(t, garden, manifest); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	kubectl(t, garden, "wait", "project", project, "--for=jsonpath={.status.phase}=Ready", withPatience)
}

// member of a project, as JSON.
func member(user, role string) string {
	roles := ""
	if role != "" {
		roles = fmt.Sprintf(`, "role": %q`, role)
	}
	return fmt.Sprintf(`{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": %q%s}`, user, roles)
}
