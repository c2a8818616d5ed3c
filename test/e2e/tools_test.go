//go:build landscape

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
)

const (
	repository = "../.."
	stateDir   = "/var/lib/hortus"
	projectNS  = "garden-dev"
)

// patience bounds every wait for a state. It is far more than two busy cores need, even to build a Kubernetes version,
// and only ends runs that are stuck.
const patience = 20 * time.Minute

// withPatience is patience for kubectl, whose own limit is 30 s or none.
const withPatience = "--timeout=20m"

// shoots is the only part of the API that a client has to know: none of our types is used.
var shoots = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "shoots"}

// hortus runs the command as a user would and returns its output.
func hortus(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, filepath.Join(repository, ".build", "hortus"), args...)
	if err != nil {
		t.Fatalf("hortus %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// kubectl runs the kubectl of the landscape's components.
func kubectl(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	out, err := kubectlE(t, kubeconfig, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func kubectlE(t *testing.T, kubeconfig string, args ...string) (string, error) {
	return run(t, kubectlPath(t), append([]string{"--kubeconfig", kubeconfig}, args...)...)
}

func kubectlPath(t *testing.T) string {
	matches, err := filepath.Glob(filepath.Join(repository, ".build/bin/kubectl/v*/kubectl"))
	if err != nil || len(matches) == 0 {
		t.Fatal("kubectl is not built: run 'hortus components build kubectl'")
	}
	return matches[len(matches)-1]
}

func run(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	absolute, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	command := exec.CommandContext(ctx, absolute, args...)
	command.Dir = repository
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err = command.Run()
	return out.String(), err
}

// kubeconfigOf is the administrator's kubeconfig of one of the landscape's own clusters.
func kubeconfigOf(cluster string) string {
	return filepath.Join(stateDir, "landscape", cluster, "admin.kubeconfig")
}

func dynamicClient(t *testing.T, kubeconfig string) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// awaitShoot watches a Shoot until the condition holds, and returns it. A deleted Shoot is passed as nil.
func awaitShoot(
	t *testing.T, name, what string, holds func(*unstructured.Unstructured) bool,
) *unstructured.Unstructured {
	t.Helper()
	resource := dynamicClient(t, kubeconfigOf("garden")).Resource(shoots).Namespace(projectNS)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	var last *unstructured.Unstructured
	for {
		current, err := resource.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			last = current
		}
		if err != nil && strings.Contains(err.Error(), "not found") {
			if holds(nil) {
				return nil
			}
		} else if err == nil && holds(current) {
			return current
		}
		if ctx.Err() != nil {
			t.Fatalf("Shoot %s: timeout after %s waiting for: %s; it is\n%s", name, patience, what, statusText(last))
		}
		if err != nil { // The API server may be down, on purpose in some tests.
			pause(ctx)
			continue
		}
		_, _ = watchtools.Until(ctx, current.GetResourceVersion(), &shootWatch{resource, name},
			func(e watch.Event) (bool, error) {
				if e.Type == watch.Error {
					return false, fmt.Errorf("watch ended")
				}
				shoot, isShoot := e.Object.(*unstructured.Unstructured)
				if e.Type == watch.Deleted {
					return true, nil
				}
				return isShoot && holds(shoot), nil
			})
	}
}

type shootWatch struct {
	resource dynamic.ResourceInterface
	name     string
}

func (w *shootWatch) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return w.WatchWithContext(context.Background(), o)
}

func (w *shootWatch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.FieldSelector = fields.OneTermEqualSelector("metadata.name", w.name).String()
	return w.resource.Watch(ctx, o)
}

// pause is the time between attempts while a server is known to be down; tests wait for states, not for times.
func pause(ctx context.Context) {
	pauseFor(ctx, 200*time.Millisecond)
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d): // Real time: between attempts.
	}
}

// longestPause between two attempts of [eventually].
const longestPause = time.Second

// eventually repeats the check until it succeeds. The pauses between attempts get longer: most checks start a program,
// which takes 0.1 s of CPU time that other tests need.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for delay := 200 * time.Millisecond; ; delay = min(2*delay, longestPause) {
		err := check()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("waited %s for: %s; last: %v", patience, what, err)
		}
		pauseFor(ctx, delay)
	}
}

// forward makes a port of a pod or of a Service reachable while f runs, even a port that listens only inside the pod.
func forward(t *testing.T, kubeconfig, namespace, to, port string, f func(url string)) {
	t.Helper()
	local := freePort(t)
	command := exec.CommandContext(t.Context(), kubectlPath(t), "--kubeconfig", kubeconfig, "-n", namespace,
		"port-forward", to, local+":"+port)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	f("http://127.0.0.1:" + local)
}

// answer returns the body of a response with status 200. It waits until there is one.
func answer(t *testing.T, url string) string {
	t.Helper()
	var body []byte
	eventually(t, "an answer of "+url, func() error {
		response, err := http.Get(url)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		body, err = io.ReadAll(response.Body)
		return err
	})
	return string(body)
}

func statusText(o *unstructured.Unstructured) string {
	if o == nil {
		return "gone"
	}
	text, err := json.MarshalIndent(o.Object["status"], "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func lastOperation(o *unstructured.Unstructured, field string) string {
	if o == nil {
		return ""
	}
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "lastOperation", field)
	return fmt.Sprint(value)
}

// succeeded says whether the Shoot's newest spec has been reconciled.
func succeeded(o *unstructured.Unstructured) bool {
	if o == nil {
		return false
	}
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return observed == o.GetGeneration() && lastOperation(o, "state") == "Succeeded"
}

func awaitSucceeded(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	return awaitShoot(t, name, "lastOperation Succeeded", succeeded)
}

// shootKubeconfig requests a kubeconfig of the Shoot as its owner would, and returns the file.
func shootKubeconfig(t *testing.T, name string) string {
	t.Helper()
	return shootKubeconfigIn(t, projectNS, name)
}

// shootKubeconfigIn is [shootKubeconfig] for a Shoot of another project.
func shootKubeconfigIn(t *testing.T, namespace, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".kubeconfig")
	if err := os.WriteFile(path, []byte(hortus(t, "kubeconfig", "shoot", name, "-n", namespace)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// deleteShoot confirms and deletes a Shoot and waits until it is gone.
func deleteShoot(t *testing.T, name string) {
	t.Helper()
	garden := kubeconfigOf("garden")
	kubectl(t, garden, "-n", projectNS, "annotate", "--overwrite", "shoot", name,
		"confirmation.gardener.cloud/deletion=true")
	kubectl(t, garden, "-n", projectNS, "delete", "shoot", name, "--wait=false")
	awaitShoot(t, name, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
}
