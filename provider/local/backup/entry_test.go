package backup

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/cloud/cloudtest"
)

func TestSecretKey(t *testing.T) {
	for entry, want := range map[string]string{
		"shoot--dev--a--1234":        "shoot--dev--a/etcd-backup",
		"source-shoot--dev--a--1234": "shoot--dev--a/source-etcd-backup",
		"nonsense":                   "",
		"--1234":                     "",
	} {
		key, err := SecretKey(entry)
		got := key.String()
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("SecretKey(%q) = %q, want %q", entry, got, want)
		}
	}
}

func entry(name string) *extensionsv1alpha1.BackupEntry {
	return &extensionsv1alpha1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: extensionsv1alpha1.BackupEntrySpec{
			BucketName: "bucket", SecretRef: corev1.SecretReference{Namespace: "garden", Name: "entry"},
		},
	}
}

// start returns an actuator, its cluster and its cloud, in which the bucket exists.
func start(t *testing.T, objects ...client.Object) (*EntryActuator, client.Client, *cloudtest.Cloud) {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	c := cloudtest.Start(t, cloudtest.Options{})
	if _, err := c.Client.CreateBucket(t.Context(), "bucket"); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "entry"}, Data: map[string][]byte{"accessKey": []byte("x")}})
	k := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &EntryActuator{Client: k, Cloud: func(context.Context, client.Reader, corev1.SecretReference) (Buckets, error) { return c.Client, nil }}, k, c
}

func TestSecretIsOnlyTheOwners(t *testing.T) {
	a, k, _ := start(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shoot--dev--a"}})
	old, current := entry("shoot--dev--a--1111"), entry("shoot--dev--a--2222")
	for _, e := range []*extensionsv1alpha1.BackupEntry{old, current} { // The second one takes the Secret over.
		if _, err := a.Reconcile(t.Context(), e, nil); err != nil {
			t.Fatal(err)
		}
	}
	key := client.ObjectKey{Namespace: "shoot--dev--a", Name: "etcd-backup"}
	secret := &corev1.Secret{}
	if _, err := a.Delete(t.Context(), old, nil); err != nil {
		t.Fatal(err)
	}
	if err := k.Get(t.Context(), key, secret); err != nil {
		t.Fatalf("the Secret is gone with an entry that does not own it: %v", err)
	}
	if diff := cmp.Diff(map[string][]byte{"accessKey": []byte("x"), "bucketName": []byte("bucket")}, secret.Data); diff != "" {
		t.Errorf("data mismatch (-want +got):\n%s", diff)
	}
	if _, err := a.Migrate(t.Context(), current, nil); err != nil {
		t.Fatal(err)
	}
	if err := k.Get(t.Context(), key, secret); err != nil {
		t.Errorf("migrate took the Secret away: %v", err)
	}
	if _, err := a.Delete(t.Context(), current, nil); err != nil {
		t.Fatal(err)
	}
	if err := k.Get(t.Context(), key, secret); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret is still there (%v)", err)
	}
}

func TestNothingIsWrittenIntoAMissingNamespace(t *testing.T) {
	a, _, _ := start(t)
	if _, err := a.Reconcile(t.Context(), entry("shoot--dev--a--1111"), nil); err != nil {
		t.Errorf("Reconcile() without namespace: %v", err)
	}
}

func TestDeletionRemovesOnlyTheEntrysObjects(t *testing.T) {
	a, _, c := start(t)
	mine, other := entry("shoot--dev--a--1111"), "shoot--dev--a--11112/full"
	for _, key := range []string{mine.Name + "/full", mine.Name + "/delta/1", other} {
		if _, err := c.Client.PutObject(t.Context(), "bucket", key, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Migrate(t.Context(), mine, nil); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, c); len(got) != 3 {
		t.Errorf("objects after migrate are %q, want all", got)
	}
	if _, err := a.Delete(t.Context(), mine, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{other}, keys(t, c)); diff != "" {
		t.Errorf("objects mismatch (-want +got):\n%s", diff)
	}
}

func keys(t *testing.T, c *cloudtest.Cloud) []string {
	t.Helper()
	found, err := c.Client.ListObjects(t.Context(), "bucket", "")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range found {
		out = append(out, o.Key)
	}
	return out
}
