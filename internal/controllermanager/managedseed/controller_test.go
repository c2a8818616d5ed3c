package managedseed

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

func shootOn(spec, status string) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: "apple"}}
	if spec != "" {
		s.Spec.SeedName = ptr.To(spec)
	}
	if status != "" {
		s.Status.SeedName = ptr.To(status)
	}
	return s
}

func labels(seeds ...string) map[string]string {
	set := map[string]string{}
	for _, seed := range seeds {
		set[corev1beta1.LabelPrefixSeedName+seed] = "true"
	}
	return set
}

// relabelling sets the labels as the API server does on each write, unless its cache has not seen the move of the Shoot
// yet.
func relabelling(shoot *corev1beta1.Shoot, behind bool, written *[]string) interceptor.Funcs {
	return interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
		opts ...client.PatchOption) error {
		if err := c.Patch(ctx, o, p, opts...); err != nil {
			return err
		}
		*written = append(*written, o.GetName())
		if behind {
			return nil
		}
		seeds := []string{*shoot.Spec.SeedName}
		if _, ok := o.(*corev1beta1.Seed); ok {
			seeds = append(seeds, o.GetName())
		} else if shoot.Status.SeedName != nil {
			seeds = append(seeds, *shoot.Status.SeedName)
		}
		o.SetLabels(labels(seeds...))
		return c.Update(ctx, o)
	}}
}

func TestLabelsFollowTheShoot(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1beta1.AddToScheme, seedmanagementv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		shoot         *corev1beta1.Shoot
		managed, seed map[string]string
		behind        bool
		want          int // The written objects.
		failed        bool
	}{
		"nothing has moved":                {shootOn("x", "x"), labels("x"), labels("x", "ms"), false, 0, false},
		"a Shoot without a Seed":           {shootOn("", ""), nil, labels("ms"), false, 0, false},
		"the Shoot was placed":             {shootOn("x", ""), nil, nil, false, 2, false},
		"the Shoot moves":                  {shootOn("y", "x"), labels("x"), labels("x", "ms"), false, 2, false},
		"the Shoot has arrived":            {shootOn("y", "y"), labels("x", "y"), labels("y", "ms"), false, 1, false},
		"only the ManagedSeed is outdated": {shootOn("y", "x"), labels("x"), labels("y", "ms"), false, 1, false},
		"the API server's cache is stale":  {shootOn("y", "x"), labels("x"), labels("y", "ms"), true, 1, true},
	} {
		managed := &seedmanagementv1alpha1.ManagedSeed{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: "ms", Labels: tc.managed},
			Spec:       seedmanagementv1alpha1.ManagedSeedSpec{Shoot: &seedmanagementv1alpha1.Shoot{Name: "apple"}},
		}
		seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "ms", Labels: tc.seed}}
		var written []string
		garden := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.shoot, managed, seed).
			WithInterceptorFuncs(relabelling(tc.shoot, tc.behind, &written)).Build()
		if err := garden.Get(t.Context(), client.ObjectKeyFromObject(managed), managed); err != nil {
			t.Fatal(err)
		}
		_, err := (&Reconciler{Garden: garden}).Reconcile(t.Context(), managed)
		if (err != nil) != tc.failed || len(written) != tc.want {
			t.Errorf("%s: wrote %v, %v", name, written, err)
		}
	}
}

func TestWhichShootsMatter(t *testing.T) {
	elsewhere := func(s *corev1beta1.Shoot) *corev1beta1.Shoot { s.Namespace = "garden-dev"; return s }
	for name, tc := range map[string]struct {
		old, now *corev1beta1.Shoot
		want     bool
	}{
		"one that is placed":   {shootOn("", ""), shootOn("x", ""), true},
		"one that moves":       {shootOn("x", "x"), shootOn("y", "x"), true},
		"one that has arrived": {shootOn("y", "x"), shootOn("y", "y"), true},
		"one that stays":       {shootOn("x", "x"), shootOn("x", "x"), false},
		"a Shoot of a project, which cannot be a Seed": {elsewhere(shootOn("x", "x")), elsewhere(shootOn("y", "x")), false},
	} {
		if got := moved.Update(event.UpdateEvent{ObjectOld: tc.old, ObjectNew: tc.now}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
