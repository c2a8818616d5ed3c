package env

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Start starts an environment for one test.
func Start(t testing.TB, opts ...Option) *Environment {
	t.Helper()
	e, err := start(opts...)
	if err != nil {
		t.Fatalf("start environment: %v", err)
	}
	t.Cleanup(func() {
		if err := e.shutdown(); err != nil {
			t.Errorf("stop environment: %v", err)
		}
	})
	return e
}

// shared is the environment of a package. It starts with the first test that requests it.
var shared struct {
	sync.Mutex
	options []Option
	*Environment
	err error
}

// Main runs the tests of a package with one environment for all of them and exits. Call it from TestMain.
func Main(m *testing.M, opts ...Option) {
	shared.options = append([]Option{}, opts...)
	code := m.Run()
	if shared.Environment != nil && shared.err == nil {
		if err := shared.shutdown(); err != nil {
			fmt.Fprintln(os.Stderr, "stop environment:", err)
			code = max(code, 1)
		}
	}
	if err := stopUserClusters(); err != nil {
		fmt.Fprintln(os.Stderr, "stop user clusters:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Shared returns the environment that all tests of the package share. Tests must leave nothing behind that others see.
func Shared(t testing.TB) *Environment {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.options == nil {
		t.Fatal("TestMain of this package does not call env.Main")
	}
	if shared.Environment == nil {
		shared.Environment, shared.err = start(shared.options...)
	}
	if shared.err != nil {
		t.Fatalf("start environment: %v", shared.err)
	}
	return shared.Environment
}

// serial makes names unique in this process.
var serial atomic.Int64

// Name returns a name with the given prefix that no other call in this process returns.
func Name(prefix string) string { return fmt.Sprintf("%s%d", prefix, serial.Add(1)) }

// Create creates objects and deletes them after the test, whatever finalizers they have.
func (e *Environment) Create(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := e.Client.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
		t.Cleanup(func() { e.remove(t, object) })
	}
}

// remove confirms the deletion of an object, deletes it and removes its finalizers.
func (e *Environment) remove(t testing.TB, object client.Object) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	confirm := []byte(`{"metadata":{"annotations":{"` + corev1beta1.AnnotationConfirmationDeletion + `":"true"}}}`)
	steps := []func() error{
		func() error { return e.Client.Delete(ctx, object) },
		func() error {
			return e.Client.Patch(ctx, object,
				client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		},
	}
	if shoot, ok := object.(*corev1beta1.Shoot); ok {
		// The API server removes a Shoot only after its deletion has succeeded.
		steps = append([]func() error{func() error {
			return e.Client.Status().Patch(ctx, shoot, client.RawPatch("application/merge-patch+json", []byte(
				`{"status":{"lastOperation":{"type":"Delete","state":"Succeeded","progress":100,"description":"","lastUpdateTime":"2000-01-01T00:00:00Z"}}}`)))
		}}, steps...)
	}
	switch object.(type) {
	case *corev1beta1.Shoot, *corev1beta1.Project, *corev1beta1.ShootState:
		steps = append([]func() error{func() error {
			return e.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", confirm))
		}}, steps...)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			if !apierrors.IsNotFound(err) {
				t.Logf("remove %T %s: %v", object, client.ObjectKeyFromObject(object), err)
			}
			return
		}
	}
}

// Namespace creates a namespace for one test.
func (e *Environment) Namespace(t testing.TB, labels map[string]string) *corev1.Namespace {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Name("test-"), Labels: labels}}
	if err := e.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	return namespace
}

// Project creates a project and the namespace that its controller would make, for one test.
func (e *Environment) Project(t testing.TB) *corev1beta1.Project {
	t.Helper()
	name := Name("p")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: corev1beta1.ProjectNamespacePrefix + name,
		Labels: map[string]string{
			corev1beta1.LabelRole: corev1beta1.RoleProject, corev1beta1.LabelProjectName: name,
		},
	}}
	project := &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1beta1.ProjectSpec{Namespace: ptr(namespace.Name)},
	}
	if err := e.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create namespace of project: %v", err)
	}
	e.Create(t, project)
	return project
}

// As returns the access of another user, who has only the rights that roles give.
func (e *Environment) As(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: user, Groups: append([]string{"system:authenticated"}, groups...),
	}
	return config
}

// ClientAs returns a client for the access of another user.
func (e *Environment) ClientAs(t testing.TB, user string, groups ...string) client.Client {
	t.Helper()
	c, err := client.New(e.As(user, groups...), client.Options{Scheme: e.Scheme, Mapper: e.Client.RESTMapper()})
	if err != nil {
		t.Fatalf("make client for %s: %v", user, err)
	}
	return c
}

// Eventually waits until a condition holds that depends on other processes. Own code is stepped instead.
func Eventually(t testing.TB, what string, holds func() (bool, error)) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute) // Machines that run tests are busy.
	for {
		ok, err := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: does not hold (last error: %v)", strings.TrimSpace(what), err)
		}
		time.Sleep(pollInterval)
	}
}
