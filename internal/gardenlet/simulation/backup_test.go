package simulation

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/gardenlet/backupbucket"
	"hortus.dev/hortus/internal/gardenlet/backupentry"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/test/sim"
)

const (
	gracePeriod = time.Hour
	kindBucket  = extensionsv1alpha1.BackupBucketKind
	kindEntry   = extensionsv1alpha1.BackupEntryKind
)

// gardenletForBackups is a gardenlet with the controllers of buckets and entries.
func gardenletForBackups(w *sim.World, garden, cluster *sim.Cluster, seed string) {
	now := newTicking(w)
	w.Process("gardenlet-"+seed, garden, func(p *sim.Process) error {
		direct, seedClient := p.In(garden).Direct(), p.In(cluster).Direct()
		buckets := &backupbucket.Reconciler{
			Garden: direct, Seed: seedClient, Clock: now, Events: p.GetEventRecorder(""), SeedName: seed,
			SyncPeriod: 10 * time.Minute,
		}
		entries := &backupentry.Reconciler{
			Garden: direct, Seed: seedClient, Clock: now, Events: p.GetEventRecorder(""), SeedName: seed,
			Grace: backupentry.Grace{Period: gracePeriod},
		}
		return errors.Join(buckets.AddToManager(p, p.In(cluster), 1), entries.AddToManager(p, p.In(cluster), 1))
	})
}

// addBackups makes an extension that creates credentials for each bucket, with which entries are accessed.
func (o *provider) addBackups(w *sim.World, cluster *sim.Cluster, seed string) {
	w.Process("provider-"+seed, cluster, func(p *sim.Process) error {
		c, cloud := p.GetClient(), p.In(o.cloud).Direct()
		secret := func(ctx context.Context, ref corev1.SecretReference) (string, error) {
			s := &corev1.Secret{}
			err := c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, s)
			return string(s.Data["key"]), err
		}
		generated := func(b *extensionsv1alpha1.BackupBucket) *corev1.Secret {
			return named[corev1.Secret]("garden", "generated-by-provider-"+b.Name)
		}
		buckets := keeper[*extensionsv1alpha1.BackupBucket]{
			provider: o, cloud: cloud, kind: kindBucket,
			content: func(ctx context.Context, b *extensionsv1alpha1.BackupBucket) (string, error) {
				key, err := secret(ctx, b.Spec.SecretRef)
				if err != nil {
					return "", err
				}
				own := generated(b)
				own.Data = map[string][]byte{"key": []byte("generated with " + key)}
				b.Status.GeneratedSecretRef = &corev1.SecretReference{Namespace: own.Namespace, Name: own.Name}
				return key, kube.Apply(ctx, c, own, "provider")
			},
			clean: func(ctx context.Context, b *extensionsv1alpha1.BackupBucket) error {
				return client.IgnoreNotFound(c.Delete(ctx, generated(b)))
			},
		}
		entries := keeper[*extensionsv1alpha1.BackupEntry]{
			provider: o, cloud: cloud, kind: kindEntry,
			content: func(ctx context.Context, e *extensionsv1alpha1.BackupEntry) (string, error) {
				return secret(ctx, e.Spec.SecretRef)
			},
		}
		return errors.Join(
			buckets.add(p, &extensionsv1alpha1.BackupBucket{}, func(r *extension.Reconciler[*extensionsv1alpha1.BackupBucket]) {
				r.WithoutCluster = true
				r.SecretRef = func(b *extensionsv1alpha1.BackupBucket) *corev1.SecretReference { return &b.Spec.SecretRef }
			}),
			entries.add(p, &extensionsv1alpha1.BackupEntry{}, func(r *extension.Reconciler[*extensionsv1alpha1.BackupEntry]) {
				r.WithoutCluster = true
				r.SecretRef = func(e *extensionsv1alpha1.BackupEntry) *corev1.SecretReference { return &e.Spec.SecretRef }
			}),
		)
	})
}

// Backups exist until their entry is deleted and the grace period is over, in whichever seed its control plane runs.
// Access to them follows the credentials of the operator.
func TestSimulateBackups(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		garden, a, b := w.Cluster("garden", sim.Scheme()), w.Cluster("a", sim.Scheme()), w.Cluster("b", sim.Scheme())
		cloud := newProvider(w)
		garden.AddNamespaces("garden", "garden-dev")
		a.AddNamespaces("garden")
		b.AddNamespaces("garden")
		gardenletForBackups(w, garden, a, "a")
		gardenletForBackups(w, garden, b, "b")
		cloud.addBackups(w, a, "a")
		cloud.addBackups(w, b, "b")

		bucket := func() *corev1beta1.BackupBucket { return named[corev1beta1.BackupBucket]("", "b") }
		entry := func() *corev1beta1.BackupEntry { return named[corev1beta1.BackupEntry]("garden-dev", "e") }
		key := named[corev1.Secret]("garden", "key")
		key.Data = map[string][]byte{"key": []byte("1")}
		garden.Add(key.DeepCopy())

		w.Change("make the bucket", garden, func(ctx context.Context, c client.Client) error {
			o := bucket()
			o.Spec.SeedName, o.Spec.Provider.Type = new("a"), "simulated"
			o.Spec.CredentialsRef = &corev1.ObjectReference{Kind: "Secret", Namespace: key.Namespace, Name: key.Name}
			return c.Create(ctx, o)
		})
		w.Change("make the entry", garden, func(ctx context.Context, c client.Client) error {
			o := entry()
			o.Labels = map[string]string{ // The API server has them for all seeds that use the entry.
				corev1beta1.LabelPrefixSeedName + "a": "true", corev1beta1.LabelPrefixSeedName + "b": "true",
			}
			o.Spec.SeedName, o.Spec.BucketName = new("a"), "b"
			return c.Create(ctx, o)
		})
		rotate := func(value string) change {
			return func(context.Context, client.Client) error {
				return garden.Edit(key, func() { key.Data["key"] = []byte(value) })
			}
		}
		move := func(seed string) change {
			return func(context.Context, client.Client) error {
				e := entry()
				return garden.Edit(e, func() { e.Spec.SeedName = new(seed) })
			}
		}
		w.Change("other credentials", garden, rotate("2"))
		w.Change("move the entry", garden, move("b"))
		w.Change("again other credentials", garden, rotate("3"))
		w.Change("move the entry back", garden, move("a"))
		w.Change("move the entry once more", garden, move("b"))
		w.Overlap()

		kept, deletedAt := false, time.Time{}
		w.Always("backups stay until the grace period is over", func() error {
			exists := cloud.cloud.Exists(inCloud(kindEntry, "e"))
			kept = kept || exists
			if e := entry(); garden.Exists(e) && e.DeletionTimestamp != nil {
				deletedAt = e.DeletionTimestamp.Time
			}
			now := w.Clock().Now().Add(time.Second) // The gardenlets' clocks are ahead a little.
			over := !deletedAt.IsZero() && now.After(deletedAt.Add(gracePeriod))
			return is(!kept || exists || over, "the backups are gone")
		})
		w.Always("a bucket with backups stays", func() error {
			return is(!cloud.cloud.Exists(inCloud(kindEntry, "e")) || cloud.cloud.Exists(inCloud(kindBucket, "b")),
				"the bucket is gone")
		})
		w.Always("one seed acts on the backups", func() error {
			active := func(c *sim.Cluster) bool {
				e := named[extensionsv1alpha1.BackupEntry]("", "e")
				return c.Exists(e) && (e.Status.LastOperation == nil ||
					e.Status.LastOperation.Type != corev1beta1.LastOperationTypeMigrate)
			}
			return is(!active(a) || !active(b), "both seeds have an entry")
		})
		w.Always("finalizers stay while something is in a seed", func() error {
			used := func(o client.Object) bool { return a.Exists(o) || b.Exists(o) }
			e, o := entry(), bucket()
			if used(named[extensionsv1alpha1.BackupEntry]("", "e")) && (!garden.Exists(e) ||
				!controllerutil.ContainsFinalizer(e, corev1beta1.FinalizerName)) {
				return is(false, "entry with finalizers %v", e.Finalizers)
			}
			if used(named[extensionsv1alpha1.BackupBucket]("", "b")) && (!garden.Exists(o) ||
				!controllerutil.ContainsFinalizer(o, corev1beta1.FinalizerName)) {
				return is(false, "bucket with finalizers %v", o.Finalizers)
			}
			return nil
		})

		w.Faults(250)
		cloud.faulty = false
		w.Eventually(400, "the entry works in seed b with the newest credentials", func() error {
			e, o := entry(), bucket()
			garden.Exists(e)
			garden.Exists(o)
			inBucket, inEntry := inCloud(kindBucket, "b"), inCloud(kindEntry, "e")
			cloud.cloud.Exists(inBucket)
			cloud.cloud.Exists(inEntry)
			succeeded := func(op *corev1beta1.LastOperation, failure *corev1beta1.LastError) bool {
				return op != nil && op.State == corev1beta1.LastOperationStateSucceeded && failure == nil
			}
			return is(succeeded(e.Status.LastOperation, e.Status.LastError) && ptr.Deref(e.Status.SeedName, "") == "b" &&
				succeeded(o.Status.LastOperation, o.Status.LastError) && inBucket.Data["content"] == "3" &&
				inEntry.Data["content"] == "generated with 3" && !a.Exists(named[extensionsv1alpha1.BackupEntry]("", "e")),
				"bucket %+v %v, entry %+v %v", o.Status, inBucket.Data, e.Status, inEntry.Data)
		})

		cloud.faulty = true
		w.Change("delete the bucket", garden, remove(bucket()))
		w.Change("delete the entry", garden, remove(entry()))
		w.Faults(60)
		w.Idle(gracePeriod)
		w.Faults(60)
		cloud.faulty = false
		w.Eventually(400, "everything is gone", func() error {
			for _, c := range []*sim.Cluster{garden, a, b} {
				if err := c.Gone(entryIn(c, garden), bucketIn(c, garden), named[corev1.Secret]("garden", "entry-e"),
					named[corev1.Secret]("garden", "bucket-b"), named[corev1.Secret]("garden", "generated-bucket-b"),
					named[corev1.Secret]("garden", "generated-by-provider-b")); err != nil {
					return err
				}
			}
			return cloud.cloud.Gone(inCloud(kindEntry, "e"), inCloud(kindBucket, "b"))
		})
	})
}

// entryIn is the entry as the garden or a seed has it.
func entryIn(c, garden *sim.Cluster) client.Object {
	if c == garden {
		return named[corev1beta1.BackupEntry]("garden-dev", "e")
	}
	return named[extensionsv1alpha1.BackupEntry]("", "e")
}

// bucketIn is the bucket as the garden or a seed has it.
func bucketIn(c, garden *sim.Cluster) client.Object {
	if c == garden {
		return named[corev1beta1.BackupBucket]("", "b")
	}
	return named[extensionsv1alpha1.BackupBucket]("", "b")
}
