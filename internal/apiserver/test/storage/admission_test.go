package storage

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/test/env"
)

// shoots returns a function that creates Shoots in a project, each with a pool of machines with 8 cores and 16 GiB.
func shoots(t *testing.T, e *env.Environment) func() *corev1beta1.Shoot {
	t.Helper()
	namespace := *e.Project(t).Spec.Namespace
	profile := &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: env.Name("profile-")},
		Spec: corev1beta1.CloudProfileSpec{
			Type:       "local",
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{Version: "1.36.3"}}},
			MachineImages: []corev1beta1.MachineImage{{
				Name: "os", Versions: []corev1beta1.MachineImageVersion{
					{ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"}},
				},
			}},
			MachineTypes: []corev1beta1.MachineType{{
				Name: "large", CPU: resource.MustParse("8"), GPU: resource.MustParse("0"), Memory: resource.MustParse("16Gi"),
			}},
			Regions: []corev1beta1.Region{{Name: "local"}},
		}}
	e.Create(t, profile, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cloud"}},
		&securityv1alpha1.CredentialsBinding{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "cloud"},
			Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
			CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "cloud", Namespace: namespace},
		})
	return func() *corev1beta1.Shoot {
		return &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: env.Name("s")},
			Spec: corev1beta1.ShootSpec{
				CloudProfile: &corev1beta1.CloudProfileReference{Name: profile.Name}, Region: "local",
				CredentialsBindingName: ptr.To("cloud"), Networking: &corev1beta1.Networking{Type: ptr.To("bridge")},
				Provider: corev1beta1.Provider{
					Type: "local", Workers: []corev1beta1.Worker{
						{Name: "pool", Machine: corev1beta1.Machine{Type: "large"}, Minimum: 1, Maximum: 1},
					},
				},
			}}
	}
}

func TestAdmissionIsConfigured(t *testing.T) {
	e := env.Shared(t)
	newShoot := shoots(t, e)

	shoot := newShoot()
	shoot.Spec.Tolerations = []corev1beta1.Toleration{{Key: "whoever", Value: ptr.To("asks")}}
	e.Create(t, shoot)
	if got := shoot.Spec.Tolerations; len(got) != 2 || got[1].Key != "everybody" {
		t.Errorf("tolerations with the landscape's defaults: %+v", got)
	}
	other := newShoot()
	other.Spec.Tolerations = []corev1beta1.Toleration{{Key: "whoever"}}
	err := e.Client.Create(t.Context(), other)
	if !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "only the following tolerations are allowed: [everybody, whoever=asks]") {
		t.Errorf("a toleration that the landscape allows only with a value: %v", err)
	}

	if kubelet := shoot.Spec.Kubernetes.Kubelet; kubelet == nil || kubelet.KubeReserved == nil ||
		kubelet.KubeReserved.CPU.String() != "80m" {
		t.Errorf("a Shoot that is not selected reserves %+v", kubelet)
	}
	selected := newShoot()
	selected.Labels = map[string]string{"reserve": "by-machine"}
	e.Create(t, selected)
	if kubelet := selected.Spec.Kubernetes.Kubelet; kubelet != nil && kubelet.KubeReserved != nil {
		t.Errorf("a Shoot that reserves per pool reserves %+v for all", kubelet.KubeReserved)
	}
	// 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest; a quarter of the first 4 GiB, a
	// fifth of the next 4, a tenth of the next 8.
	pool := selected.Spec.Provider.Workers[0].Kubernetes
	if pool == nil || pool.Kubelet == nil || pool.Kubelet.KubeReserved == nil ||
		pool.Kubelet.KubeReserved.CPU.String() != "90m" ||
		pool.Kubelet.KubeReserved.Memory.Value() != (1<<30)+2*(858993459) || pool.Kubelet.KubeReserved.PID.String() != "20k" {
		t.Errorf("a pool of the selected Shoot has %+v", pool)
	}
	if failSwapOn := selected.Spec.Provider.Workers[0].Kubernetes.Kubelet.FailSwapOn; failSwapOn == nil || !*failSwapOn {
		t.Error("the reservation for all pools is not kept for the pool")
	}

	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"kubernetes":{"kubelet":{"maxPods":200}}}}`))
	if err := e.Client.Patch(t.Context(), selected, patch, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	pool = selected.Spec.Provider.Workers[0].Kubernetes
	if pool.Kubelet.MaxPods == nil || *pool.Kubelet.MaxPods != 200 || pool.Kubelet.KubeReserved.CPU.String() != "90m" {
		t.Errorf("after a change for all pools, the pool has %+v", pool.Kubelet)
	}

	if dns := shoot.Spec.SystemComponents.CoreDNS; dns == nil || dns.Rewriting == nil ||
		len(dns.Rewriting.CommonSuffixes) != 1 {
		t.Errorf("an enabled plugin has no effect: %+v", dns)
	}
	unconfirmed := newShoot()
	e.Create(t, unconfirmed)
	if err := e.Client.Delete(t.Context(), unconfirmed); err != nil {
		t.Errorf("a disabled plugin requires a confirmation: %v", err)
	}
}
