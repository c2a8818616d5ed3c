package etcd

import (
	"testing"

	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	v := Values{
		Namespace: "shoot--dev--a", Image: "registry.k8s.io/etcd:3.6.8-0", Replicas: 1,
		ServerSecret: "etcd-server-12345678", CASecret: "ca-etcd-bundle-12345678", StorageSize: "25Gi",
	}
	service, set := Render(v)
	if _, _, ok := BackupSecrets(set); ok {
		t.Error("an etcd without backups has a service for them")
	}
	golden.Objects(t, "etcd", service, set)

	v.Backup = &Backup{
		Image: "hortus.dev/hortus:dev", StoreSecret: "etcd-backup", ClientSecret: "etcd-client-12345678",
		Prefix: "shoot--dev--a--1234/etcd-main", Holder: "local-1", Epoch: 1,
	}
	service, set = Render(v)
	golden.Objects(t, "with-backup", service, set, BackupConfig(v.Namespace, "30 22 * * *"))
	client, bundle, ok := BackupSecrets(set)
	if !ok || client != v.Backup.ClientSecret || bundle != v.CASecret {
		t.Errorf("BackupSecrets() = %q, %q, %t", client, bundle, ok)
	}
}
