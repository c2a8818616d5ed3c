package managedresource

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/crds"
)

// fixture is a reconciler for two simulated clusters.
type fixture struct {
	t              *testing.T
	source, target client.Client
	clock          *clocktesting.FakePassiveClock
	r              *Reconciler
	writes         int   // Number of writes to the target.
	failWrite      error // Returned by the next write to the target.
	released       bool  // The last write removed the finalizer, when no objects were listed any more.
}

var mrKey = types.NamespacedName{Namespace: "ns", Name: "mr"}

func newFixture(
	t *testing.T, class string, data map[string]string, change ...func(*resourcesv1alpha1.ManagedResource),
) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), resourcesv1alpha1.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	mr := &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: mrKey.Namespace, Name: mrKey.Name, Generation: 1, UID: "mr"},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "s"}}},
	}
	if class != "" {
		mr.Spec.Class = &class
	}
	for _, c := range change {
		c(mr)
	}
	f := &fixture{t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	f.source = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(mr).WithObjects(mr,
		secret("s", data)).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			f.released = len(o.GetFinalizers()) == 0 && len(f.mr().Status.Resources) == 0
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	wrote := func(err *error) error { f.writes++; out := *err; *err = nil; return out }
	f.target = fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(testMapperApps()).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := wrote(&f.failWrite); err != nil {
					return err
				}
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if err := wrote(&f.failWrite); err != nil {
					return err
				}
				return c.Update(ctx, o, opts...)
			},
		}).Build()
	f.r = &Reconciler{
		Source: f.source, SourceReader: f.source, Target: f.target, Clock: f.clock, Class: class, SyncPeriod: time.Minute,
	}
	return f
}

func (f *fixture) reconcile() reconcile.Result {
	f.t.Helper()
	result, err := f.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: mrKey})
	if err != nil {
		f.t.Fatalf("Reconcile() = %v", err)
	}
	return result
}

func (f *fixture) mr() *resourcesv1alpha1.ManagedResource {
	f.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := f.source.Get(context.Background(), mrKey, mr); err != nil {
		f.t.Fatal(err)
	}
	return mr
}

// conditions are the statuses and reasons, for example "True ApplySucceeded".
func (f *fixture) conditions() map[string]string {
	out := map[string]string{}
	for _, c := range f.mr().Status.Conditions {
		out[string(c.Type)] = string(c.Status) + " " + c.Reason
	}
	return out
}

func (f *fixture) wantConditions(applied, healthy, progressing string) {
	f.t.Helper()
	want := map[string]string{
		"ResourcesApplied": applied, "ResourcesHealthy": healthy, "ResourcesProgressing": progressing,
	}
	for key, value := range want {
		if value == "" {
			delete(want, key)
		}
	}
	if diff := cmp.Diff(want, f.conditions()); diff != "" {
		f.t.Errorf("conditions mismatch (-want +got):\n%s", diff)
	}
}

func (f *fixture) setData(data map[string]string) {
	f.t.Helper()
	s := &corev1.Secret{}
	if err := f.source.Get(context.Background(), types.NamespacedName{Namespace: "ns", Name: "s"}, s); err != nil {
		f.t.Fatal(err)
	}
	s.Data = secret("s", data).Data
	if err := f.source.Update(context.Background(), s); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) configMap(name string) *corev1.ConfigMap {
	f.t.Helper()
	cm := &corev1.ConfigMap{}
	err := f.target.Get(context.Background(), types.NamespacedName{Namespace: "default", Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return cm
}

func configMap(name, extra string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + extra + "}, data: {a: b}}\n---\n"
}

func TestObjectsAreAppliedRepairedAndDeleted(t *testing.T) {
	f := newFixture(t, "", map[string]string{"a": configMap("one", "") + configMap("two", "")})
	f.reconcile()
	f.wantConditions("True ApplySucceeded", "True ResourcesHealthy", "False ResourcesRolledOut")
	mr := f.mr()
	if len(mr.Status.Resources) != 2 || mr.Status.ObservedGeneration != 1 ||
		len(ptr.Deref(mr.Status.SecretsDataChecksum, "")) != 64 || len(mr.Finalizers) != 1 {
		t.Errorf("status = %+v, finalizers %v", mr.Status, mr.Finalizers)
	}
	one := f.configMap("one")
	if one == nil || one.Annotations[resourcesv1alpha1.AnnotationOrigin] != "ns/mr" ||
		one.Labels[resourcesv1alpha1.LabelManagedBy] != "gardener" {
		t.Fatalf("ConfigMap = %+v", one)
	}

	writes := f.writes
	f.reconcile()
	if f.writes != writes {
		t.Error("an unchanged ManagedResource was written again")
	}

	one.Data = map[string]string{"a": "changed"}
	one.Labels["foreign"] = "x"
	if err := f.target.Update(context.Background(), one); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	if one = f.configMap("one"); one.Data["a"] != "b" || one.Labels["foreign"] != "x" {
		t.Errorf("after a change by others: %+v", one)
	}

	f.setData(map[string]string{"a": configMap("two", "")})
	f.reconcile()
	if f.configMap("one") != nil || f.configMap("two") == nil || len(f.mr().Status.Resources) != 1 {
		t.Error("want only two left")
	}

	if err := f.source.Delete(context.Background(), f.mr()); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	if f.configMap("two") != nil {
		t.Error("the object is left after the ManagedResource was deleted")
	}
	if err := f.source.Get(context.Background(), mrKey, &resourcesv1alpha1.ManagedResource{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ManagedResource is still there: %v", err)
	}
}

func TestObjectsThatStay(t *testing.T) {
	for name, tc := range map[string]struct {
		extra  string // In the metadata of the object.
		change func(*fixture)
		want   bool
	}{
		"plain": {want: false},
		"keep-object": {
			extra: `, annotations: {resources.gardener.cloud/keep-object: "true"}`, want: true,
		},
		"keep-object with a false value": {
			extra: `, annotations: {resources.gardener.cloud/keep-object: "false"}`, want: false,
		},
		"garbage-collectable": {
			extra:  `, labels: {resources.gardener.cloud/garbage-collectable-reference: "true"}`,
			change: func(f *fixture) { f.r.GarbageCollected = true }, want: true,
		},
		"garbage-collectable without a collector": {
			extra: `, labels: {resources.gardener.cloud/garbage-collectable-reference: "true"}`, want: false,
		},
		"taken over by another ManagedResource": {change: func(f *fixture) {
			cm := f.configMap("one")
			cm.Annotations[resourcesv1alpha1.AnnotationOrigin] = "ns/other"
			if err := f.target.Update(context.Background(), cm); err != nil {
				f.t.Fatal(err)
			}
		}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "", map[string]string{"a": configMap("one", tc.extra)})
			f.reconcile()
			if tc.change != nil {
				tc.change(f)
			}
			f.setData(nil)
			f.reconcile()
			if got := f.configMap("one") != nil; got != tc.want {
				t.Errorf("object is there: %v, want %v", got, tc.want)
			}
			if n := len(f.mr().Status.Resources); n != 0 {
				t.Errorf("%d objects in the status, want none", n)
			}
		})
	}
}

func TestKeepObjectsAndReleasedObjects(t *testing.T) {
	f := newFixture(t, "", map[string]string{"a": configMap("one", "")},
		func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = ptr.To(true) })
	f.reconcile()
	f.setData(map[string]string{
		"a": configMap("one", ", annotations: {resources.gardener.cloud/mode: Ignore}") + configMap("two", ""),
	})
	f.reconcile()
	if one := f.configMap("one"); one == nil || one.Annotations[resourcesv1alpha1.AnnotationOrigin] != "" {
		t.Errorf("released object = %+v, want it without origin", one)
	}
	if err := f.source.Delete(context.Background(), f.mr()); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	if f.configMap("two") == nil {
		t.Error("keepObjects: the object is gone")
	}
}

func TestIgnoredManagedResourceAndIgnoredObject(t *testing.T) {
	f := newFixture(t, "", map[string]string{
		"a": configMap("one", `, annotations: {resources.gardener.cloud/ignore: "true"}`),
	})
	f.reconcile()
	one := f.configMap("one")
	one.Data = map[string]string{"a": "user"}
	if err := f.target.Update(context.Background(), one); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	if f.configMap("one").Data["a"] != "user" {
		t.Error("an object that is only to be created was updated")
	}
	mr := f.mr()
	mr.Annotations = map[string]string{resourcesv1alpha1.AnnotationIgnore: "true"}
	if err := f.source.Update(context.Background(), mr); err != nil {
		t.Fatal(err)
	}
	f.setData(nil)
	f.reconcile()
	f.wantConditions("True ManagedResourceIgnored", "True ManagedResourceIgnored", "False ManagedResourceIgnored")
	if f.configMap("one") == nil {
		t.Error("an ignored ManagedResource deleted its object")
	}
	mr = f.mr()
	mr.Annotations = nil
	if err := f.source.Update(context.Background(), mr); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	f.wantConditions("True ApplySucceeded", "True ResourcesHealthy", "False ResourcesRolledOut")
}

func TestFailuresAreReportedOnce(t *testing.T) {
	f := newFixture(t, "", map[string]string{"a": configMap("one", "") + "{\n---\n"})
	f.reconcile()
	before := f.mr()
	for range 3 {
		f.clock.SetTime(f.clock.Now().Add(time.Minute))
		f.reconcile()
	}
	if after := f.mr(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("conditions were %+v, now %+v", before.Status.Conditions, after.Status.Conditions)
	}
}

// A label of a manifest that was only partly applied is removed with the next one.
func TestLabelsOfInterruptedApplicationsAreRemoved(t *testing.T) {
	f := newFixture(t, "", map[string]string{"a": configMap("one", "")})
	f.reconcile()
	f.setData(map[string]string{"a": configMap("one", ", labels: {new: x}"), "b": "{\n"})
	f.reconcile()
	if f.configMap("one").Labels["new"] != "x" {
		t.Fatal("the good document was not applied")
	}
	f.setData(map[string]string{"a": configMap("one", "")})
	f.reconcile()
	if labels := f.configMap("one").Labels; labels["new"] != "" {
		t.Errorf("labels = %v", labels)
	}
}

// Objects that the status no longer lists are not applied from a cache that still lists them.
func TestStaleCacheAppliesNothing(t *testing.T) {
	f := newFixture(t, "", map[string]string{"a": configMap("one", "") + configMap("two", "")})
	f.reconcile()
	stale := f.mr()
	f.setData(map[string]string{"a": configMap("one", "")})
	f.reconcile()
	f.setData(map[string]string{"a": configMap("one", "") + configMap("two", "")})
	live := f.r.Source
	f.r.Source = interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if mr, ok := o.(*resourcesv1alpha1.ManagedResource); ok {
				stale.DeepCopyInto(mr)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	if result := f.reconcile(); result.RequeueAfter != time.Second || f.configMap("two") != nil {
		t.Errorf("result = %+v, object %v", result, f.configMap("two"))
	}
	f.r.Source = live
	f.reconcile()
	if n := len(f.mr().Status.Resources); n != 2 || f.configMap("two") == nil {
		t.Errorf("%d objects in the status, want 2", n)
	}
}

func TestFailuresShowInConditions(t *testing.T) {
	f := newFixture(t, "", map[string]string{"a": configMap("one", "") + "{\n---\n"})
	f.reconcile()
	f.wantConditions("False DecodingFailed", "Unknown ChecksPending", "Unknown ChecksPending")
	if f.configMap("one") == nil {
		t.Error("the good document was not applied")
	}
	f.setData(map[string]string{"a": "{\n"}) // Applied objects may be in the broken part.
	f.reconcile()
	if f.configMap("one") == nil {
		t.Error("an object was deleted because of a broken document")
	}
	f.setData(map[string]string{"a": configMap("one", "") + configMap("two", "")})
	f.failWrite = apierrors.NewForbidden(corev1.Resource("configmaps"), "two", errors.New("no"))
	if _, err := f.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: mrKey}); err == nil {
		t.Error("a failed write returned no error")
	}
	if got := f.conditions()["ResourcesApplied"]; got != "False ApplyFailed" {
		t.Errorf("ResourcesApplied = %q", got)
	}
	if n := len(f.mr().Status.Resources); n != 2 {
		t.Errorf("%d objects in the status, want both: the failed one may exist", n)
	}
	f.reconcile()
	f.wantConditions("True ApplySucceeded", "True ResourcesHealthy", "False ResourcesRolledOut")
	if err := f.source.Delete(context.Background(), secret("s", nil)); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	if got := f.conditions()["ResourcesApplied"]; got != "False CannotReadSecret" {
		t.Errorf("ResourcesApplied = %q", got)
	}
}

func TestClassChange(t *testing.T) {
	f := newFixture(t, "", map[string]string{"a": configMap("one", "")})
	f.reconcile()
	mr := f.mr()
	mr.Spec.Class = ptr.To("seed")
	if err := f.source.Update(context.Background(), mr); err != nil {
		t.Fatal(err)
	}
	seed := &Reconciler{
		Source: f.source, SourceReader: f.source, Target: f.target, Clock: f.clock, Class: "seed", SyncPeriod: time.Minute,
	}
	old := f.r
	f.r = seed
	f.reconcile()
	if got := f.mr().Finalizers; len(got) != 1 || got[0] != resourcesv1alpha1.FinalizerName {
		t.Errorf("finalizers %v: the new class did not wait", got)
	}
	f.r = old
	f.reconcile()
	if f.configMap("one") != nil {
		t.Error("the old class left its object")
	}
	if !f.released {
		t.Error("the old class left its list of objects to the new one")
	}
	f.r = seed
	f.reconcile()
	if got := f.mr().Finalizers; f.configMap("one") == nil || len(got) != 1 || got[0] != resourcesv1alpha1.FinalizerName+
		"-seed" {
		t.Errorf("the new class did not take over, finalizers %v", got)
	}
}

func TestDeletionWaitsForFinalizersAndStripsThemOnRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		extra string
		after time.Duration
		gone  bool
	}{
		"waits": {extra: ", finalizers: [example/x]", after: time.Hour},
		"not yet": {
			extra: ", finalizers: [example/x], annotations: {resources.gardener.cloud/finalize-deletion-after: 30m}",
			after: 29 * time.Minute,
		},
		"finalizes after the time": {
			extra: ", finalizers: [example/x], annotations: {resources.gardener.cloud/finalize-deletion-after: 30m}",
			after: 31 * time.Minute, gone: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "", map[string]string{"a": configMap("one", tc.extra)})
			f.reconcile()
			f.setData(nil)
			if result := f.reconcile(); result.RequeueAfter != pendingInterval {
				t.Errorf("result = %+v, want to wait", result)
			}
			f.wantConditions("Progressing DeletionPending", "Unknown ChecksPending", "Unknown ChecksPending")
			f.clock.SetTime(f.configMap("one").DeletionTimestamp.Add(tc.after))
			f.reconcile()
			f.reconcile()
			if got := f.configMap("one") == nil; got != tc.gone {
				t.Errorf("gone: %v, want %v", got, tc.gone)
			}
		})
	}
}

func TestHealthOfWorkloads(t *testing.T) {
	f := newFixture(t, "", map[string]string{
		"a": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 1, progressDeadlineSeconds: 600, selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}}}}}",
	})
	f.reconcile()
	f.wantConditions("True ApplySucceeded", "False DeploymentUnhealthy", "True DeploymentProgressing")
	d := &appsv1.Deployment{}
	if err := f.target.Get(context.Background(), types.NamespacedName{Namespace: "default", Name: "d"}, d); err != nil {
		t.Fatal(err)
	}
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: "True"},
		{Type: appsv1.DeploymentProgressing, Status: "True", Reason: "NewReplicaSetAvailable"},
	}
	if err := f.target.Status().Update(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old", "new"} {
		if err := f.target.Create(context.Background(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "d"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if result := f.reconcile(); result.RequeueAfter != pendingInterval {
		t.Errorf("result = %+v, want a check of the old pods soon", result)
	}
	f.wantConditions("True ApplySucceeded", "True ResourcesHealthy", "True DeploymentProgressing")
	if err := f.target.Delete(context.Background(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}}); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	f.wantConditions("True ApplySucceeded", "True ResourcesHealthy", "False ResourcesRolledOut")
}

// TestWaitingContainersAreNamed: the condition of an unhealthy workload says what its containers wait for, which
// changes without the workload.
func TestWaitingContainersAreNamed(t *testing.T) {
	const spec = "spec: {replicas: 1, selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}}}}"
	waits := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}}}
	}
	fetching := waits("ContainerCreating", "")
	fetching.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
	for kind, own := range map[string]string{
		"Deployment": "condition Available is missing", "StatefulSet": "0 of 1 replicas are ready",
		"ReplicaSet": "0 of 1 replicas are ready",
	} {
		t.Run(kind, func(t *testing.T) {
			object := "{apiVersion: apps/v1, kind: " + kind + ", metadata: {name: d}, " + spec + "}"
			f := newFixture(t, "", map[string]string{"a": object})
			pod := func(name, app string) *corev1.Pod {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: name, Labels: map[string]string{"app": app},
				}}
			}
			other := pod("other", "other")
			other.Status = waits("ErrImagePull", "of another")
			p := pod("p", "d")
			for _, o := range []client.Object{other, p} {
				if err := f.target.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range []struct {
				status corev1.PodStatus
				want   string
			}{
				{corev1.PodStatus{}, own + "."},
				{fetching, own + "."},
				{waits("ErrImagePull", "example.com/x:1: not found"),
					own + "; container c: ErrImagePull: example.com/x:1: not found."},
				{waits("ImagePullBackOff", "back-off"), own + "; container c: ImagePullBackOff: back-off."},
			} {
				p.Status = step.status
				if err := f.target.Status().Update(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				f.reconcile()
				c := corev1beta1.FindCondition(f.mr().Status.Conditions, resourcesv1alpha1.ResourcesHealthy)
				if c == nil || !strings.HasSuffix(c.Message, " is unhealthy: "+step.want) {
					t.Errorf("the condition is %+v, want %q", c, step.want)
				}
			}
		})
	}
}

// TestObjectsWithoutAnOperatorAreHealthy: if the definition is a placeholder, no controller ever writes a status.
func TestObjectsWithoutAnOperatorAreHealthy(t *testing.T) {
	f := newFixture(t, "seed", map[string]string{
		"a": "{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, metadata: {name: p}, spec: {replicas: 1}}",
	})
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheuses.monitoring.coreos.com"},
	}
	if err := f.target.Create(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	f.wantConditions("True ApplySucceeded", "False PrometheusUnhealthy", "True PrometheusProgressing")
	definition.Labels = map[string]string{crds.LabelPlaceholder: "true"}
	if err := f.target.Update(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	f.wantConditions("True ApplySucceeded", "True ResourcesHealthy", "False ResourcesRolledOut")
}

func TestInvalidUpdateReplacesObjects(t *testing.T) {
	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "one", nil)
	for name, tc := range map[string]struct {
		extra, field string
		want         bool
	}{
		"plain": {want: false},
		"requested": {
			extra: `, annotations: {resources.gardener.cloud/delete-on-invalid-update: "true"}`, want: true,
		},
		"immutable content": {field: "immutable: true, ", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "", map[string]string{
				"a": "{apiVersion: v1, kind: ConfigMap, " + tc.field + "metadata: {name: one" + tc.extra + "}, data: {a: old}}",
			})
			f.reconcile()
			f.setData(map[string]string{
				"a": "{apiVersion: v1, kind: ConfigMap, " + tc.field + "metadata: {name: one" + tc.extra + "}, data: {a: new}}",
			})
			f.failWrite = invalid
			_, err := f.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: mrKey})
			if got := f.configMap("one").Data["a"] == "new"; got != tc.want || (err == nil) != tc.want {
				t.Errorf("replaced: %v, error %v; want %v", got, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), "apply ConfigMap default/one") {
				t.Errorf("error %q does not name the object", err)
			}
		})
	}
}

func TestConditionTimes(t *testing.T) {
	mr := &resourcesv1alpha1.ManagedResource{}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	set := func(after time.Duration, status corev1beta1.ConditionStatus, message string) corev1beta1.Condition {
		setCondition(mr, start.Add(after), "X", status, "R", message)
		return mr.Status.Conditions[0]
	}
	set(0, "True", "a")
	if c := set(time.Minute, "True", "a"); !c.LastUpdateTime.Time.Equal(start) {
		t.Error("an equal condition was changed")
	}
	if c := set(2*time.Minute, "True", "b"); !c.LastTransitionTime.Time.Equal(start) ||
		!c.LastUpdateTime.Time.Equal(start.Add(2*time.Minute)) {
		t.Errorf("message changed: %+v", c)
	}
	if c := set(3*time.Minute, "False", "b"); !c.LastTransitionTime.Time.Equal(start.Add(3 * time.Minute)) {
		t.Errorf("status changed: %+v", c)
	}
}
