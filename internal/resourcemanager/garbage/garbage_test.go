package garbage

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

func TestCollect(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), resourcesv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	meta := func(namespace, name string, age time.Duration, collectable bool) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}
		if collectable {
			m.Labels = map[string]string{resourcesv1alpha1.LabelGarbageCollectable: "true"}
		}
		return m
	}
	uses := func(namespace string, annotations ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: namespace, Name: "user", Annotations: map[string]string{}}
		for i := 0; i < len(annotations); i += 2 {
			m.Annotations[annotations[i]] = annotations[i+1]
		}
		return m
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.ConfigMap{ObjectMeta: meta("a", "unused", time.Hour, true)},
		&corev1.ConfigMap{ObjectMeta: meta("a", "unused-but-young", 9*time.Minute, true)},
		&corev1.ConfigMap{ObjectMeta: meta("a", "unused-but-not-collectable", time.Hour, false)},
		&corev1.ConfigMap{ObjectMeta: meta("a", "used-by-deployment", time.Hour, true)},
		&corev1.ConfigMap{ObjectMeta: meta("b", "used-by-deployment", time.Hour, true)},
		&corev1.Secret{ObjectMeta: meta("a", "used-by-deployment", time.Hour, true)},
		&corev1.Secret{ObjectMeta: meta("a", "used-by-resource", time.Hour, true)},
		&corev1.Secret{ObjectMeta: meta("a", "named-in-a-wrong-annotation", time.Hour, true)},
		&appsv1.Deployment{ObjectMeta: uses("a", "reference.resources.gardener.cloud/configmap-12345678",
			"used-by-deployment",
			"reference.resources.gardener.cloud/secret-xyz", "named-in-a-wrong-annotation")},
		&resourcesv1alpha1.ManagedResource{
			ObjectMeta: uses("a", "reference.resources.gardener.cloud/secret-0a1b2c3d", "used-by-resource"),
		},
	).Build()
	collector := &Collector{Target: c, Clock: clocktesting.NewFakeClock(now), Period: time.Hour}
	if err := collector.Collect(context.Background()); err != nil {
		t.Fatal(err)
	}
	var got []string
	var maps corev1.ConfigMapList
	var secrets corev1.SecretList
	if err := errors.Join(c.List(context.Background(), &maps), c.List(context.Background(), &secrets)); err != nil {
		t.Fatal(err)
	}
	for _, o := range maps.Items {
		got = append(got, "ConfigMap "+client.ObjectKeyFromObject(&o).String())
	}
	for _, o := range secrets.Items {
		got = append(got, "Secret "+client.ObjectKeyFromObject(&o).String())
	}
	slices.Sort(got)
	want := []string{
		"ConfigMap a/unused-but-not-collectable", "ConfigMap a/unused-but-young", "ConfigMap a/used-by-deployment",
		"Secret a/used-by-resource",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left over mismatch (-want +got):\n%s", diff)
	}
}
