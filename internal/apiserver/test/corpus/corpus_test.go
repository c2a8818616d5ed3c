// Package corpus checks that the server responds as the pure functions do, with the cases of api/testdata/corpus.
package corpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/api/corpus"
	"hortus.dev/hortus/internal/apiserver"
	"hortus.dev/hortus/internal/apiserver/admission/extensionlabels"
	"hortus.dev/hortus/internal/apiserver/admission/plugins"
	"hortus.dev/hortus/test/env"
)

// beginning is a time at which nothing has expired, for cases that do not depend on the time.
var beginning = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

var clock = clocktesting.NewFakePassiveClock(beginning)

func TestMain(m *testing.M) {
	env.Main(m, env.WithClock(clock), env.WithGardenAPI(func(o *apiserver.Options) {
		// The cases are about single objects, and most objects that they refer to do not exist.
		o.Recommended.Admission.DisablePlugins = slices.DeleteFunc(plugins.Names(),
			func(name string) bool { return name == extensionlabels.Name })
	}))
}

func TestServerAnswersLikePureFunctions(t *testing.T) {
	e := env.Shared(t)
	cases, err := corpus.Load(os.DirFS("../../../../api/testdata/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	namespaces := map[string]bool{"garden": true}
	for _, c := range cases {
		if c.Server != "" || len(c.Features) > 0 {
			continue // The file has the reason, or the case requires a server with other feature gates.
		}
		t.Run(strings.TrimSuffix(c.File, ".yaml"), func(t *testing.T) {
			clock.SetTime(beginning)
			if !c.Now.IsZero() {
				clock.SetTime(c.Now)
			}
			object := &unstructured.Unstructured{Object: c.Object}
			if namespace := object.GetNamespace(); namespace != "" && !namespaces[namespace] {
				namespaces[namespace] = true
				if err := e.Client.Create(t.Context(),
					&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := send(t, e, c, object)
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			want := wanted(c)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\nerrors mismatch (-want +got):\n%s", c.Name, diff)
			}
			for at, value := range c.Defaults {
				if diff := cmp.Diff(plain(value), plain(corpus.Get(object.Object, at))); len(c.Errors) == 0 && diff != "" {
					t.Errorf("%s\n%s (-want +got):\n%s", c.Name, at, diff)
				}
			}
		})
	}
}

func wanted(c corpus.Case) []string {
	var want []string
	for _, e := range c.Errors {
		want = append(want, e.String())
	}
	return want
}

// send makes the request of a case as a dry run, and returns the causes of a rejection.
func send(t *testing.T, e *env.Environment, c corpus.Case, object *unstructured.Unstructured) ([]string, error) {
	ctx := t.Context()
	if c.Operation == corpus.Create {
		return causes(e.Client.Create(ctx, object, client.DryRunAll))
	}
	old := &unstructured.Unstructured{Object: c.Old}
	stored := old.DeepCopy()
	if err := store(t, e, stored); err != nil {
		if apierrors.IsInvalid(err) && c.StoredRefused { // An object from before a rule, which cannot be made under it.
			return wanted(c), nil
		}
		return nil, fmt.Errorf("store the old object: %w", err)
	}
	if c.StoredRefused {
		return nil, errors.New("the old object is stored; remove \"stored: refused\"")
	}
	object.SetResourceVersion(stored.GetResourceVersion())
	object.SetUID(stored.GetUID())
	object.SetCreationTimestamp(stored.GetCreationTimestamp())
	if corpus.Get(object.Object, "metadata.deletionTimestamp") != nil {
		object.SetDeletionTimestamp(stored.GetDeletionTimestamp())
		object.SetDeletionGracePeriodSeconds(stored.GetDeletionGracePeriodSeconds())
		object.SetFinalizers(stored.GetFinalizers())
	}
	if window := corpus.Get(stored.Object, "spec.maintenance.timeWindow"); window != nil &&
		corpus.Get(c.Object, "spec.maintenance.timeWindow") == nil &&
		object.GetKind() == "Shoot" { // The default is random.
		if err := corpus.Set(object.Object, "spec.maintenance.timeWindow", window); err != nil {
			return nil, err
		}
	}
	if c.Operation == corpus.StatusUpdate {
		return causes(e.Client.Status().Update(ctx, object, client.DryRunAll))
	}
	return causes(e.Client.Update(ctx, object, client.DryRunAll))
}

// store creates the stored object of a case, with its status and, if set, its deletion timestamp.
func store(t *testing.T, e *env.Environment, object *unstructured.Unstructured) error {
	deleting := object.GetDeletionTimestamp() != nil
	if deleting {
		object.SetDeletionTimestamp(nil)
		object.SetFinalizers([]string{"test.hortus.dev/keep"})
	}
	status := object.Object["status"]
	if err := e.Client.Create(t.Context(), object, client.DryRunAll); err != nil {
		return err
	}
	object.SetResourceVersion("")
	object.SetUID("")
	e.Create(t, object)
	if status != nil {
		object.Object["status"] = status
		if err := e.Client.Status().Update(t.Context(), object); err != nil {
			return err
		}
	}
	if !deleting {
		return nil
	}
	if err := e.Client.Delete(t.Context(), object); err != nil {
		return err
	}
	return e.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
}

// causes returns the causes of a rejection in the form of the cases.
func causes(err error) ([]string, error) {
	if err == nil {
		return nil, nil
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil, err
	}
	var list []string
	for _, cause := range status.Status().Details.Causes {
		list = append(list, corpus.NewError(&field.Error{Type: field.ErrorType(cause.Type), Field: cause.Field}).String())
	}
	return list, nil
}

// plain makes the numbers of both sources comparable.
func plain(value any) any {
	raw, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var result any
	if err := json.Unmarshal(raw, &result); err != nil {
		return value
	}
	return result
}
