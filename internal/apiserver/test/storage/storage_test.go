package storage

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

const etcdPrefix = "/registry-gardener/core.gardener.cloud/"

func TestSecretsAreEncryptedInEtcd(t *testing.T) {
	e := env.Shared(t)
	namespace := *e.Project(t).Spec.Namespace
	const marker = "nobody-may-read-this"
	raw := runtime.RawExtension{Raw: []byte(`{"state":"` + marker + `"}`)}
	deployment := &gardencorev1.ControllerDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("deployment-")},
		Helm:       &gardencorev1.HelmControllerDeployment{RawChart: []byte(marker), Values: &raw},
	}
	encrypted := map[string]client.Object{
		"shootstates": &corev1beta1.ShootState{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
			Spec: corev1beta1.ShootStateSpec{Gardener: []corev1beta1.GardenerResourceData{{
				Name: "ca", Type: "secret", Data: raw,
			}}},
		},
		"internalsecrets": &corev1beta1.InternalSecret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, StringData: map[string]string{"key": marker},
		},
		"controllerdeployments": deployment,
		"controllerregistrations": &corev1beta1.ControllerRegistration{
			ObjectMeta: metav1.ObjectMeta{Name: env.Name("registration-"), Annotations: map[string]string{"marker": marker}},
		},
	}
	for _, object := range encrypted {
		e.Create(t, object)
	}
	quota := &corev1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q", Annotations: map[string]string{"marker": marker}},
		Spec: corev1beta1.QuotaSpec{Scope: corev1.ObjectReference{
			APIVersion: "core.gardener.cloud/v1beta1", Kind: "Project",
		}},
	}
	e.Create(t, quota)

	encoded := base64.StdEncoding.EncodeToString([]byte(marker))
	for resource, object := range encrypted {
		key := etcdPrefix + resource + "/" + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
		stored, err := e.Stored(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		value, ok := stored[key]
		if !ok {
			t.Errorf("%s is not in etcd", key)
		}
		if !bytes.HasPrefix(value, []byte("k8s:enc:secretbox:v1:key1:")) || bytes.Contains(value, []byte(marker)) ||
			bytes.Contains(value, []byte(encoded)) {
			t.Errorf("%s is stored in plain text: %.200q", key, value)
		}
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Errorf("read %s: %v", key, err)
		}
	}
	// This search finds unencrypted values.
	stored, err := e.Stored(t.Context(), etcdPrefix+"quotas/"+namespace+"/q")
	if err != nil || len(stored) != 1 {
		t.Fatalf("%d quotas, %v", len(stored), err)
	}
	for key, value := range stored {
		if !bytes.Contains(value, []byte(marker)) {
			t.Errorf("%s: %.200q", key, value)
		}
	}
}

// States that cannot be compressed. Both exceed the limits of etcd (1.5 MiB), its client (2 MiB) and the server library
// (3 MiB).
const (
	largestState = 20 << 20 // also exceeds the 16 MiB that watches of the client library support
	largeState   = 4 << 20
)

func randomState(t *testing.T, size int) runtime.RawExtension {
	t.Helper()
	data := make([]byte, size/4*3)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: []byte(`{"state":"` + base64.StdEncoding.EncodeToString(data) + `"}`)}
}

func TestLargeShootState(t *testing.T) {
	e := env.Shared(t)
	ctx := t.Context()
	namespace := *e.Project(t).Spec.Namespace
	state := &corev1beta1.ShootState{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "large"},
		Spec: corev1beta1.ShootStateSpec{Extensions: []corev1beta1.ExtensionResourceState{
			{Kind: "Infrastructure", Name: ptr.To("large"), State: ptr.To(randomState(t, largestState))},
		}},
	}
	want := state.Spec.Extensions[0].State.Raw
	same := func(step string, got *corev1beta1.ShootState) {
		t.Helper()
		if len(got.Spec.Extensions) != 1 || !bytes.Equal(want, got.Spec.Extensions[0].State.Raw) {
			t.Fatalf("%s: another state", step)
		}
	}
	event := watchStates(t, e, namespace)

	e.Create(t, state)
	same("create", state)
	same("watch", event("ADDED"))
	got := &corev1beta1.ShootState{}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(state), got); err != nil {
		t.Fatal(err)
	}
	same("get", got)

	got.Spec.Extensions[0].State = ptr.To(randomState(t, largeState))
	want = got.Spec.Extensions[0].State.Raw
	if err := e.Client.Update(ctx, got); err != nil {
		t.Fatal(err)
	}
	same("update", got)
	same("watch", event("MODIFIED"))

	if err := e.Client.Patch(ctx, got,
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"}}}`))); err != nil {
		t.Fatal(err)
	}
	same("small patch", got)
	event("MODIFIED")
	raw := randomState(t, largeState)
	want = raw.Raw
	patch := fmt.Sprintf(`{"spec":{"extensions":[{"kind":"Infrastructure","name":"large","state":%s}]}}`, raw.Raw)
	if err := e.Client.Patch(ctx, got, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
	same("large patch", got)
	event("MODIFIED")

	list := &corev1beta1.ShootStateList{}
	if err := e.Client.List(ctx, list, client.InNamespace(namespace)); err != nil || len(list.Items) != 1 {
		t.Fatalf("list: %d, %v", len(list.Items), err)
	}
	same("list", &list.Items[0])
	page := &corev1beta1.ShootStateList{}
	if err := e.Client.List(ctx, page, client.InNamespace(namespace), client.Limit(1)); err != nil ||
		len(page.Items) != 1 {
		t.Fatalf("list of a page: %d, %v", len(page.Items), err)
	}
}

// watchStates returns a function that waits for the next event. It reads the stream itself: the client library supports
// events of at most 16 MiB, so caches cannot hold large ShootStates.
func watchStates(t *testing.T, e *env.Environment, namespace string) func(string) *corev1beta1.ShootState {
	t.Helper()
	http, err := rest.HTTPClientFor(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.Get(strings.TrimSuffix(e.Config.Host, "/") + "/apis/core.gardener.cloud/v1beta1/namespaces/" +
		namespace + "/shootstates?watch=true&timeoutSeconds=300")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Body.Close() })
	events := json.NewDecoder(stream.Body)
	return func(kind string) *corev1beta1.ShootState {
		t.Helper()
		var event struct {
			Type   string
			Object corev1beta1.ShootState
		}
		if err := events.Decode(&event); err != nil || event.Type != kind {
			t.Fatalf("watch: %s, want %s; %v", event.Type, kind, err)
		}
		return &event.Object
	}
}

func TestOnlyShootStatesAreLarge(t *testing.T) {
	e := env.Shared(t)
	namespace := *e.Project(t).Spec.Namespace
	tooMuch := strings.Repeat("x", 4<<20)
	quota := &corev1beta1.Quota{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "q", Annotations: map[string]string{"a": tooMuch},
	}}
	if err := e.Client.Create(t.Context(), quota); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("a Quota of 4 MiB: %.300v", err)
	}
	state := &corev1beta1.ShootState{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
		Spec: corev1beta1.ShootStateSpec{Extensions: []corev1beta1.ExtensionResourceState{
			{Kind: "Infrastructure", State: ptr.To(randomState(t, 31<<20))},
		}},
	}
	if err := e.Client.Create(t.Context(), state); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("a ShootState of 31 MiB: %.300v", err)
	}
}

// The chart and the server must have the same limits.
func TestChartLetsEtcdTakeLargeObjects(t *testing.T) {
	objects, err := gardenChart()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() != "StatefulSet" || !strings.Contains(object.GetName(), "etcd") {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		arguments, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(arguments, "--max-request-bytes=33554432") {
			return
		}
		t.Fatalf("etcd is started with %q", arguments)
	}
	t.Fatal("the chart has no etcd")
}
