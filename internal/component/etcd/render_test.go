package etcd

import (
	"testing"

	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	service, set := Render(Values{
		Namespace: "shoot--dev--a", Image: "registry.k8s.io/etcd:3.6.8-0", Replicas: 1,
		ServerSecret: "etcd-server-12345678", CASecret: "ca-etcd-bundle-12345678", StorageSize: "25Gi",
	})
	golden.Objects(t, "etcd", service, set)
}
