package gardenlet

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/backupbucket"
	"hortus.dev/hortus/internal/gardenlet/backupentry"
	"hortus.dev/hortus/test/env"
)

// startBackupControllers runs the controllers of backups with the confined credentials of a Seed's gardenlet, and with
// the caches of the real process.
func startBackupControllers(t *testing.T, e *env.Environment, seed string) {
	t.Helper()
	gardenScheme, err := GardenScheme()
	if err != nil {
		t.Fatal(err)
	}
	seedScheme, err := SeedScheme()
	if err != nil {
		t.Fatal(err)
	}
	config := e.As(corev1beta1.SeedUserPrefix+seed, corev1beta1.SeedsGroup)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: gardenScheme, Cache: gardenCache(seed), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	garden, err := client.New(config, client.Options{Scheme: gardenScheme})
	if err != nil {
		t.Fatal(err)
	}
	seedCluster, err := cluster.New(e.Config, func(o *cluster.Options) { o.Scheme, o.Cache = seedScheme, seedCache() })
	if err != nil {
		t.Fatal(err)
	}
	// The periods are too long to help: only watches trigger reconciliations.
	buckets := &backupbucket.Reconciler{
		Garden: garden, Seed: e.Client, Clock: clock.RealClock{}, Events: events.NewFakeRecorder(1000), SeedName: seed,
		SyncPeriod: time.Hour,
	}
	entries := &backupentry.Reconciler{
		Garden: garden, Seed: e.Client, Clock: clock.RealClock{}, Events: events.NewFakeRecorder(1000), SeedName: seed,
	}
	for _, err := range []error{
		mgr.Add(seedCluster), buckets.AddToManager(mgr, seedCluster, 1), entries.AddToManager(mgr, seedCluster, 1),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run controllers: %v", err)
		}
	})
}

// succeed answers a request as an extension does.
func succeed(t *testing.T, e *env.Environment, o extensionsv1alpha1.Object) {
	t.Helper()
	env.Eventually(t, "the extension has a request", func() (bool, error) {
		err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return err == nil, client.IgnoreNotFound(err)
	})
	before := o.DeepCopyObject().(client.Object)
	annotations := o.GetAnnotations()
	delete(annotations, extensionsv1alpha1.AnnotationOperation)
	o.SetAnnotations(annotations)
	if err := e.Client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	before = o.DeepCopyObject().(client.Object)
	status := o.GetDefaultStatus()
	status.ObservedGeneration = o.GetGeneration()
	status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateSucceeded,
		LastUpdateTime: metav1.Now(),
	}
	if err := e.Client.Status().Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func TestBackupControllersAreDrivenByWatches(t *testing.T) {
	e := env.Shared(t)
	e.GardenRoles(t)
	err := e.Client.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1beta1.GardenNamespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: corev1beta1.GardenNamespace, Name: env.Name("backup-"),
	}}
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name}
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: env.Name("seed-")}, Spec: corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: "local", Region: "local"},
		Networks: corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24"},
		Ingress: &corev1beta1.Ingress{
			Domain: "ingress.local.hortus.dev", Controller: corev1beta1.IngressController{Kind: "nginx"},
		},
		DNS: corev1beta1.SeedDNS{
			Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &ref},
			Internal: &corev1beta1.SeedDNSProviderConfig{Type: "local", Domain: "internal.hortus.dev", CredentialsRef: ref},
		},
		Backup: &corev1beta1.Backup{Provider: "local", CredentialsRef: &ref},
	}}
	e.Create(t, secret, seed)
	startBackupControllers(t, e, seed.Name)
	bucket := &corev1beta1.BackupBucket{
		ObjectMeta: metav1.ObjectMeta{Name: string(seed.UID)},
		Spec: corev1beta1.BackupBucketSpec{
			Provider: corev1beta1.BackupBucketProvider{Type: "local", Region: "local"},
			SeedName: ptr.To(seed.Name), CredentialsRef: &ref,
		},
	}
	entry := &corev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: *e.Project(t).Spec.Namespace, Name: "shoot--dev--a--1"},
		Spec:       corev1beta1.BackupEntrySpec{BucketName: bucket.Name, SeedName: ptr.To(seed.Name)},
	}
	for _, o := range []client.Object{bucket, entry} {
		if err := e.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	reaches := func(o client.Object, operation func() *corev1beta1.LastOperation, state corev1beta1.LastOperationState) {
		t.Helper()
		env.Eventually(t, o.GetName()+" is "+string(state), func() (bool, error) {
			err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			return err == nil && operation() != nil && operation().State == state, err
		})
	}
	ofBucket := func() *corev1beta1.LastOperation { return bucket.Status.LastOperation }
	ofEntry := func() *corev1beta1.LastOperation { return entry.Status.LastOperation }
	reaches(entry, ofEntry, corev1beta1.LastOperationStatePending) // For the bucket.
	object := metav1.ObjectMeta{Name: bucket.Name}
	succeed(t, e, &extensionsv1alpha1.BackupBucket{ObjectMeta: object})
	reaches(bucket, ofBucket, corev1beta1.LastOperationStateSucceeded)
	object.Name = entry.Name
	succeed(t, e, &extensionsv1alpha1.BackupEntry{ObjectMeta: object})
	reaches(entry, ofEntry, corev1beta1.LastOperationStateSucceeded)
	for _, o := range []client.Object{entry, bucket} { // The second controller waits for the end of the first object.
		if err := e.Client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		env.Eventually(t, o.GetName()+" is gone", func() (bool, error) {
			err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	}
}
