package steps

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/secretsmanager"
)

// etcdStorage is the size of the volume.
const etcdStorage = "25Gi"

// Etcd holds the state of the Shoot.
var Etcd = &flow.Step[*Scope]{
	Name:    "etcd",
	After:   []*flow.Step[*Scope]{Credentials, BackupEntry},
	Ensure:  ensureEtcd,
	Remove:  removeEtcd,
	Recheck: recheck,
}

// EtcdReady waits for it. It is a step of its own so that the API server's pods can be created meanwhile: they retry.
var EtcdReady = &flow.Step[*Scope]{
	Name:   "etcd-ready",
	After:  []*flow.Step[*Scope]{Etcd},
	SkipIf: either(asleep, skipReadiness),
	Ensure: ensureEtcdReady,
	Limit:  5 * time.Minute,
}

func ensureEtcd(ctx context.Context, s *Scope) (flow.Outcome, error) {
	server, err := s.Secrets.Get(nameEtcdServer)
	if err != nil {
		return flow.Outcome{}, err
	}
	ca, err := s.Secrets.Bundle(nameCAEtcd)
	if err != nil {
		return flow.Outcome{}, err
	}
	backup, err := s.etcdBackup(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	service, set := etcd.Render(etcd.Values{
		Namespace: s.Namespace, Image: s.Images.Etcd, Replicas: s.Replicas(), ServerSecret: server.Name, CASecret: ca.Name, StorageSize: etcdStorage,
		Backup: backup,
	})
	if backup != nil { // Before the pod that mounts it.
		schedule := fullSchedule(maintenance.WindowOf(s.Shoot), s.Namespace)
		if err := s.apply(ctx, etcd.BackupConfig(s.Namespace, schedule)); err != nil {
			return flow.Outcome{}, err
		}
	}
	return flow.Done(), s.apply(ctx, service, set)
}

// fullSchedule returns a daily time in a maintenance window for full snapshots, as cron in UTC. It depends on the
// namespace, so that the etcds of a seed do not all read their databases at once.
func fullSchedule(w maintenance.Window, namespace string) string {
	first := int64((w.Begin + time.Minute - 1) / time.Minute)
	last := int64((w.Begin + w.Duration()) / time.Minute)
	h := fnv.New32a()
	h.Write([]byte(namespace))
	// A window without a full minute in it has the one in which it begins, or the next one.
	at := (first + int64(h.Sum32())%max(last-first+1, 1)) % (24 * 60)
	return fmt.Sprintf("%d %d * * *", at%60, at/60)
}

// etcdBackup says where the backups of etcd go, nil if the seed has none.
func (s *Scope) etcdBackup(ctx context.Context) (*etcd.Backup, error) {
	secret, ok, err := s.BackupSecret(ctx)
	if err != nil || !ok {
		return nil, err
	}
	client, err := s.Secrets.Get(nameEtcdClient)
	if err != nil {
		return nil, err
	}
	return &etcd.Backup{
		Image: s.Images.Hortus, StoreSecret: secret, ClientSecret: client.Name, Prefix: s.BackupEntryName() + "/" + etcd.Name,
		Holder: s.SeedObject.Name, Epoch: s.Claim.Epoch,
	}, nil
}

// BackupAccess is how to reach the service of an etcd's backups, with the certificates that the etcd itself uses.
// It reports false if the etcd has no backups.
func BackupAccess(ctx context.Context, seed client.Reader, set *appsv1.StatefulSet) (EtcdAccess, bool, error) {
	certName, bundleName, ok := etcd.BackupSecrets(set)
	if !ok {
		return EtcdAccess{}, false, nil
	}
	cert := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: certName, Namespace: set.Namespace}}
	bundle := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: bundleName, Namespace: set.Namespace}}
	for _, s := range []*corev1.Secret{cert, bundle} {
		if _, err := kube.Exists(ctx, seed, s); err != nil {
			return EtcdAccess{}, true, err
		}
	}
	return EtcdAccess{
		Endpoint: etcd.BackupURL(set.Namespace), CAPEM: bundle.Data[secretsmanager.DataBundle],
		CertPEM: cert.Data[secretsmanager.DataCert], KeyPEM: cert.Data[secretsmanager.DataKey],
	}, true, nil
}

func ensureEtcdReady(ctx context.Context, s *Scope) (flow.Outcome, error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: etcd.Name, Namespace: s.Namespace}}
	if _, err := kube.Exists(ctx, s.Seed, set); err != nil {
		return flow.Outcome{}, err
	}
	if !kube.StatefulSetReady(set) {
		pods, err := s.podsOf(ctx, etcd.Name)
		if err != nil {
			return flow.Outcome{}, err
		}
		reason := fmt.Sprintf("StatefulSet %s is not ready", etcd.Name)
		if why := kube.WaitingContainers(pods); why != "" {
			reason += ": " + why
		}
		return flow.Waiting(reason), nil
	}
	return flow.Done(), nil
}

// removeEtcd also deletes the volume, which a StatefulSet leaves behind.
func removeEtcd(ctx context.Context, s *Scope) (flow.Outcome, error) {
	meta := metav1.ObjectMeta{Name: etcd.Name, Namespace: s.Namespace}
	gone, err := s.remove(ctx, &appsv1.StatefulSet{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta},
		etcd.BackupConfig(s.Namespace, ""))
	if err != nil {
		return flow.Outcome{}, err
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := s.Seed.List(ctx, claims, client.InNamespace(s.Namespace), client.MatchingLabels(component.Selector(etcd.Name))); err != nil {
		return flow.Outcome{}, fmt.Errorf("list volumes of etcd: %w", err)
	}
	for i := range claims.Items {
		if _, err := s.remove(ctx, &claims.Items[i]); err != nil {
			return flow.Outcome{}, err
		}
	}
	if !gone || len(claims.Items) > 0 {
		return flow.Waiting("etcd and its volume are being deleted"), nil
	}
	return flow.Done(), nil
}
