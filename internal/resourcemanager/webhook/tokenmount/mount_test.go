package tokenmount

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/golden"
)

// account has the given automountServiceAccountToken.
func account(automount *bool) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{AutomountServiceAccountToken: automount}
}

// newPod has an init container, and two containers, the second of which has its own token.
func newPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "extension-a", Name: "a"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "a",
			InitContainers:     []corev1.Container{{Name: "prepare"}},
			Containers: []corev1.Container{{Name: "main"}, {Name: "own", VolumeMounts: []corev1.VolumeMount{
				{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
			}}},
			Volumes: []corev1.Volume{{Name: "token"}},
		},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestPodsThatNeedNoTokenStay(t *testing.T) {
	for name, tc := range map[string]struct {
		account *corev1.ServiceAccount
		change  func(*corev1.Pod)
	}{
		"the account gives one":             {account: account(nil)},
		"the account mounts one explicitly": {account: account(ptr.To(true))},
		"the pod wants none": {account(ptr.To(false)), func(p *corev1.Pod) {
			p.Spec.AutomountServiceAccountToken = ptr.To(false)
		}},
		"the pod has one": {account(ptr.To(false)), func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "kube-api-access-x7f2k"})
		}},
		"the pod is skipped": {account(ptr.To(false)), func(p *corev1.Pod) {
			p.Labels = map[string]string{"projected-token-mount.resources.gardener.cloud/skip": ""}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(tc.change)
			before := pod.DeepCopy()
			if Mount(pod, tc.account) {
				t.Error("Mount() = true, want false")
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the pod has changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestTokenIsMounted(t *testing.T) {
	pod := newPod(nil)
	if !Mount(pod, account(ptr.To(false))) {
		t.Fatal("Mount() = false, want true")
	}
	golden.Objects(t, "pod", pod)
	if Mount(pod, account(ptr.To(false))) {
		t.Error("a second Mount() = true, want false")
	}
}

func TestExpiration(t *testing.T) {
	for value, want := range map[string]int64{"": 43200, "3600": 3600, "1": 600, "-5": 600, "an hour": 43200} {
		pod := newPod(func(p *corev1.Pod) {
			p.Annotations = map[string]string{"projected-token-mount.resources.gardener.cloud/expiration-seconds": value}
		})
		Mount(pod, account(ptr.To(false)))
		sources := pod.Spec.Volumes[1].Projected.Sources
		if got := *sources[0].ServiceAccountToken.ExpirationSeconds; got != want {
			t.Errorf("annotation %q: expiration = %d s, want %d", value, got, want)
		}
	}
}
