//go:build landscape

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/chart"
)

// Types of the extension that the story registers: one is migrated while the API server runs, one after it has stopped.
const earlyType, lateType = "e2e-early", "e2e-late"

// ownRegistration installs an empty chart: the extension runs in the process of the test.
const ownRegistration = `apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: e2e
helm:
  rawChart: %s
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: e2e
spec:
  deployment:
    deploymentRefs:
    - name: e2e
  resources:
  - {kind: Extension, type: ` + earlyType + `, workerlessSupported: true}
  - {kind: Extension, type: ` + lateType + `, workerlessSupported: true, lifecycle: {reconcile: BeforeKubeAPIServer, migrate: AfterKubeAPIServer}}
`

// TestOwnExtensionsMove moves a Shoot that uses a third-party extension, whose external object only its state
// identifies. Source and destination follow the contract, in its order, and no external object is deleted before the
// Shoot is.
func TestOwnExtensionsMove(t *testing.T) {
	story(t, bothSeeds)
	const name, source, destination = "guest", "local-1", "local-2"
	archive, err := chart.Archive(fstest.MapFS{
		"e2e/Chart.yaml": {Data: []byte("apiVersion: v2\nname: e2e\nversion: 0.1.0\n")},
		"e2e/templates/configmap.yaml": {
			Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: e2e, namespace: {{ .Release.Namespace }}}\n"),
		},
	}, "e2e", "e2e")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := applyText(t, kubeconfigOf("garden"),
		fmt.Sprintf(ownRegistration, base64.StdEncoding.EncodeToString(archive))); err != nil {
		t.Fatalf("register the extension: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		kubectl(t, kubeconfigOf("garden"), "delete", "controllerregistration,controllerdeployment", "e2e")
	})
	ctrl.SetLogger(logr.Discard())
	outside := &outside{things: map[string]string{}}
	for _, seed := range []string{source, destination} {
		outside.serve(t, seed)
	}

	applyShootOn(t, "shoot-workerless.yaml", name, source,
		fmt.Sprintf("extensions: [{type: %s}, {type: %s}]", earlyType, lateType))
	awaitSucceeded(t, name)
	made := outside.all()
	if len(made) != 2 {
		t.Fatalf("the extension has created %v", made)
	}
	outside.forget()

	hortus(t, "move", "shoot", name, "-n", projectNS, "--to", destination)
	awaitLeft(t, name, source)
	for _, kind := range []string{earlyType, lateType} {
		calls := outside.of(kind)
		want := []string{source + " migrate", destination + " restore " + made[kind]}
		if !slices.Equal(calls, want) {
			t.Errorf("the operations of %s were %v, want %v", kind, calls, want)
		}
	}
	if now := outside.all(); now[earlyType] != made[earlyType] || now[lateType] != made[lateType] {
		t.Errorf("the external objects were %v and are %v", made, now)
	}

	deleteShoot(t, name)
	if left := outside.all(); len(left) > 0 {
		t.Errorf("after the deletion there are still external objects: %v", left)
	}
}

// outside has the external objects of the extension, by type, and the operations that were requested from it.
type outside struct {
	mu     sync.Mutex
	things map[string]string
	calls  map[string][]string
}

func (o *outside) all() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[string]string{}
	for kind, thing := range o.things {
		all[kind] = thing
	}
	return all
}

// of returns the distinct calls for a type.
func (o *outside) of(kind string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Compact(slices.Clone(o.calls[kind]))
}

func (o *outside) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = nil
}

func (o *outside) note(kind string, words ...string) {
	if o.calls == nil {
		o.calls = map[string][]string{}
	}
	o.calls[kind] = append(o.calls[kind], strings.Join(words, " "))
}

// serve runs the extension for a seed until the end of the test.
func (o *outside) serve(t *testing.T, seed string) {
	t.Helper()
	rest, err := clientcmd.BuildConfigFromFlags("", adminOf(seed))
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := extensionsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	manager, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{earlyType, lateType} {
		reconciler := &extension.Reconciler[*extensionsv1alpha1.Extension]{
			Client: manager.GetClient(), Clock: clock.RealClock{}, Actuator: &ownActuator{outside: o, seed: seed, kind: kind},
			Prototype: &extensionsv1alpha1.Extension{}, Kind: extensionsv1alpha1.ExtensionKind, Type: kind,
			FinalizerSuffix: kind,
		}
		if err := reconciler.SetupWithManager(manager, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the extension for %s: %v", seed, err)
		}
	})
}

// ownActuator has one external object, whose name is only in status.state.
type ownActuator struct {
	outside    *outside
	seed, kind string
}

type ownState struct{ Thing string }

func (a *ownActuator) Reconcile(
	_ context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) (extension.Result, error) {
	a.outside.mu.Lock()
	defer a.outside.mu.Unlock()
	a.outside.note(a.kind, a.seed, "reconcile")
	if a.outside.things[a.kind] == "" {
		a.outside.things[a.kind] = string(e.UID)
	}
	raw, err := json.Marshal(ownState{Thing: a.outside.things[a.kind]})
	e.Status.State = &runtime.RawExtension{Raw: raw}
	return extension.Done(), err
}

func (a *ownActuator) Restore(
	_ context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) (extension.Result, error) {
	a.outside.mu.Lock()
	defer a.outside.mu.Unlock()
	state := ownState{}
	if e.Status.State != nil {
		if err := json.Unmarshal(e.Status.State.Raw, &state); err != nil {
			return extension.Done(), err
		}
	}
	a.outside.note(a.kind, a.seed, "restore", state.Thing)
	return extension.Done(), nil
}

func (a *ownActuator) Migrate(
	context.Context, *extensionsv1alpha1.Extension, *extension.Cluster,
) (extension.Result, error) {
	a.outside.mu.Lock()
	defer a.outside.mu.Unlock()
	a.outside.note(a.kind, a.seed, "migrate")
	return extension.Done(), nil
}

func (a *ownActuator) Delete(
	context.Context, *extensionsv1alpha1.Extension, *extension.Cluster,
) (extension.Result, error) {
	a.outside.mu.Lock()
	defer a.outside.mu.Unlock()
	a.outside.note(a.kind, a.seed, "delete")
	delete(a.outside.things, a.kind)
	return extension.Done(), nil
}

func (a *ownActuator) ForceDelete(
	ctx context.Context, e *extensionsv1alpha1.Extension, c *extension.Cluster,
) (extension.Result, error) {
	return a.Delete(ctx, e, c)
}
