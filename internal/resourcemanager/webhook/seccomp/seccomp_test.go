package seccomp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func profile(kind corev1.SeccompProfileType) *corev1.SeccompProfile {
	return &corev1.SeccompProfile{Type: kind}
}

func container(change func(*corev1.SecurityContext)) corev1.Container {
	c := corev1.Container{Name: "a", SecurityContext: &corev1.SecurityContext{}}
	change(c.SecurityContext)
	return c
}

func TestDefault(t *testing.T) {
	unconfined := container(func(s *corev1.SecurityContext) {
		s.SeccompProfile = profile(corev1.SeccompProfileTypeUnconfined)
	})
	privileged := container(func(s *corev1.SecurityContext) { s.Privileged = ptr.To(true) })
	for name, tc := range map[string]struct {
		labels  map[string]string
		context *corev1.PodSecurityContext
		// containers default to one without a security context.
		init, containers []corev1.Container
		want             *corev1.PodSecurityContext
	}{
		"a pod without security context": {
			want: &corev1.PodSecurityContext{SeccompProfile: profile(corev1.SeccompProfileTypeRuntimeDefault)},
		},
		"a security context without profile": {
			context: &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(1))},
			want: &corev1.PodSecurityContext{
				RunAsUser: ptr.To(int64(1)), SeccompProfile: profile(corev1.SeccompProfileTypeRuntimeDefault),
			},
		},
		"a profile of a container": {
			containers: []corev1.Container{unconfined},
			want:       &corev1.PodSecurityContext{SeccompProfile: profile(corev1.SeccompProfileTypeRuntimeDefault)},
		},
		"a privileged container and another": {
			init: []corev1.Container{{Name: "b"}}, containers: []corev1.Container{privileged},
			want: &corev1.PodSecurityContext{SeccompProfile: profile(corev1.SeccompProfileTypeRuntimeDefault)},
		},
		"a profile of the pod stays": {
			context: &corev1.PodSecurityContext{SeccompProfile: profile(corev1.SeccompProfileTypeUnconfined)},
			want:    &corev1.PodSecurityContext{SeccompProfile: profile(corev1.SeccompProfileTypeUnconfined)},
		},
		"privileged containers only": {containers: []corev1.Container{privileged}},
		"a pod that is skipped":      {labels: map[string]string{"seccompprofile.resources.gardener.cloud/skip": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.containers == nil {
				tc.containers = []corev1.Container{{Name: "a"}}
			}
			pod := &corev1.Pod{Spec: corev1.PodSpec{
				SecurityContext: tc.context.DeepCopy(), InitContainers: tc.init, Containers: tc.containers,
			}}
			pod.Labels = tc.labels
			want := pod.DeepCopy()
			want.Spec.SecurityContext = tc.want
			changed := Default(pod)
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("Default() (-want +got):\n%s", diff)
			}
			if want := !cmp.Equal(tc.context, tc.want); changed != want {
				t.Errorf("Default() = %t, want %t", changed, want)
			}
		})
	}
}
