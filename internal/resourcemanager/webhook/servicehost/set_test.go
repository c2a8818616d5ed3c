package servicehost

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const host = "api.a.dev.internal.example.com"

func TestSet(t *testing.T) {
	injected := corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: host}
	own := corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "10.0.0.1"}
	other := corev1.EnvVar{Name: "SERVER", Value: "https://$(KUBERNETES_SERVICE_HOST)"}
	from := corev1.Container{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}}}
	with := func(env ...corev1.EnvVar) corev1.Container { return corev1.Container{Env: env} }
	list := func(c ...corev1.Container) []corev1.Container { return c }
	disabled := func(value string) map[string]string {
		return map[string]string{"apiserver-proxy.networking.gardener.cloud/inject": value}
	}
	for name, tc := range map[string]struct {
		labels map[string]string
		// spec has one container without variables by default.
		spec corev1.PodSpec
		// host is that of the API server by default; "-" means it is not known.
		host string
		// init and containers are what the pod has afterwards; nil means no change.
		init, containers []corev1.Container
	}{
		"all containers and init containers get it": {
			spec: corev1.PodSpec{
				DNSPolicy: corev1.DNSDefault, InitContainers: list(with(), with()), Containers: list(with(), with()),
			},
			init: list(with(injected), with(injected)), containers: list(with(injected), with(injected)),
		},
		"a pod on the network of its node": {
			spec:       corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, HostNetwork: true},
			containers: list(with(injected)),
		},
		"other variables may refer to it": {
			spec:       corev1.PodSpec{DNSPolicy: corev1.DNSDefault, Containers: list(with(other))},
			containers: list(with(injected, other)),
		},
		"a variable of a container stays": {
			spec:       corev1.PodSpec{DNSPolicy: corev1.DNSDefault, Containers: list(with(other, own), with())},
			containers: list(with(other, own), with(injected)),
		},
		"variables of an init container stay": {
			spec:       corev1.PodSpec{DNSPolicy: corev1.DNSDefault, InitContainers: list(with(own))},
			init:       list(with(own)),
			containers: list(with(injected)),
		},
		"variables of a ConfigMap stay": {
			spec:       corev1.PodSpec{DNSPolicy: corev1.DNSDefault, Containers: list(from, with())},
			containers: list(from, with(injected)),
		},
		"a pod that has it": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault, Containers: list(with(injected))}},
		"a label with another value": {
			labels:     disabled("enable"),
			spec:       corev1.PodSpec{DNSPolicy: corev1.DNSDefault},
			containers: list(with(injected)),
		},
		"a pod for which it is disabled": {
			labels: disabled("disable"), spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault},
		},
		"a pod that uses the cluster's DNS": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}},
		"a pod on the network of its node that uses the cluster's DNS": {
			spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirstWithHostNet, HostNetwork: true},
		},
		"a pod with its own name servers": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSNone, HostNetwork: true}},
		"the host is not known":           {spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, host: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: *tc.spec.DeepCopy()}
			pod.Labels = tc.labels
			if pod.Spec.Containers == nil {
				pod.Spec.Containers = list(with())
			}
			want := pod.DeepCopy()
			changes := tc.containers != nil
			if changes {
				want.Spec.InitContainers, want.Spec.Containers = tc.init, tc.containers
			}
			name := host
			if tc.host == "-" {
				name = ""
			}
			if got := Set(pod, name); got != changes {
				t.Errorf("Set() = %t, want %t", got, changes)
			}
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("the pod after Set() (-want +got):\n%s", diff)
			}
			if Set(pod, name) {
				t.Error("a second Set() = true, want false")
			}
		})
	}
}
