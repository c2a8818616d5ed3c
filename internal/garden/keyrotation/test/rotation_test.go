package test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/garden/keyrotation"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/test/env"
)

var firstKey = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))

// perKind is the number of objects of a kind: more than in the first page of a list.
const perKind = 60

var (
	deploymentKey = client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: "hortus-apiserver"}
	secretKey     = client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: keyrotation.SecretName}
)

const etcdPrefix = "/registry-gardener/"

// TestKeyIsRotatedTwice stops the command after its first write, then after its second one and so on, and restarts it
// each time.
func TestKeyIsRotatedTwice(t *testing.T) {
	e := env.Shared(t)
	objects := createObjects(t, e)
	deploy(t, e)
	checkStored(t, e, objects, "key1")

	rotateWithStops(t, e, objects)
	checkStored(t, e, objects, "key2")
	checkKeys(t, e, "key2", "key1")

	before := deployment(t, e)
	applyChart(t, e)
	after := deployment(t, e)
	annotations := after.Spec.Template.Annotations
	if after.Generation != before.Generation || annotations[keyrotation.AnnotationRevision] == "" {
		t.Errorf("applying the chart again changes the pods: %v, before %v", annotations, before.Spec.Template.Annotations)
	}

	late := &corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{Namespace: objects[0].GetNamespace(), Name: "late"}}
	e.Create(t, late)
	objects = append(objects, late)
	rotateWithStops(t, e, objects)
	checkStored(t, e, objects, "key3")
	checkKeys(t, e, "key3", "key2")

	// Without interruptions, and with the delay for backups.
	var out bytes.Buffer
	r := rotation(e.Client, &out)
	r.BackupDelay = 3 * time.Second
	started := time.Now()
	if err := withRollOuts(t, e, func() error { return r.Run(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(started); took < r.BackupDelay {
		t.Errorf("the new key was used within %s", took)
	}
	checkStored(t, e, objects, "key4")
	checkKeys(t, e, "key4", "key3")
	want := fmt.Sprintf("internalsecrets.core.gardener.cloud: %d of %d objects written with key4", perKind+1, perKind+1)
	if !strings.Contains(out.String(), want) {
		t.Errorf("the command does not print %q:\n%s", want, &out)
	}
}

func rotation(c client.Client, out io.Writer) *keyrotation.Rotation {
	return &keyrotation.Rotation{Garden: c, Clock: clock.RealClock{}, Out: out, Namespace: corev1beta1.GardenNamespace}
}

// rotateWithStops runs the command again and again, with one more write each time, until a rotation is complete.
func rotateWithStops(t *testing.T, e *env.Environment, objects []client.Object) {
	t.Helper()
	for writes := int64(1); ; writes = more(writes) {
		ctx, stop := context.WithCancel(t.Context())
		err := withRollOuts(t, e, func() error { return rotation(stopping(t, e, writes, stop), io.Discard).Run(ctx) })
		stopped := ctx.Err() != nil
		stop()
		if err == nil {
			t.Logf("complete in a run of less than %d writes", writes)
			return
		}
		if !stopped {
			t.Fatalf("in a run that should be stopped after %d writes: %v", writes, err)
		}
		checkReadable(t, e, objects)
	}
}

// more returns the number of writes of the next run: each of the first ten, then larger steps through the objects.
func more(writes int64) int64 {
	if writes < 10 {
		return writes + 1
	}
	return writes + 97
}

// stopping is a client that stops its user after a number of writes. The response to the last one is lost.
func stopping(t *testing.T, e *env.Environment, writes int64, stop context.CancelFunc) client.Client {
	t.Helper()
	var n atomic.Int64
	note := func(ctx context.Context, err error) error {
		if n.Add(1) == writes {
			stop()
			return ctx.Err()
		}
		return err
	}
	base, err := client.NewWithWatch(e.Config, client.Options{Scheme: e.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return interceptor.NewClient(base, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return note(ctx, c.Update(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return note(ctx, c.Patch(ctx, o, p, opts...))
		},
	})
}

// createObjects creates objects of every encrypted kind.
func createObjects(t *testing.T, e *env.Environment) []client.Object {
	t.Helper()
	namespace := *e.Project(t).Spec.Namespace
	raw := runtime.RawExtension{Raw: []byte(`{"a":"b"}`)}
	var objects []client.Object
	for i := range perKind {
		name := fmt.Sprintf("o%02d", i)
		objects = append(objects,
			&corev1beta1.InternalSecret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{"a": "b"},
			},
			&corev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: corev1beta1.ShootStateSpec{
					Gardener: []corev1beta1.GardenerResourceData{{Name: "ca", Type: "secret", Data: raw}}}},
			&gardencorev1.ControllerDeployment{ObjectMeta: metav1.ObjectMeta{Name: name},
				Helm: &gardencorev1.HelmControllerDeployment{
					RawChart: []byte("chart"), Values: &raw}},
			&corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: name}},
		)
	}
	e.Create(t, objects...)
	return objects
}

// deploy creates the Secret, and applies the Deployment of the chart that mounts it.
func deploy(t *testing.T, e *env.Environment) {
	t.Helper()
	e.Create(t, keyrotation.InitialSecret(corev1beta1.GardenNamespace, firstKey))
	applyChart(t, e)
	setRolledOut(t, e, deployment(t, e))
}

// applyChart applies the Deployment of the chart as 'hortus up' does.
func applyChart(t *testing.T, e *env.Environment) {
	t.Helper()
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(c, chart.Release{Name: "garden", Namespace: corev1beta1.GardenNamespace}, map[string]any{
		"caCrt": "-", "apiserver": map[string]any{"tlsCrt": "-", "tlsKey": "-", "encryptionSecret": keyrotation.SecretName},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == "Deployment" && o.GetName() == "hortus-apiserver" {
			if err := kube.Apply(t.Context(), e.Client, o, "hortus-landscape"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func deployment(t *testing.T, e *env.Environment) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := e.Client.Get(t.Context(), deploymentKey, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func setRolledOut(t *testing.T, e *env.Environment, d *appsv1.Deployment) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"observedGeneration":%d,"replicas":%[2]d,"updatedReplicas":%[2]d,`+
		`"readyReplicas":%[2]d,"availableReplicas":%[2]d}}`, d.Generation, *d.Spec.Replicas)
	if err := e.Client.Status().Patch(t.Context(), d, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Error(err)
	}
}

// withRollOuts runs the command and simulates the cluster: when the pod template of the Deployment changes, the API
// server is restarted with the contents of the Secret.
func withRollOuts(t *testing.T, e *env.Environment, run func() error) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- run() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		ended := false
		select {
		case err = <-result:
			ended = true
		case <-tick.C:
		}
		rollOut(t, e)
		if ended {
			return err
		}
	}
}

func rollOut(t *testing.T, e *env.Environment) {
	t.Helper()
	d, secret := deployment(t, e), &corev1.Secret{}
	if d.Status.ObservedGeneration >= d.Generation {
		return
	}
	if err := e.Client.Get(t.Context(), secretKey, secret); err != nil {
		t.Fatal(err)
	}
	if err := mount(secret.Data); err != nil {
		t.Fatal(err)
	}
	started = d.Spec.Template.Annotations[keyrotation.AnnotationRevision]
	if err := e.RestartGardenAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	setRolledOut(t, e, d)
}

// checkReadable reads all objects.
func checkReadable(t *testing.T, e *env.Environment, objects []client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)); err != nil {
			t.Fatalf("%T %s: %v", o, o.GetName(), err)
		}
	}
	for _, list := range []client.ObjectList{
		&corev1beta1.ShootStateList{}, &corev1beta1.InternalSecretList{},
		&corev1beta1.ControllerRegistrationList{}, &gardencorev1.ControllerDeploymentList{},
	} {
		if err := e.Client.List(t.Context(), list, client.Limit(500)); err != nil {
			t.Fatalf("%T: %v", list, err)
		}
	}
}

// checkStored checks in etcd with which key every object is encrypted.
func checkStored(t *testing.T, e *env.Environment, objects []client.Object, key string) {
	t.Helper()
	checkReadable(t, e, objects)
	prefix, found := encryption.Provider{Cipher: encryption.Secretbox, Key: key}.Prefix(), 0
	for _, resource := range keyrotation.Resources {
		name, group, _ := strings.Cut(resource, ".")
		stored, err := e.Stored(t.Context(), etcdPrefix+group+"/"+name+"/")
		if err != nil {
			t.Fatal(err)
		}
		for at, value := range stored {
			found++
			if !bytes.HasPrefix(value, []byte(prefix)) {
				t.Errorf("%s begins with %.40q, want %q", at, value, prefix)
			}
		}
	}
	if found < len(objects) {
		t.Errorf("%d objects are in etcd, want at least %d", found, len(objects))
	}
}

// checkKeys compares the keys of the Secret, the writer first.
func checkKeys(t *testing.T, e *env.Environment, writer, reader string) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := e.Client.Get(t.Context(), secretKey, secret); err != nil {
		t.Fatal(err)
	}
	config, err := encryption.Parse(secret.Data[keyrotation.KeyConfig])
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range keyrotation.Resources {
		if got := fmt.Sprint(config.Of(resource)); got != fmt.Sprintf("[{secretbox %s} {secretbox %s} {identity }]", writer,
			reader) {
			t.Errorf("%s has %s", resource, got)
		}
	}
	if len(config.Keys) != 2 {
		t.Errorf("the Secret has %d keys", len(config.Keys))
	}
}
