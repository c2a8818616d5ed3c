//go:build landscape

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/hortus/test/specs"
)

// specRun says which of Kubernetes' specs, its end-to-end tests, to run.
type specRun struct {
	// focus and skip are regular expressions for the names of specs to run and to skip; labels is an expression, such as
	// "Serial && !Slow". The specs that all three select are run.
	focus, skip, labels string
	// side is the number of specs that run concurrently.
	side     int
	patience time.Duration // Default: twice the limit of other waits.
}

// exampleKubernetes is the minor version of Kubernetes of the Shoots in examples.
const exampleKubernetes = "1.36"

// buildSpecs builds Kubernetes' end-to-end tests of a version, and the images of their pods.
func buildSpecs(t *testing.T, kubernetes string) {
	t.Helper()
	hortus(t, "components", "build", specsComponent(kubernetes))
	hortus(t, "images", "build", "e2e")
}

// specsComponent is the component with the end-to-end tests of a version, which is that of its minor: e2e-1.36 for
// 1.36.3.
func specsComponent(kubernetes string) string {
	parts := strings.SplitN(kubernetes, ".", 3)
	return "e2e-" + strings.Join(parts[:min(2, len(parts))], ".")
}

// componentPrograms are the files of a component's programs, by name.
func componentPrograms(t *testing.T, folder string) map[string]string {
	t.Helper()
	var all []struct {
		Folder   string
		Programs map[string]string
	}
	if err := json.Unmarshal([]byte(hortus(t, "components", "list", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Folder == folder {
			for name, file := range c.Programs {
				c.Programs[name] = filepath.Join(repository, file)
			}
			return c.Programs
		}
	}
	t.Fatalf("there is no component %s", folder)
	return nil
}

// runSpecs runs specs of the Shoot's minor version and returns the result of each, including those that are skipped. A
// spec that fails also fails the test. Their kubeconfig has the server's name, because the tests ignore
// tls-server-name.
func runSpecs(t *testing.T, shoot string, s specRun) []specs.Result {
	t.Helper()
	folder := t.TempDir()
	hosts, report := filepath.Join(folder, "hosts"), filepath.Join(folder, "report.json")
	kubeconfig := shootKubeconfig(t, shoot)
	nodes, version := namesOfNodes(t, kubeconfig), serverVersion(t, kubeconfig)
	kubeconfig = filepath.Join(folder, "kubeconfig")
	resolvedKubeconfig(t, shoot, kubeconfig, hosts)
	programs := componentPrograms(t, specsComponent(version))
	absolute := func(file string) string {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	ginkgo, tests := absolute(programs["ginkgo"]), absolute(programs["e2e.test"])
	kubectl, err := filepath.Abs(kubectlPath(t)) // Tests of older versions check the output of their own version.
	if err != nil {
		t.Fatal(err)
	}
	if own := programs["kubectl"]; own != "" {
		kubectl = absolute(own)
	}
	log := specLog(t)
	defer log.Close()
	limit := cmp.Or(s.patience, 2*patience)
	// The program writes its report when its own time is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit+5*time.Minute)
	defer cancel()
	// A mount namespace hides the file with the server's name from the rest of the machine.
	const inside = `mount --bind "$1" /etc/hosts && shift && exec "$@"`
	command := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", inside, "sh", hosts,
		ginkgo, fmt.Sprintf("--procs=%d", s.side), "--no-color", "--succinct", "--timeout="+limit.String(),
		"--json-report="+report, "--focus="+s.focus, "--skip="+s.skip, "--label-filter="+s.labels,
		tests, "--",
		"--kubeconfig="+kubeconfig, "--kubectl-path="+kubectl, "--provider=local", "--num-nodes=2")
	command.Dir, command.Stdout, command.Stderr = folder, log, log
	failed := command.Run()
	content, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("the specs left no report: %v (%v), see %s", failed, err, log.Name())
	}
	hidden := hide(nodes, folder, filepath.Dir(tests), kubeconfig, kubectl)
	results, err := specs.Read(content, time.Now().UTC().Format(time.DateOnly), hidden)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 {
		t.Fatalf("the specs left an empty report: %v, see %s", failed, log.Name())
	}
	t.Log(specs.Summary(results))
	if failed != nil {
		t.Errorf("the specs failed: %v, see %s", failed, log.Name())
	}
	return results
}

// specLog is the file for the output of specs, which has thousands of lines if one fails.
func specLog(t *testing.T) *os.File {
	t.Helper()
	folder := filepath.Join(repository, ".build", "stories", filepath.Dir(t.Name()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(folder, filepath.Base(t.Name())+".specs.log"))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// resolvedKubeconfig writes a kubeconfig with the server's name, and a hosts file with this name.
func resolvedKubeconfig(t *testing.T, shoot, kubeconfig, hosts string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(repository, ".build", "hortus"), "kubeconfig", "shoot",
		shoot, "-n", projectNS, "--resolve", "--expiration", "24h")
	var line bytes.Buffer
	command.Stderr = &line
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, line.String())
	}
	for file, data := range map[string][]byte{
		kubeconfig: out, hosts: append([]byte("127.0.0.1 localhost\n"), line.Bytes()...),
	} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// namesOfNodes returns names and addresses of the nodes.
func namesOfNodes(t *testing.T, kubeconfig string) []string {
	t.Helper()
	return strings.Fields(kubectl(t, kubeconfig, "get", "nodes",
		"-o", "jsonpath={range .items[*]}{.metadata.name} {.status.addresses[*].address} {end}"))
}

// hide removes names of this machine's nodes and files from reasons.
func hide(nodes []string, files ...string) *strings.Replacer {
	var pairs []string
	for _, node := range nodes {
		pairs = append(pairs, node, "(node)")
	}
	for _, file := range files {
		pairs = append(pairs, file, filepath.Base(file))
	}
	return strings.NewReplacer(pairs...)
}

// serverVersion is the version of an API server, as 1.36.3.
func serverVersion(t *testing.T, kubeconfig string) string {
	t.Helper()
	var info struct{ GitVersion string }
	if err := json.Unmarshal([]byte(kubectl(t, kubeconfig, "get", "--raw", "/version")), &info); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(info.GitVersion, "v")
}
