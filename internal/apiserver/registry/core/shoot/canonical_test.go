package shoot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestWhatSaysNothingIsRemoved(t *testing.T) {
	dashboard := func(enabled bool) *corev1beta1.KubernetesDashboard {
		return &corev1beta1.KubernetesDashboard{Addon: corev1beta1.Addon{Enabled: enabled}}
	}
	for name, tc := range map[string]struct {
		addons *corev1beta1.Addons
		kept   bool
	}{
		"no addons":            {nil, false},
		"empty addons":         {&corev1beta1.Addons{}, false},
		"an enabled dashboard": {&corev1beta1.Addons{KubernetesDashboard: dashboard(true)}, true},
		"one that is off":      {&corev1beta1.Addons{KubernetesDashboard: dashboard(false)}, false},
		"a disabled ingress": {&corev1beta1.Addons{
			KubernetesDashboard: dashboard(false), NginxIngress: &corev1beta1.NginxIngress{},
		}, true},
	} {
		s := shootWith(func(s *corev1beta1.Shoot) { s.Spec.Addons = tc.addons })
		if canonicalize(s); (s.Spec.Addons != nil) != tc.kept {
			t.Errorf("%s: %+v", name, s.Spec.Addons)
		}
	}
	for _, enabled := range []bool{true, false} {
		s := shootWith(func(s *corev1beta1.Shoot) {
			s.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{EnableAnonymousAuthentication: &enabled}
		})
		if canonicalize(s); (s.Spec.Kubernetes.KubeAPIServer.EnableAnonymousAuthentication != nil) != enabled {
			t.Errorf("enableAnonymousAuthentication %t becomes %v", enabled,
				s.Spec.Kubernetes.KubeAPIServer.EnableAnonymousAuthentication)
		}
	}
	for version, kept := range map[string]bool{"1.32.1": false, "1.33.0": true} { // Validation rejects the kept values.
		s := shootWith(func(s *corev1beta1.Shoot) {
			s.Spec.Kubernetes.Version = version
			s.Spec.Kubernetes.ClusterAutoscaler = &corev1beta1.ClusterAutoscaler{MaxEmptyBulkDelete: ptr.To[int32](1)}
		})
		if canonicalize(s); (s.Spec.Kubernetes.ClusterAutoscaler.MaxEmptyBulkDelete != nil) != kept {
			t.Errorf("maxEmptyBulkDelete of %s becomes %v", version, s.Spec.Kubernetes.ClusterAutoscaler.MaxEmptyBulkDelete)
		}
	}
}

func TestLabelsAreDerived(t *testing.T) {
	s := shootWith(func(s *corev1beta1.Shoot) {
		s.Labels = map[string]string{
			"a": "b", "name.seed.gardener.cloud/left": "true", corev1beta1.LabelShootSelfHosted: "true",
		}
		s.Spec.SeedName, s.Status.SeedName = ptr.To("new"), ptr.To("old")
	})
	canonicalize(s)
	want := map[string]string{"a": "b", "name.seed.gardener.cloud/new": "true", "name.seed.gardener.cloud/old": "true"}
	if diff := cmp.Diff(want, s.Labels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	own := shootWith(func(s *corev1beta1.Shoot) {
		s.Spec.Provider.Workers[0].ControlPlane = &corev1beta1.WorkerControlPlane{}
	})
	canonicalize(own)
	if diff := cmp.Diff(map[string]string{corev1beta1.LabelShootSelfHosted: "true"}, own.Labels); diff != "" {
		t.Errorf("of a self-hosted Shoot (-want +got):\n%s", diff)
	}
}

func TestSpellingsOfTheProfile(t *testing.T) {
	ref := func(kind, name string) *corev1beta1.CloudProfileReference {
		return &corev1beta1.CloudProfileReference{Kind: kind, Name: name}
	}
	type pair struct {
		name *string
		ref  *corev1beta1.CloudProfileReference
	}
	local := pair{ptr.To("local"), ref("CloudProfile", "local")}
	for name, tc := range map[string]struct{ sent, stored, want pair }{
		"only the newer one": {pair{nil, ref("CloudProfile", "local")}, pair{}, local},
		"one of a project": {
			pair{nil, ref("NamespacedCloudProfile", "mine")}, pair{}, pair{nil, ref("NamespacedCloudProfile", "mine")},
		},
		"from a project's profile to none": {
			pair{ptr.To("local"), ref("NamespacedCloudProfile", "mine")}, local,
			pair{nil, ref("NamespacedCloudProfile", "mine")},
		},
		"the older one was changed": {
			pair{ptr.To("other"), ref("CloudProfile", "local")}, local, pair{ptr.To("other"), ref("CloudProfile", "other")},
		},
		"the newer one was changed": {
			pair{ptr.To("local"), ref("CloudProfile", "other")}, local, pair{ptr.To("other"), ref("CloudProfile", "other")},
		},
		"both were changed": {
			pair{ptr.To("a"), ref("CloudProfile", "b")}, local, pair{ptr.To("b"), ref("CloudProfile", "b")},
		},
		"the older one was left out": {pair{nil, ref("CloudProfile", "local")}, local, local},
	} {
		s := shootWith(func(s *corev1beta1.Shoot) {
			s.Spec.CloudProfileName, s.Spec.CloudProfile = tc.sent.name, tc.sent.ref
		})
		old := shootWith(func(s *corev1beta1.Shoot) {
			s.Spec.CloudProfileName, s.Spec.CloudProfile = tc.stored.name, tc.stored.ref
		})
		syncSpellings(s, old)
		if diff := cmp.Diff(tc.want, pair{s.Spec.CloudProfileName, s.Spec.CloudProfile},
			cmp.AllowUnexported(pair{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSpellingsOfCredentialsForDNS(t *testing.T) {
	ref := func(kind, name string) *autoscalingv1.CrossVersionObjectReference {
		return &autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: name}
	}
	type pair struct {
		name *string
		ref  *autoscalingv1.CrossVersionObjectReference
	}
	a := pair{ptr.To("a"), ref("Secret", "a")}
	for name, tc := range map[string]struct{ sent, stored, want pair }{
		"none":                      {pair{}, pair{}, pair{}},
		"only the newer one":        {pair{nil, ref("Secret", "a")}, pair{}, a},
		"the older one was changed": {pair{ptr.To("b"), ref("Secret", "a")}, a, pair{ptr.To("b"), ref("Secret", "b")}},
		"the newer one was changed": {pair{ptr.To("a"), ref("Secret", "b")}, a, pair{ptr.To("b"), ref("Secret", "b")}},
		"an identity instead": {
			pair{ptr.To("a"), ref("WorkloadIdentity", "i")}, a, pair{nil, ref("WorkloadIdentity", "i")},
		},
	} {
		with := func(p pair) *corev1beta1.Shoot {
			return shootWith(func(s *corev1beta1.Shoot) {
				s.Spec.DNS = &corev1beta1.DNS{Providers: []corev1beta1.DNSProvider{{SecretName: p.name, CredentialsRef: p.ref}}}
			})
		}
		s := with(tc.sent)
		syncSpellings(s, with(tc.stored))
		got := pair{s.Spec.DNS.Providers[0].SecretName, s.Spec.DNS.Providers[0].CredentialsRef}
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(pair{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBindingForgetsThatNoSeedWasFound(t *testing.T) {
	for name, tc := range map[string]struct {
		old  *corev1beta1.Shoot
		kept bool
	}{
		"pending":              {shootWith(lastly("Create", "Pending")), false},
		"created":              {shootWith(lastly("Create", "Processing")), true},
		"pending for a change": {shootWith(lastly("Reconcile", "Pending")), true},
	} {
		old := tc.old
		old.Generation = 3
		s := old.DeepCopy()
		s.Spec.SeedName = ptr.To("x")
		s.Status = corev1beta1.ShootStatus{Gardener: corev1beta1.Gardener{Name: "forged"}}
		bindingStrategy{}.PrepareForUpdate(t.Context(), s, old)
		if (s.Status.LastOperation != nil) != tc.kept || s.Generation != 4 || s.Status.Gardener.Name != "" {
			t.Errorf("%s: generation %d, status %+v", name, s.Generation, s.Status)
		}
		again := s.DeepCopy()
		bindingStrategy{}.PrepareForUpdate(t.Context(), again, s)
		if again.Generation != 4 {
			t.Errorf("%s: an unchanged spec has generation %d", name, again.Generation)
		}
	}
}
