package kubeproxy

import (
	"testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	objects, err := Render(Values{
		Pools: []Pool{
			{Name: "a", Image: "registry.k8s.io/kube-proxy:v1.36.3"}, {Name: "b", Image: "registry.k8s.io/kube-proxy:v1.35.4"},
		},
		APIServerURL: "https://api.a.dev.internal.local.hortus.dev", CABundle: []byte("CA"), PodCIDR: "100.96.0.0/16",
		Mode: corev1beta1.ProxyModeNFTables,
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Objects(t, "kube-proxy", objects...)
}
