package test

import (
	"maps"
	"strings"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/ownership"
)

const takeOverFence = 40 * time.Second

// newSource creates the seed that will be lost. The garden has a namespace for it.
func newSource(t *testing.T) *backups {
	t.Helper()
	b := newBackups(t)
	b.r.FenceTime = takeOverFence
	ensureNamespace(t, b.Environment, corev1beta1.SeedNamespacePrefix+b.seed.Name)
	return b
}

// heir is a seed that can take over the other seed's Shoot, and the Shoot's own cluster.
func (b *backups) heir() *backups {
	b.t.Helper()
	d := newBackupsAt(b.t, b.clock)
	d.r.FenceTime = takeOverFence
	d.namespace, d.user = b.namespace, b.user
	return d
}

func (b *backups) saveState(s *corev1beta1.Shoot) {
	b.t.Helper()
	states := &shootstate.States{Garden: b.gardenlet, Seed: b.Client, Clock: b.clock, SeedName: b.seed.Name}
	_, err := states.Save(b.ctx, s)
	b.must(err)
}

// doing holds while an operation is in progress.
func doing(kind corev1beta1.LastOperationType) func(*corev1beta1.Shoot) bool {
	return func(s *corev1beta1.Shoot) bool {
		return s != nil && s.Status.LastOperation.Type == kind &&
			s.Status.LastOperation.State == corev1beta1.LastOperationStateProcessing
	}
}

// operations steps a Shoot until the condition holds, and returns the operations that have succeeded on this seed, in
// order.
func (b *backups) operations(s *corev1beta1.Shoot, holds func(*corev1beta1.Shoot) bool) (string, *corev1beta1.Shoot) {
	b.t.Helper()
	var done []string
	s = b.until(s, func(s *corev1beta1.Shoot) bool {
		if s != nil && s.Status.LastOperation.State == corev1beta1.LastOperationStateSucceeded &&
			*s.Status.SeedName == b.seed.Name {
			if kind := string(s.Status.LastOperation.Type); len(done) == 0 || done[len(done)-1] != kind {
				done = append(done, kind)
			}
		}
		return holds(s)
	})
	return strings.Join(done, " "), s
}

// nothingLeft checks the garden and the seed after a deletion.
func (b *backups) nothingLeft(s *corev1beta1.Shoot) {
	b.t.Helper()
	b.clock.Step(24 * time.Hour) // The time of the deletion is the API server's.
	for range 8 {                // An unrestored BackupEntry is taken over before it is deleted.
		b.entriesAct()
	}
	id := s.Status.TechnicalID
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: id}},
		&extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: id}},
		&extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: id + "--" + string(s.Status.UID)}},
		&corev1beta1.BackupEntry{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: id + "--" + string(s.Status.UID),
		}},
	} {
		if found, err := kube.Exists(b.ctx, b.Client, o); err != nil || found {
			b.t.Errorf("%T %s is still there (%v): %+v", o, o.GetName(), err, o)
		}
	}
}

// A deletion that a lost seed has begun or never seen is completed by another seed. It restores the Shoot first, to
// know what to delete.
func TestADeletionIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, begun := range map[string]bool{"begun on the lost seed": true, "only requested": false} {
		t.Run(name, func(t *testing.T) {
			source := newSource(t)
			s := source.until(source.newShoot("a"), succeeded)
			source.saveState(s)
			had := source.persistent(s)
			source.delete(s)
			if begun {
				s = source.until(s, doing(corev1beta1.LastOperationTypeDelete))
			}
			source.must(source.user.Create(source.ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
			}))
			source.lose(s)

			destination := source.heir()
			destination.declareDead(s)
			if again, err := source.step(s); err != nil || again.ResourceVersion != s.ResourceVersion {
				t.Errorf("the seed that was declared dead continues: %+v, %v", again.Status.LastOperation, err)
			}
			s = destination.until(s, func(s *corev1beta1.Shoot) bool {
				found, err := kube.Exists(destination.ctx, destination.Client, &extensionsv1alpha1.Worker{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.Status.TechnicalID, Name: s.Name},
				})
				destination.must(err)
				return found
			})
			if s.Status.LastOperation.Type != corev1beta1.LastOperationTypeRestore {
				t.Errorf("operation = %+v", s.Status.LastOperation)
			}
			destination.must(destination.user.Get(destination.ctx, client.ObjectKey{Namespace: "default", Name: "web"},
				&corev1.Service{}))
			for name, data := range destination.persistent(s) {
				if was, ok := had[name]; ok && !isEncryptionConfig(name) && !maps.Equal(data, was) {
					t.Errorf("Secret %s was generated anew", name)
				}
			}
			if done, _ := destination.operations(s, gone); done != "Migrate Restore" && done != "Restore" {
				t.Errorf("operations were %q", done)
			}
			if err := destination.user.Get(destination.ctx, client.ObjectKey{Namespace: "default", Name: "web"},
				&corev1.Service{}); !apierrors.IsNotFound(err) {
				t.Errorf("the Service is still there: %v", err)
			}
			destination.nothingLeft(s)
		})
	}
}

// The owner may delete the Shoot during a restore, but not during a move that is handed over.
func TestDeletionDuringATakeOver(t *testing.T) {
	t.Parallel()
	source := newSource(t)
	s := source.until(source.newShoot("a"), succeeded)
	source.saveState(s)
	source.lose(s)
	destination := source.heir()
	destination.declareDead(s)
	s = destination.until(s, doing(corev1beta1.LastOperationTypeRestore))
	destination.delete(s)
	if done, _ := destination.operations(s, gone); done != "Restore" {
		t.Errorf("operations were %q", done)
	}
	destination.nothingLeft(s)
}

// A deletion that the lost seed had completed does not create anything again.
func TestADeletionThatHadEnded(t *testing.T) {
	t.Parallel()
	source := newSource(t)
	s := source.until(source.newShoot("a"), succeeded)
	source.saveState(s)
	source.delete(s)
	s = source.until(s, func(s *corev1beta1.Shoot) bool { return doing(corev1beta1.LastOperationTypeDelete)(s) })
	source.lose(s)
	source.must(source.Client.Delete(source.ctx, source.entryOf(s)))

	destination := source.heir()
	destination.declareDead(s)
	done, _ := destination.operations(s, func(s *corev1beta1.Shoot) bool {
		if s != nil && *s.Status.SeedName == destination.seed.Name &&
			s.Status.LastOperation.Type != corev1beta1.LastOperationTypeDelete {
			t.Errorf("operation = %+v", s.Status.LastOperation)
		}
		return gone(s)
	})
	if done != "" {
		t.Errorf("operations were %q", done)
	}
	destination.nothingLeft(s)
}

// A forced deletion does not wait for a restore.
func TestAForcedDeletionIsTakenOver(t *testing.T) {
	t.Parallel()
	source := newSource(t)
	s := source.until(source.newShoot("a"), succeeded)
	source.delete(s)
	s = source.until(s, doing(corev1beta1.LastOperationTypeDelete))
	s.Status.LastErrors = []corev1beta1.LastError{{
		Description: "no access", Codes: []corev1beta1.ErrorCode{corev1beta1.ErrorInfraUnauthorized},
	}}
	source.must(source.Client.Status().Update(source.ctx, s))
	before := s.DeepCopy()
	s.Annotations[corev1beta1.AnnotationConfirmationForceDeletion] = "true"
	source.must(source.Client.Patch(source.ctx, s, client.MergeFrom(before)))
	source.lose(s)
	destination := source.heir()
	destination.declareDead(s)
	if done, _ := destination.operations(s, gone); strings.Contains(done, "Restore") {
		t.Errorf("operations were %q", done)
	}
	destination.nothingLeft(s)
	if left, err := ownership.Left(source.ctx, source.gardenlet, source.seed.Name, s.UID); err != nil || !left.Settled {
		t.Errorf("the Lease for the lost seed = %+v, %v", left, err)
	}
}

// A Shoot that was being created is restored from its ShootState, or created again.
func TestACreationIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		saved, deleted bool
		want           string
	}{
		"with a ShootState":                {saved: true, want: "Restore"},
		"without a ShootState":             {want: "Create"},
		"with a ShootState, deleted then":  {saved: true, deleted: true, want: "Restore"},
		"without a ShootState and deleted": {deleted: true, want: "Create"},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource(t)
			infrastructure := &extensionsv1alpha1.Infrastructure{}
			s := source.until(source.newShoot("a"), func(s *corev1beta1.Shoot) bool {
				if s.Status.TechnicalID == "" {
					return false
				}
				infrastructure.ObjectMeta = metav1.ObjectMeta{Namespace: s.Status.TechnicalID, Name: s.Name}
				found, err := kube.Exists(source.ctx, source.Client, infrastructure)
				source.must(err)
				return found
			})
			if tc.saved {
				source.saveState(s)
			}
			had := source.persistent(s)
			source.lose(s)

			destination := source.heir()
			destination.declareDead(s)
			server := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Status.TechnicalID, Name: kubeapiserver.Name,
			}}
			ended := func(s *corev1beta1.Shoot) bool {
				claim, err := ownership.Read(t.Context(), destination.Client, s.Namespace, s.UID)
				destination.must(err)
				made, err := kube.Exists(t.Context(), destination.Client, server)
				destination.must(err)
				if fenced := claim.TakenOver.FencedAt(); made && !claim.Settled &&
					(fenced.IsZero() || source.clock.Now().Before(fenced)) {
					t.Fatalf("an API server is made at %s: %+v", source.clock.Now(), claim)
				}
				return succeeded(s) && s.Status.LastOperation.Type != corev1beta1.LastOperationTypeMigrate
			}
			if tc.deleted {
				s = destination.until(s, func(s *corev1beta1.Shoot) bool {
					return *s.Status.SeedName == destination.seed.Name && doing(corev1beta1.LastOperationType(tc.want))(s)
				})
				destination.delete(s)
			}
			s = destination.until(s, ended)
			if string(s.Status.LastOperation.Type) != tc.want {
				t.Errorf("operation = %+v, want %s", s.Status.LastOperation, tc.want)
			}
			kept := 0
			for name, data := range destination.persistent(s) {
				if was, ok := had[name]; ok && maps.Equal(data, was) {
					kept++
				}
			}
			if (kept > 0) != tc.saved {
				t.Errorf("%d Secrets of the lost seed are used", kept)
			}
			if entry := destination.entryOf(s); ptr.Deref(entry.Status.SeedName, "") != destination.seed.Name {
				t.Errorf("BackupEntry is on %v", entry.Status.SeedName)
			}
			claim, err := ownership.Read(t.Context(), destination.Client, s.Namespace, s.UID)
			destination.must(err)
			if claim.Holder != destination.seed.Name || claim.Epoch != 2 || !claim.Settled {
				t.Errorf("claim is %+v", claim)
			}
			if _, left := s.Annotations[corev1beta1.AnnotationSourceIsDead]; left {
				t.Error("the operator's declaration is still there")
			}
			if !tc.deleted {
				destination.delete(s)
			}
			destination.until(s, gone)
			destination.nothingLeft(s)
		})
	}
}

// A seed that comes back after another one has deleted the Shoot removes its leftovers, without requests to the cloud.
func TestASeedComesBackAfterTheDeletion(t *testing.T) {
	t.Parallel()
	source := newSource(t)
	s := source.until(source.newShoot("a"), succeeded)
	source.saveState(s)
	source.delete(s)
	s = source.until(s, doing(corev1beta1.LastOperationTypeDelete))
	cluster := &extensionsv1alpha1.Cluster{}
	source.must(source.Client.Get(source.ctx, client.ObjectKey{Name: s.Status.TechnicalID}, cluster))
	source.lose(s)
	destination := source.heir()
	destination.declareDead(s)
	destination.until(s, gone)
	destination.nothingLeft(s)
	// The garbage collector takes the Lease with the Shoot.
	source.must(source.Client.Delete(source.ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: ownership.NamePrefix + string(s.UID)},
	}))

	id := s.Status.TechnicalID
	meta := metav1.ObjectMeta{Namespace: id, Name: s.Name, Finalizers: []string{"extensions.gardener.cloud/x"}}
	machine := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: id, Name: "m", Finalizers: []string{"machine.sapcloud.io/machine-controller"},
	}}
	infrastructure := &extensionsv1alpha1.Infrastructure{ObjectMeta: meta}
	infrastructure.Spec.Type, infrastructure.Spec.Region = "local", "local"
	infrastructure.Spec.SecretRef = corev1.SecretReference{Namespace: id, Name: "cloudprovider"}
	entry := &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{
		Name: id + "--" + string(s.Status.UID), Finalizers: []string{"extensions.gardener.cloud/backupentry"},
	}}
	entry.Spec.Type, entry.Spec.Region, entry.Spec.BucketName = "local", "local", "b"
	entry.Spec.SecretRef = corev1.SecretReference{Namespace: "garden", Name: "entry-" + entry.Name}
	remains := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: id}},
		&extensionsv1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: cluster.Spec,
		}, infrastructure, machine, entry,
	}
	for _, o := range remains {
		source.must(source.Client.Create(source.ctx, o))
	}
	for _, other := range []struct {
		seed string
		uses client.Client
	}{{destination.seed.Name, destination.gardenlet}, {source.seed.Name, source.gardenlet}} {
		leftovers := &shoot.Leftovers{
			Garden: other.uses, Shoots: source.Client, Seed: source.Client, Clock: source.clock, SeedName: other.seed,
		}
		removed := false
		for range 20 {
			source.clock.Step(2 * time.Second)
			result, err := leftovers.Reconcile(source.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: id}})
			source.must(err)
			source.namespaceGone(id)
			if removed = result.RequeueAfter == 0; removed {
				break
			}
		}
		if removed != (other.seed == source.seed.Name) {
			t.Errorf("leftovers on Seed %s are removed: %t", other.seed, removed)
		}
	}
	for _, o := range remains {
		if found, err := kube.Exists(source.ctx, source.Client, o); err != nil || found {
			t.Errorf("%T %s is still there: %v", o, o.GetName(), err)
		}
	}
	if left, err := ownership.Left(source.ctx, source.gardenlet, source.seed.Name, s.UID); err != nil || left.Epoch != 0 {
		t.Errorf("the garden still has the Lease for Seed %s: %+v, %v", source.seed.Name, left, err)
	}
}
