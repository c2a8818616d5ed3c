package test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

func operate(value string) string {
	if value == "" {
		return `{"metadata":{"annotations":{"gardener.cloud/operation":null}}}`
	}
	return `{"metadata":{"annotations":{"gardener.cloud/operation":"` + value + `"}}}`
}

// Operations increment the generation, so that controllers act. Those that controllers have to read stay.
func TestOperationsOfOtherKinds(t *testing.T) {
	g := newGarden(t)
	shoot, seed := g.gardenShoot()
	bucket := &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: env.Name("bucket-")}}
	bucket.Spec.Provider = corev1beta1.BackupBucketProvider{Type: "local", Region: "home"}
	bucket.Spec.CredentialsRef, bucket.Spec.SeedName = seed.Spec.Backup.CredentialsRef, &seed.Name
	g.Create(t, bucket)
	entry := &corev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "e"},
		Spec:       corev1beta1.BackupEntrySpec{BucketName: bucket.Name, SeedName: &seed.Name},
	}
	managed := newManagedSeed(shoot.Name, seedConfig)
	managed.Spec.Gardenlet.Config.Raw = []byte(withDNSProvider)
	self := env.Gardenlet(t, seed)
	g.Create(t, entry, managed, self)

	for _, step := range []struct {
		object           client.Object
		operation, stays string
		bump             bool
	}{
		{seed, "reconcile", "", true}, {seed, "renew-kubeconfig", "renew-kubeconfig", true},
		{seed, "renew-kubeconfig", "renew-kubeconfig", false},
		{seed, "", "", false}, {seed, "renew-garden-access-secrets", "renew-garden-access-secrets", true},
		{bucket, "reconcile", "", true}, {bucket, "restore", "restore", false},
		{entry, "reconcile", "", true}, {entry, "migrate", "", true}, {entry, "restore", "restore", true},
		{entry, "restore", "restore", false},
		{managed, "reconcile", "", true}, {managed, "renew-kubeconfig", "renew-kubeconfig", true},
		{self, "reconcile", "", true},
	} {
		before := step.object.GetGeneration()
		g.mustPatch(step.object, operate(step.operation))
		if bumped := step.object.GetGeneration() == before+1; bumped != step.bump {
			t.Errorf("%T with %q: generation %d -> %d", step.object, step.operation, before, step.object.GetGeneration())
		}
		if got := step.object.GetAnnotations()[corev1beta1.AnnotationOperation]; got != step.stays {
			t.Errorf("%T with %q: %q stays, want %q", step.object, step.operation, got, step.stays)
		}
	}
	refuse(t, "an operation while one is pending", g.patch(seed, operate("reconcile")), apierrors.IsInvalid,
		"has not been picked up")
	before := entry.Generation
	g.mustPatch(entry,
		`{"metadata":{"annotations":{"gardener.cloud/operation":null,"backupentry.core.gardener.cloud/force-deletion":"true"}}}`)
	if entry.Generation != before+1 {
		t.Errorf("forced deletion of an entry: generation %d -> %d", before, entry.Generation)
	}
	other := newSeed()
	g.Create(t, other)
	g.mustPatch(entry, `{"status":{"seedName":"`+other.Name+`"}}`, "status")
	for _, name := range []string{seed.Name, other.Name} {
		if entry.Labels[corev1beta1.LabelPrefixSeedName+name] != "true" {
			t.Errorf("an entry that moves has the labels %v", entry.Labels)
		}
	}
}

// withDNSProvider is the seedConfig for a landscape without default domains.
const withDNSProvider = `{
	"apiVersion": "gardenlet.config.gardener.cloud/v1alpha1", "kind": "GardenletConfiguration",
	"seedConfig": {"spec": {"dns": {
		"provider": {"type": "local", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": "dns"}},
		"internal": {"type": "local", "domain": "internal.example.com", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": "dns"}}
	}}}}`

func TestOwnerOfAProjectChanges(t *testing.T) {
	e := env.Shared(t)
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
	}
	project := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: env.Name("m")}, Spec: corev1beta1.ProjectSpec{
		Members: []corev1beta1.ProjectMember{
			{Subject: user("alice"), Role: "owner", Roles: []string{"admin"}}, {Subject: user("bob"), Role: "viewer"},
		},
	}}
	e.Create(t, project)
	patch := func(text string) {
		t.Helper()
		if err := e.Client.Patch(t.Context(), project,
			client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
			t.Fatalf("patch with %s: %v", text, err)
		}
	}
	patch(`{"spec":{"owner":{"kind":"User","name":"bob"}}}`)
	want := []corev1beta1.ProjectMember{
		{Subject: user("alice"), Role: "admin"}, {Subject: user("bob"), Role: "viewer", Roles: []string{"owner"}},
	}
	if diff := cmp.Diff(want, project.Spec.Members); diff != "" {
		t.Errorf("members after a change of the owner (-want +got):\n%s", diff)
	}
	patch(`{"spec":{"owner":{"kind":"User","name":"carol"}}}`) // Not a member yet.
	want = []corev1beta1.ProjectMember{
		{Subject: user("alice"), Role: "admin"}, {Subject: user("bob"), Role: "viewer"},
		{Subject: user("carol"), Role: "admin", Roles: []string{"owner"}},
	}
	if diff := cmp.Diff(want, project.Spec.Members); diff != "" {
		t.Errorf("members with a new owner (-want +got):\n%s", diff)
	}
	before := project.Generation
	patch(`{"metadata":{"labels":{"a":"b"}}}`)
	if project.Generation != before {
		t.Errorf("labels increment the generation of a project: %d -> %d", before, project.Generation)
	}
	err := e.Client.Patch(t.Context(), project,
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"owner":null}}`)))
	refuse(t, "no owner", err, apierrors.IsInvalid, "spec.owner")
}

// The subresource changes only the status, and only the subresource changes it.
func TestSubresourcesOfAllKinds(t *testing.T) {
	g := newGarden(t)
	shoot, seed := g.gardenShoot()
	managed := newManagedSeed(shoot.Name, withDNSProvider)
	bucket := &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: env.Name("bucket-")}}
	bucket.Spec.Provider = corev1beta1.BackupBucketProvider{Type: "local", Region: "home"}
	bucket.Spec.CredentialsRef, bucket.Spec.SeedName = seed.Spec.Backup.CredentialsRef, &seed.Name
	bucket.Status.ObservedGeneration = 7 // The server clears it.
	self := env.Gardenlet(t, seed)
	g.Create(t, managed, bucket, self)
	if bucket.Status.ObservedGeneration != 0 {
		t.Errorf("status of a new object: %+v", bucket.Status)
	}
	entry := &corev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "e"},
		Spec:       corev1beta1.BackupEntrySpec{BucketName: bucket.Name, SeedName: &seed.Name},
	}
	g.Create(t, entry)
	for name, kind := range map[string]struct {
		object   client.Object
		spec     string // A change of the spec.
		observed func() int64
	}{
		"BackupBucket": {bucket, `"providerConfig":{"a":"b"}`, func() int64 { return bucket.Status.ObservedGeneration }},
		"BackupEntry":  {entry, `"bucketName":"other"`, func() int64 { return entry.Status.ObservedGeneration }},
		"ManagedSeed": {
			managed, `"gardenlet":{"deployment":{"replicaCount":7}}`, func() int64 { return managed.Status.ObservedGeneration },
		},
		"Gardenlet": {
			self, `"deployment":{"replicaCount":7}`, func() int64 { return self.Status.ObservedGeneration },
		},
		"Seed":    {seed, `"taints":[{"key":"t"}]`, func() int64 { return seed.Status.ObservedGeneration }},
		"Shoot":   {shoot, `"purpose":"testing"`, func() int64 { return shoot.Status.ObservedGeneration }},
		"Project": {g.projectOf(), `"purpose":"testing"`, nil},
	} {
		object := kind.object
		if project, ok := object.(*corev1beta1.Project); ok {
			kind.observed = func() int64 { return project.Status.ObservedGeneration }
		}
		generation := object.GetGeneration()
		both := `{"spec":{` + kind.spec + `},"status":{"observedGeneration":42},"metadata":{"labels":{"from":"status"}}}`
		if err := g.patch(object, both, "status"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if kind.observed() != 42 || object.GetGeneration() != generation || object.GetLabels()["from"] != "status" {
			t.Errorf("%s: the subresource left generation %d -> %d, observed %d, labels %v", name, generation,
				object.GetGeneration(), kind.observed(), object.GetLabels())
		}
		if err := g.patch(object, `{"status":{"observedGeneration":43}}`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if kind.observed() != 42 {
			t.Errorf("%s: the resource itself changed the status to %d", name, kind.observed())
		}
		got := object.DeepCopyObject().(client.Object)
		if err := g.Client.SubResource("status").Get(g.ctx, object, got); err != nil ||
			got.GetResourceVersion() != object.GetResourceVersion() {
			t.Errorf("%s: get the subresource: version %s, want %s, %v", name, got.GetResourceVersion(),
				object.GetResourceVersion(), err)
		}
	}
}
