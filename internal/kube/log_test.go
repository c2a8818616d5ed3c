package kube

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// TestConditionsAreLoggedWhenTheyTurnBadOrGood: conditions that are only checked again after an operation are not
// logged.
func TestConditionsAreLoggedWhenTheyTurnBadOrGood(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	shoot := func(conditions ...corev1beta1.Condition) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "demo"},
			Status:     corev1beta1.ShootStatus{Conditions: conditions},
		}
	}
	is := func(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus) corev1beta1.Condition {
		return corev1beta1.Condition{Type: kind, Status: status, Reason: "R", Message: "m"}
	}
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	before := shoot(is("A", "True"), is("B", "True"), is("C", "False"), is("D", "False"))
	after := shoot(is("A", "Progressing"), is("B", "False"), is("C", "True"), is("D", "False"),
		is("E", "Unknown"), is("F", "True"))
	LogConditions(log.IntoContext(t.Context(), logger), scheme, after, before)
	line := func(kind, status, was string) string {
		return `"level"=0 "msg"="Condition has changed" "object"="Shoot garden-dev/demo" "condition"="` + kind +
			`" "status"="` + status + `" "before"="` + was + `" "reason"="R" "message"="m"`
	}
	want := []string{line("B", "False", "True"), line("C", "True", "False"), line("E", "Unknown", "")}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines mismatch (-want +got):\n%s", diff)
	}
}

// TestADeletionIsLoggedOnce: passes request it until the object is gone.
func TestADeletionIsLoggedOnce(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	ctx, cache := log.IntoContext(t.Context(), logger), &ApplyCache{}
	const deleting = `"level"=0 "msg"="Deleting object" "object"="ConfigMap n/m"`
	held := func() *corev1.ConfigMap {
		m := configMap(nil)
		m.Finalizers = []string{"example.com/held"}
		return m
	}
	c := fake.NewClientBuilder().WithObjects(held()).Build()
	read := func() *corev1.ConfigMap {
		m := configMap(nil)
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			t.Fatal(err)
		}
		m.UID = "1" // The fake server sets none.
		return m
	}
	release := func() {
		m := read()
		m.Finalizers = nil
		if err := c.Update(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	create := func() {
		if err := c.Create(ctx, held()); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name   string
		before func()
		object func() *corev1.ConfigMap
		want   []string
	}{
		{"begun", func() {}, func() *corev1.ConfigMap { return configMap(nil) }, []string{deleting}},
		{"continues", func() {}, func() *corev1.ConfigMap { return configMap(nil) }, nil},
		{"gone", release, func() *corev1.ConfigMap { return configMap(nil) }, nil},
		{"created again", create, func() *corev1.ConfigMap { return configMap(nil) }, []string{deleting}},
		{"of an object that was read, continues", func() {}, read, nil},
		{"of an object that was read, begun", func() { release(); create() }, read, []string{deleting}},
	} {
		step.before()
		lines = nil
		if _, err := cache.Delete(ctx, c, step.object()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, lines); diff != "" {
			t.Errorf("%s: lines mismatch (-want +got):\n%s", step.name, diff)
		}
	}
}
