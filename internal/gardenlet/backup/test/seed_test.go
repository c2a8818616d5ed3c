package test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/controllermanager/controllerregistration"
	seedconditions "hortus.dev/hortus/internal/controllermanager/seed"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/gardenlet/config"
	gardenletseed "hortus.dev/hortus/internal/gardenlet/seed"
	"hortus.dev/hortus/internal/scheduler"
	"hortus.dev/hortus/test/env"
)

// keeper is the gardenlet's controller of the Seed.
func (s *seed) keeper() *gardenletseed.Reconciler {
	s.t.Helper()
	c := &config.GardenletConfiguration{SeedConfig: &config.SeedConfig{}}
	c.SeedConfig.Name = s.object.Name
	config.SetDefaults(c)
	d, err := discovery.NewDiscoveryClientForConfig(s.Config)
	s.must(err)
	return &gardenletseed.Reconciler{
		Garden: s.garden, Cache: s.Client, Seed: s.cluster, Discovery: d, Clock: clock, Config: c,
		Alive: func() bool { return true }, CertificateNotAfter: func() *metav1.Time { return nil },
		Image: "hortus.dev/hortus:test",

		Definitions: crds.Seed(), Placeholders: crds.Placeholders(), Policies: crds.Policies(),
	}
}

func (s *seed) stepSeed(r *gardenletseed.Reconciler) error {
	s.t.Helper()
	clock.Step(2 * time.Second)
	_, err := reconcile.AsReconciler(s.Client, r).Reconcile(s.ctx,
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s.object)})
	s.read(s.object)
	return err
}

// offer registers an extension that creates buckets.
func (w *world) offer() *corev1beta1.ControllerRegistration {
	w.t.Helper()
	deployment := &corev1beta1.ControllerDeployment{ObjectMeta: metav1.ObjectMeta{Name: env.Name("local-")}, Type: "helm"}
	deployment.ProviderConfig.Raw = []byte(`{"chart":"H4sIAAAAAAAA"}`)
	registration := &corev1beta1.ControllerRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: deployment.Name},
		Spec: corev1beta1.ControllerRegistrationSpec{
			Resources: []corev1beta1.ControllerResource{{Kind: "BackupBucket", Type: "local"}},
			Deployment: &corev1beta1.ControllerRegistrationDeployment{
				DeploymentRefs: []corev1beta1.DeploymentRef{{Name: deployment.Name}},
			},
		},
	}
	w.Create(w.t, deployment, registration)
	return registration
}

// installed has the controller-manager decide which extensions are installed on the seed, and says whether a
// registration's is.
func (s *seed) installed(registration *corev1beta1.ControllerRegistration) bool {
	s.t.Helper()
	s.read(s.object)
	_, err := (&controllerregistration.Reconciler{Garden: s.Client}).Reconcile(s.ctx, s.object)
	s.must(err)
	i := &corev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{Name: registration.Name + "-" + s.object.Name}}
	s.read(i)
	return !gone(i) && i.DeletionTimestamp == nil
}

// schedulable says whether the scheduler would consider the seed.
func (s *seed) schedulable() bool {
	s.t.Helper()
	d := scheduler.Decide(scheduler.Input{
		Shoot: &corev1beta1.Shoot{}, Profile: &corev1beta1.CloudProfileSpec{},
		Candidates: []scheduler.Candidate{{Seed: s.object}},
	})
	return d.Verdicts[0].Filter != "usable"
}

// bucketsReady is the condition that the scheduler checks, written by the controller-manager.
func (s *seed) bucketsReady() corev1beta1.ConditionStatus {
	s.t.Helper()
	judge := &seedconditions.BackupBuckets{Garden: s.Client, Clock: clock}
	s.read(s.object)
	_, err := judge.Reconcile(s.ctx, s.object)
	s.must(err)
	s.read(s.object)
	c := corev1beta1.FindCondition(s.object.Status.Conditions, corev1beta1.SeedBackupBucketsReady)
	if c == nil {
		return ""
	}
	return c.Status
}

func TestSeedWithBackupsHasABucketAsLongAsItIsUsed(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	keeper, registration := s.keeper(), w.offer()
	if !s.installed(registration) {
		t.Fatal("the extension is not installed")
	}
	w.must(s.stepSeed(keeper))
	if got := s.bucketsReady(); got != corev1beta1.ConditionProgressing || s.schedulable() {
		t.Errorf("BackupBucketsReady of a new bucket is %q, schedulable %t", got, s.schedulable())
	}
	b := &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: s.bucketName()}}
	w.read(b)
	if gone(b) {
		t.Fatal("the Seed has no BackupBucket")
	}
	t.Cleanup(func() { w.forget(b) })
	if o := b.OwnerReferences; len(o) != 1 || o[0].UID != s.object.UID || b.Spec.Provider.Region != "local" ||
		*b.Spec.SeedName != s.object.Name {
		t.Errorf("bucket = %+v, owners %+v", b.Spec, o)
	}
	s.runBucket(b, func() bool { return bucketSucceeded(b) })
	if got := s.bucketsReady(); got != corev1beta1.ConditionTrue || !s.schedulable() {
		t.Errorf("BackupBucketsReady of a bucket that works is %q, schedulable %t", got, s.schedulable())
	}
	w.must(s.stepSeed(keeper)) // The gardenlet does not change the condition.
	if c := corev1beta1.FindCondition(s.object.Status.Conditions, corev1beta1.SeedBackupBucketsReady); c == nil ||
		c.Status != corev1beta1.ConditionTrue {
		t.Errorf("condition after a pass of the gardenlet = %+v", c)
	}

	// Other credentials reach the bucket.
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: env.Name("backup-")},
		Data: w.validCredentials()}
	other.Data["comment"] = []byte("other")
	w.Create(t, other)
	before := s.object.DeepCopy()
	s.object.Spec.Backup.CredentialsRef.Name = other.Name
	w.must(w.Client.Patch(w.ctx, s.object, client.MergeFrom(before)))
	w.must(s.stepSeed(keeper))
	s.runBucket(b, func() bool { return b.Generation > 1 && bucketSucceeded(b) })
	if got := string(w.secret(w.Client, "garden", "bucket-"+b.Name).Data["comment"]); got != "other" {
		t.Errorf("the bucket has the credentials %q", got)
	}

	e := s.newEntry(b.Name)
	s.runEntry(e, func() bool { return entrySucceeded(e) })
	w.must(w.Client.Delete(w.ctx, s.object))
	w.must(s.stepSeed(keeper))
	if op := s.object.Status.LastOperation; op.Type != corev1beta1.LastOperationTypeDelete ||
		!strings.Contains(op.Description, e.Name) {
		t.Errorf("operation of the Seed = %+v, want it to name the entry", op)
	}
	w.must(w.Client.Delete(w.ctx, e))
	s.runEntry(e, func() bool { return gone(e) })
	w.must(s.stepSeed(keeper))
	w.read(b)
	if b.DeletionTimestamp == nil || !slices.Contains(s.object.Finalizers, corev1beta1.FinalizerName) {
		t.Errorf("the bucket is not being deleted, or the Seed was removed before it: %v", s.object.Finalizers)
	}
	if !s.installed(registration) {
		t.Error("the extension is removed before it has deleted the bucket")
	}
	s.runBucket(b, func() bool { return gone(b) })
	if s.installed(registration) {
		t.Error("the extension stays although the seed does not need it any more")
	}
	w.must(s.stepSeed(keeper))
	if !gone(s.object) && slices.Contains(s.object.Finalizers, corev1beta1.FinalizerName) {
		t.Errorf("the Seed is still there: %+v", s.object.Status.LastOperation)
	}
}
