// Package test steps the controllers of backups against real API servers for the garden and two seeds, with the
// actuators of provider-local and a cloud behind them. Each gardenlet is confined to its seed as in production.
package test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/gardenlet/backupbucket"
	"hortus.dev/hortus/internal/gardenlet/backupentry"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/provider/backup"
	"hortus.dev/hortus/local/provider/credentials"
	"hortus.dev/hortus/test/env"
)

var clock = clocktesting.NewFakeClock(time.Now().Truncate(time.Second))

var seedScheme = env.WithScheme(extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme)

func TestMain(m *testing.M) {
	env.Main(m, env.WithClock(clock), env.WithSeedAuthorizer(), env.WithSeedsAuthorizedOnce(),
		env.WithCRDs(crds.Seed()...), seedScheme)
}

// world is a garden with a project and a cloud.
type world struct {
	*env.Environment
	t         *testing.T
	ctx       context.Context
	cloud     *cloudtest.Cloud
	namespace string // Of the project.
	// credentials is the Secret of the bucket in the garden.
	credentials *corev1.Secret
}

// seed is a seed with its gardenlet and its extension.
type seed struct {
	*world
	cluster client.Client
	object  *corev1beta1.Seed
	garden  client.Client // As its gardenlet.
	buckets *backupbucket.Reconciler
	entries *backupentry.Reconciler

	bucketExtension *extension.Reconciler[*extensionsv1alpha1.BackupBucket]
	entryExtension  *extension.Reconciler[*extensionsv1alpha1.BackupEntry]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	e := env.Shared(t)
	e.GardenRoles(t)
	w := &world{Environment: e, t: t, ctx: t.Context(), cloud: cloudtest.Start(t, cloudtest.Options{}),
		namespace: *e.Project(t).Spec.Namespace}
	w.credentials = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: env.Name("backup-")},
		Data: w.validCredentials()}
	e.Create(t, w.credentials)
	return w
}

func (w *world) validCredentials() map[string][]byte {
	c := w.cloud.Config
	return map[string][]byte{
		credentials.KeyEndpoint: []byte(c.Endpoint), credentials.KeyAccessKey: []byte(c.AccessKey),
		credentials.KeySecretKey: []byte(c.SecretKey), credentials.KeyCA: []byte(c.CA),
	}
}

func (w *world) setCredentials(data map[string][]byte) {
	w.t.Helper()
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(w.credentials), w.credentials))
	w.credentials.Data = data
	w.must(w.Client.Update(w.ctx, w.credentials))
}

// newSeed registers a Seed with backups whose control planes are in a cluster.
func (w *world) newSeed(cluster client.Client) *seed {
	w.t.Helper()
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: w.credentials.Name}
	s := &seed{world: w, cluster: cluster,
		object: &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: env.Name("seed-")}, Spec: corev1beta1.SeedSpec{
			Provider: corev1beta1.SeedProvider{Type: "local", Region: "local"},
			Networks: corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24"},
			Ingress: &corev1beta1.Ingress{Domain: "ingress.local.hortus.dev",
				Controller: corev1beta1.IngressController{Kind: "nginx"}},
			DNS: corev1beta1.SeedDNS{
				Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &ref},
				Internal: &corev1beta1.SeedDNSProviderConfig{Type: "local", Domain: "internal.local.hortus.dev",
					CredentialsRef: ref},
			},
			Backup: &corev1beta1.Backup{Provider: "local", CredentialsRef: &ref},
		}}}
	w.Create(w.t, s.object)
	w.ensureNamespace(cluster, "garden")
	s.garden = w.ClientAs(w.t, corev1beta1.SeedUserPrefix+s.object.Name, corev1beta1.SeedsGroup)
	s.buckets = &backupbucket.Reconciler{
		Garden: s.garden, Seed: cluster, Clock: clock, Events: events.NewFakeRecorder(1000), SeedName: s.object.Name,
		SyncPeriod: time.Minute,
	}
	s.entries = &backupentry.Reconciler{
		Garden: s.garden, Seed: cluster, Clock: clock, Events: events.NewFakeRecorder(1000), SeedName: s.object.Name,
	}
	clouds := &credentials.Clients{}
	access := func(ctx context.Context, c client.Reader, ref corev1.SecretReference) (backup.Buckets, error) {
		return clouds.For(ctx, c, ref)
	}
	s.bucketExtension = &extension.Reconciler[*extensionsv1alpha1.BackupBucket]{
		Client: cluster, Clock: clock, Prototype: &extensionsv1alpha1.BackupBucket{},
		Kind: extensionsv1alpha1.BackupBucketKind, Type: "local",
		SecretRef: func(o *extensionsv1alpha1.BackupBucket) *corev1.SecretReference { return &o.Spec.SecretRef },
		Actuator:  withoutGenerated{&backup.BucketActuator{Client: cluster, Cloud: access}},
	}
	s.entryExtension = &extension.Reconciler[*extensionsv1alpha1.BackupEntry]{
		Client: cluster, Clock: clock, Prototype: &extensionsv1alpha1.BackupEntry{}, Kind: extensionsv1alpha1.BackupEntryKind,
		Type:      "local",
		SecretRef: func(o *extensionsv1alpha1.BackupEntry) *corev1.SecretReference { return &o.Spec.SecretRef },
		Actuator:  &backup.EntryActuator{Client: cluster, Cloud: access},
	}
	return s
}

// withoutGenerated is an extension that generates no credentials for the bucket, like most extensions.
type withoutGenerated struct{ *backup.BucketActuator }

func (a withoutGenerated) Reconcile(
	ctx context.Context, bucket *extensionsv1alpha1.BackupBucket, cluster *extension.Cluster,
) (extension.Result, error) {
	result, err := a.BucketActuator.Reconcile(ctx, bucket, cluster)
	ref := bucket.Status.GeneratedSecretRef
	if err != nil || ref == nil {
		return result, err
	}
	bucket.Status.GeneratedSecretRef = nil
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := a.Client.Patch(ctx, secret, patch); err != nil {
		return result, err
	}
	return result, a.Client.Delete(ctx, secret)
}

func (w *world) ensureNamespace(cluster client.Client, name string) {
	w.t.Helper()
	err := cluster.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
}

// bucketName is the name of all objects of the seed's bucket.
func (s *seed) bucketName() string { return string(s.object.UID) }

// newBucket creates the BackupBucket as the controller of the Seed does.
func (s *seed) newBucket() *corev1beta1.BackupBucket {
	s.t.Helper()
	b := &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: s.bucketName()},
		Spec: corev1beta1.BackupBucketSpec{
			Provider: corev1beta1.BackupBucketProvider{Type: "local", Region: "local"},
			SeedName: ptr.To(s.object.Name), CredentialsRef: s.object.Spec.Backup.CredentialsRef,
		}}
	s.must(s.garden.Create(s.ctx, b))
	s.t.Cleanup(func() { s.forget(b) })
	return b
}

// newEntry creates a BackupEntry in a bucket, for a Shoot that no longer exists.
func (s *seed) newEntry(bucket string, change ...func(*corev1beta1.BackupEntry)) *corev1beta1.BackupEntry {
	s.t.Helper()
	e := &corev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: env.Name("shoot--dev--s") + "--" + env.Name("uid")},
		Spec:       corev1beta1.BackupEntrySpec{BucketName: bucket, SeedName: ptr.To(s.object.Name)},
	}
	for _, c := range change {
		c(e)
	}
	s.must(s.Client.Create(s.ctx, e))
	s.t.Cleanup(func() { s.forget(e) })
	return e
}

// forget removes an object that a test has left.
func (w *world) forget(o client.Object) {
	ctx := context.Background() // The test's context has ended.
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	_ = w.Client.Patch(ctx, o, patch)
	_ = w.Client.Delete(ctx, o)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// stepBucket makes one pass of the gardenlet and one of the extension.
func (s *seed) stepBucket(b *corev1beta1.BackupBucket) (reconcile.Result, error) {
	s.t.Helper()
	clock.Step(2 * time.Second)
	req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)}
	result, err := reconcile.AsReconciler(s.Client, s.buckets).Reconcile(s.ctx, req)
	_, _ = s.bucketExtension.Reconcile(s.ctx, req) // Its errors are in its status.
	s.read(b)
	return result, err
}

// stepEntry makes one pass of the gardenlet and one of the extension.
func (s *seed) stepEntry(e *corev1beta1.BackupEntry) (reconcile.Result, error) {
	s.t.Helper()
	clock.Step(2 * time.Second)
	result, err := reconcile.AsReconciler(s.Client, s.entries).Reconcile(s.ctx,
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)})
	_, _ = s.entryExtension.Reconcile(s.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: e.Name}})
	s.read(e)
	return result, err
}

// read the object anew; an object that is gone has no UID.
func (w *world) read(o client.Object) {
	w.t.Helper()
	if err := w.Client.Get(w.ctx, client.ObjectKeyFromObject(o), o); apierrors.IsNotFound(err) {
		o.SetUID("")
	} else if err != nil {
		w.t.Fatal(err)
	}
}

func gone(o client.Object) bool { return o.GetUID() == "" }

// maxPasses is far above the number that these tests need.
const maxPasses = 60

func (s *seed) runBucket(b *corev1beta1.BackupBucket, until func() bool) {
	s.t.Helper()
	var err error
	for range maxPasses {
		if until() {
			return
		}
		_, err = s.stepBucket(b)
	}
	s.t.Fatalf("not reached after %d passes: %+v, %+v, %v", maxPasses, b.Status.LastOperation, b.Status.LastError, err)
}

func (s *seed) runEntry(e *corev1beta1.BackupEntry, until func() bool) {
	s.t.Helper()
	var err error
	for range maxPasses {
		if until() {
			return
		}
		_, err = s.stepEntry(e)
	}
	s.t.Fatalf("not reached after %d passes: %+v, %+v, %v", maxPasses, e.Status.LastOperation, e.Status.LastError, err)
}

// bucketReady creates the bucket of the seed.
func (s *seed) bucketReady() *corev1beta1.BackupBucket {
	s.t.Helper()
	b := s.newBucket()
	s.runBucket(b, func() bool { return bucketSucceeded(b) })
	return b
}

func bucketSucceeded(b *corev1beta1.BackupBucket) bool {
	return state(b.Status.LastOperation) == corev1beta1.LastOperationStateSucceeded &&
		b.Status.ObservedGeneration == b.Generation
}

func entrySucceeded(e *corev1beta1.BackupEntry) bool {
	return state(e.Status.LastOperation) == corev1beta1.LastOperationStateSucceeded &&
		e.Status.ObservedGeneration == e.Generation
}

func state(op *corev1beta1.LastOperation) corev1beta1.LastOperationState {
	if op == nil {
		return ""
	}
	return op.State
}

// objects are the keys in a bucket of the cloud; found is false without the bucket.
func (w *world) objects(bucket string) (keys []string, found bool) {
	w.t.Helper()
	buckets, err := w.cloud.Client.ListBuckets(w.ctx)
	w.must(err)
	for _, b := range buckets {
		if b.Name != bucket {
			continue
		}
		objects, err := w.cloud.Client.ListObjects(w.ctx, bucket, "")
		w.must(err)
		for _, o := range objects {
			keys = append(keys, o.Key)
		}
		return keys, true
	}
	return nil, false
}

// secret reads a Secret; nil if there is none.
func (w *world) secret(c client.Client, namespace, name string) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	err := c.Get(w.ctx, client.ObjectKey{Namespace: namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return s
}
