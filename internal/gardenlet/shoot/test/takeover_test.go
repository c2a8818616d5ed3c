package test

import (
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/ownership"
)

// Whichever write of a take-over fails or is the last one of a process: one seed owns the control plane, with one new
// epoch, no API server is created before the former owner is fenced, and no credential is generated again.
func TestTakeOverSurvivesFaults(t *testing.T) {
	t.Parallel()
	const fence = 40 * time.Second
	for _, seed := range []uint64{1, 2, 3} {
		source := newBackups(t)
		source.r.FenceTime = fence
		s := source.until(source.newShoot("a"), succeeded)
		states := &shootstate.States{
			Garden: source.gardenlet, Seed: source.Client, Clock: source.clock, SeedName: source.seed.Name,
		}
		if _, err := states.Save(source.ctx, s); err != nil {
			t.Fatal(err)
		}
		had := source.persistent(s)
		source.lose(s)

		destination := newBackupsAt(t, source.clock)
		destination.namespace = source.namespace
		destination.declareDead(s)
		direct, err := client.NewWithWatch(destination.Config,
			client.Options{Scheme: destination.Scheme, Mapper: destination.Client.RESTMapper()})
		destination.must(err)
		f := newFaulty(seed, s)
		destination.r.Garden, destination.r.Seed = f.client(direct), f.client(direct)
		server := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Status.TechnicalID, Name: kubeapiserver.Name}}
		s = destination.until(s, func(s *corev1beta1.Shoot) bool {
			claim, err := ownership.Read(t.Context(), destination.Client, s.Namespace, s.UID)
			destination.must(err)
			made, err := kube.Exists(t.Context(), destination.Client, server)
			destination.must(err)
			if fenced := claim.TakenOver.FencedAt(); made && !claim.Settled &&
				(fenced.IsZero() || source.clock.Now().Before(fenced)) {
				t.Fatalf("seed %d: an API server is created at %s: %+v", seed, source.clock.Now(), claim)
			}
			return succeeded(s) && *s.Status.SeedName == destination.seed.Name &&
				s.Status.LastOperation.Type == corev1beta1.LastOperationTypeRestore
		})
		claim, err := ownership.Read(t.Context(), destination.Client, s.Namespace, s.UID)
		destination.must(err)
		if claim.Holder != destination.seed.Name || claim.Epoch != 2 || !claim.Settled {
			t.Errorf("seed %d: claim is %+v", seed, claim)
		}
		if !strings.Contains(s.Status.LastOperation.Description, "taken over from Seed "+source.seed.Name) {
			t.Errorf("seed %d: the last operation does not report the data loss: %s", seed, s.Status.LastOperation.Description)
		}
		if _, left := s.Annotations[corev1beta1.AnnotationSourceIsDead]; left {
			t.Errorf("seed %d: the operator's declaration is still there", seed)
		}
		for name, data := range destination.persistent(s) {
			if was, ok := had[name]; ok && !isEncryptionConfig(name) && !maps.Equal(data, was) {
				t.Errorf("seed %d: Secret %s was generated anew", seed, name)
			}
		}
		entry := destination.entryOf(s)
		if ptr.Deref(entry.Spec.SeedName, "") != destination.seed.Name ||
			ptr.Deref(entry.Status.SeedName, "") != destination.seed.Name {
			t.Errorf("seed %d: BackupEntry is on %v, %v", seed, entry.Spec.SeedName, entry.Status.SeedName)
		}
		destination.delete(s)
		destination.until(s, gone)
		for range 3 {
			destination.entriesAct()
		}
	}
}

// The garden is restored to a point before a move. The control plane continues on its seed, and is not restarted when
// it is bound to that seed.
func TestAMoveThatTheGardenHasForgotten(t *testing.T) {
	t.Parallel()
	former := newBackups(t).seed.Name
	w := newBackups(t)
	w.r.FenceTime = 40 * time.Second
	s := w.until(w.newShoot("a"), succeeded)
	_, err := (&shootstate.States{
		Garden: w.gardenlet, Seed: w.Client, Clock: w.clock, SeedName: w.seed.Name,
	}).Save(w.ctx, s)
	w.must(err)
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: s.Namespace, Name: ownership.NamePrefix + string(s.UID)}
	write := func(holder string, epoch int32) {
		w.must(w.Client.Get(w.ctx, key, lease))
		lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = ptr.To(holder), ptr.To(epoch)
		w.must(w.Client.Update(w.ctx, lease))
	}
	write(w.seed.Name, 2) // As after a move.
	s = w.annotateOperation(s, corev1beta1.OperationReconcile)
	server := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Status.TechnicalID, Name: kubeapiserver.Name}}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Status.TechnicalID, Name: etcd.Name}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Status.TechnicalID, Name: etcd.Name + "-0"}}
	s = w.until(s, func(s *corev1beta1.Shoot) bool {
		w.must(client.IgnoreNotFound(w.Client.Get(w.ctx, client.ObjectKeyFromObject(pod), pod)))
		return succeeded(s) && epochOf(pod) == 2
	})
	was := pod.UID

	write(former, 1)
	s.Spec.SeedName, s.Status.SeedName = ptr.To(former), ptr.To(former)
	status := s.Status
	w.must(w.Client.SubResource("binding").Update(w.ctx, s))
	s.Status = status
	w.must(w.Client.Status().Update(w.ctx, s))
	leftovers := &shoot.Leftovers{
		Garden: w.gardenlet, Shoots: w.Client, Seed: w.Client, Clock: w.clock, SeedName: w.seed.Name,
	}
	for range 3 {
		result, err := leftovers.Reconcile(w.ctx,
			reconcile.Request{NamespacedName: client.ObjectKey{Name: s.Status.TechnicalID}})
		if err != nil || result.RequeueAfter == 0 {
			t.Errorf("Reconcile() = %+v, %v, want it to check again", result, err)
		}
	}
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(server), server))
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(set), set))
	if *server.Spec.Replicas != 1 || *set.Spec.Replicas != 1 {
		t.Fatalf("the control plane was stopped: %d API servers, %d etcds", *server.Spec.Replicas, *set.Spec.Replicas)
	}

	w.declareDead(s)
	s = w.until(s, func(s *corev1beta1.Shoot) bool {
		return succeeded(s) && *s.Status.SeedName == w.seed.Name &&
			s.Status.LastOperation.Type == corev1beta1.LastOperationTypeRestore
	})
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(pod), pod))
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(server), server))
	if pod.UID != was || *server.Spec.Replicas != 1 {
		t.Errorf("etcd was replaced (%t), or API servers were stopped (%d)", pod.UID != was, *server.Spec.Replicas)
	}
	if claim, err := ownership.Read(w.ctx, w.Client, s.Namespace, s.UID); err != nil || claim.Holder != w.seed.Name ||
		claim.Epoch != 2 {
		t.Errorf("claim is %+v, %v", claim, err)
	}
	w.delete(s)
	w.until(s, gone)
}

// declareDead does what an operator does, and what the controller of constraints does.
func (b *backups) declareDead(s *corev1beta1.Shoot) {
	b.t.Helper()
	b.must(b.Client.Get(b.ctx, client.ObjectKeyFromObject(s), s))
	before := s.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1beta1.AnnotationSourceIsDead, *s.Status.SeedName)
	s.Spec.SeedName = ptr.To(b.seed.Name)
	b.must(b.Client.SubResource("binding").Patch(b.ctx, s, client.MergeFrom(before)))
	before = s.DeepCopy()
	s.Status.Constraints = corev1beta1.SetCondition(s.Status.Constraints, corev1beta1.Condition{
		Type: corev1beta1.ShootReadyForMigration, Status: corev1beta1.ConditionTrue, Reason: "Test", Message: "Ready.",
	}, b.clock.Now())
	b.must(b.Client.Status().Patch(b.ctx, s, client.MergeFrom(before)))
}

// lose removes everything in the namespace of a control plane, as on a seed that has never had it: all seeds share one
// API server.
func (b *backups) lose(s *corev1beta1.Shoot) {
	b.t.Helper()
	in := client.InNamespace(s.Status.TechnicalID)
	for _, list := range []client.ObjectList{
		&extensionsv1alpha1.InfrastructureList{}, &extensionsv1alpha1.ControlPlaneList{}, &extensionsv1alpha1.NetworkList{},
		&extensionsv1alpha1.WorkerList{}, &extensionsv1alpha1.OperatingSystemConfigList{},
		&extensionsv1alpha1.DNSRecordList{},
		&resourcesv1alpha1.ManagedResourceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{},
		&corev1.PodList{},
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &networkingv1.NetworkPolicyList{},
		&extensionsv1alpha1.BackupEntryList{}, &extensionsv1alpha1.ClusterList{},
	} {
		options := []client.ListOption{in}
		switch list.(type) {
		case *extensionsv1alpha1.BackupEntryList, *extensionsv1alpha1.ClusterList:
			options = nil
		}
		b.must(b.Client.List(b.ctx, list, options...))
		for _, o := range objects(b.t, list) {
			if !strings.HasPrefix(o.GetName(), s.Status.TechnicalID) && len(options) == 0 {
				continue
			}
			b.must(client.IgnoreNotFound(b.Client.Patch(b.ctx, o, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":null,"annotations":{"`+extensionsv1alpha1.AnnotationConfirmDeletion+
					`":"true"}}}`)))))
			b.must(client.IgnoreNotFound(b.Client.Delete(b.ctx, o, client.GracePeriodSeconds(0))))
		}
	}
}

func objects(t *testing.T, list client.ObjectList) []client.Object {
	t.Helper()
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	var out []client.Object
	for _, item := range items {
		out = append(out, item.(client.Object))
	}
	return out
}
