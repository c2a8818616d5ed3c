package backup

import (
	"context"
	"fmt"
	"strings"
	"sync"
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

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/errorcode"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/provider/credentials"
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
			Region: "local", BucketName: "bucket", SecretRef: corev1.SecretReference{Namespace: "garden", Name: "entry"},
		},
	}
}

// landscape is a cluster and a cloud that has the bucket.
type landscape struct {
	client.Client
	cloud  *cloudtest.Cloud
	entry  *EntryActuator
	bucket *BucketActuator
}

func start(t *testing.T, objects ...client.Object) *landscape {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	c := cloudtest.Start(t, cloudtest.Options{})
	if _, err := c.Client.CreateBucket(t.Context(), "bucket"); err != nil {
		t.Fatal(err)
	}
	k := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, account(c.Config))...).Build()
	clouds := &credentials.Clients{}
	api := func(ctx context.Context, c client.Reader, ref corev1.SecretReference) (Buckets, error) {
		return clouds.For(ctx, c, ref)
	}
	return &landscape{
		Client: k, cloud: c, entry: &EntryActuator{Client: k, Cloud: api}, bucket: &BucketActuator{Client: k, Cloud: api},
	}
}

func (l *landscape) fault(t *testing.T, f cloud.Fault) {
	t.Helper()
	if _, err := l.cloud.Client.SetFault(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// account is the Secret with the credentials of the account.
func account(cfg cloud.Config) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "entry"},
		Data: map[string][]byte{
			credentials.KeyEndpoint: []byte(cfg.Endpoint), credentials.KeyCA: []byte(cfg.CA),
			credentials.KeyAccessKey: []byte(cfg.AccessKey), credentials.KeySecretKey: []byte(cfg.SecretKey),
		},
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestSecretIsOnlyTheOwners(t *testing.T) {
	l := start(t, namespace("shoot--dev--a"))
	a, k := l.entry, l.Client
	old, current := entry("shoot--dev--a--1111"), entry("shoot--dev--a--2222")
	for _, e := range []*extensionsv1alpha1.BackupEntry{old, current} { // The second entry takes the Secret over.
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
		t.Fatalf("the Secret was deleted with an entry that does not own it: %v", err)
	}
	cfg := l.cloud.Config
	want := map[string][]byte{
		"accessKeyID": []byte(cfg.AccessKey), "secretAccessKey": []byte(cfg.SecretKey), "endpoint": []byte(cfg.Endpoint),
		"region": []byte("local"), "s3ForcePathStyle": []byte("true"), "trustedCaCert": []byte(cfg.CA),
		"bucketName": []byte("bucket"),
	}
	if diff := cmp.Diff(want, secret.Data); diff != "" {
		t.Errorf("data mismatch (-want +got):\n%s", diff)
	}
	if _, err := a.Migrate(t.Context(), current, nil); err != nil {
		t.Fatal(err)
	}
	if err := k.Get(t.Context(), key, secret); err != nil {
		t.Errorf("migrate deleted the Secret: %v", err)
	}
	if _, err := a.Delete(t.Context(), current, nil); err != nil {
		t.Fatal(err)
	}
	if err := k.Get(t.Context(), key, secret); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret is still there (%v)", err)
	}
}

func TestNothingIsWrittenIntoAMissingNamespace(t *testing.T) {
	l := start(t)
	e := entry("shoot--dev--a--1111")
	if _, err := l.entry.Reconcile(t.Context(), e, nil); err != nil {
		t.Errorf("Reconcile() without namespace: %v", err)
	}
	secrets := &corev1.SecretList{}
	if err := l.List(t.Context(), secrets, client.InNamespace("shoot--dev--a")); err != nil || len(secrets.Items) != 0 {
		t.Errorf("secrets = %v, %v, want none", secrets.Items, err)
	}
	// The namespace is created, and the entry is requested again: after a migration by a restore.
	if err := l.Create(t.Context(), namespace("shoot--dev--a")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.entry.Restore(t.Context(), e, nil); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "shoot--dev--a", Name: "etcd-backup"}
	if err := l.Get(t.Context(), key, &corev1.Secret{}); err != nil {
		t.Error(err)
	}
}

func TestCredentialsThatDoNotWorkReplaceNone(t *testing.T) {
	l := start(t, namespace("shoot--dev--a"))
	e := entry("shoot--dev--a--1111")
	if _, err := l.entry.Reconcile(t.Context(), e, nil); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "shoot--dev--a", Name: "etcd-backup"}
	before, after := &corev1.Secret{}, &corev1.Secret{}
	if err := l.Get(t.Context(), key, before); err != nil {
		t.Fatal(err)
	}
	wrong := l.cloud.Config
	wrong.SecretKey = "wrong"
	if err := l.Update(t.Context(), account(wrong)); err != nil {
		t.Fatal(err)
	}
	_, err := l.entry.Reconcile(t.Context(), e, nil)
	expectCodes(t, err, corev1beta1.ErrorInfraUnauthenticated)
	if err := l.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Data, after.Data); diff != "" {
		t.Errorf("data changed (-before +after):\n%s", diff)
	}
	if err := l.Update(t.Context(), account(l.cloud.Config)); err != nil {
		t.Fatal(err)
	}
	l.fault(t, cloud.Fault{Type: cloud.FaultUnauthorized, Operation: "GetBucket", Count: 1})
	_, err = l.entry.Reconcile(t.Context(), e, nil)
	expectCodes(t, err, corev1beta1.ErrorInfraUnauthorized)
}

func expectCodes(t *testing.T, err error, want ...corev1beta1.ErrorCode) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with codes %q", want)
	}
	if diff := cmp.Diff(want, errorcode.Of(err)); diff != "" {
		t.Errorf("codes of %v mismatch (-want +got):\n%s", err, diff)
	}
}

func TestDeletionRemovesOnlyTheEntrysObjects(t *testing.T) {
	l := start(t)
	a, c := l.entry, l.cloud
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

func TestDeletionTakesManyObjectsInBatches(t *testing.T) {
	const count = cloud.MaxDeleteObjects + 200
	l := start(t)
	e := entry("shoot--dev--a--1111")
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < count; i += 8 {
				key := fmt.Sprintf("%s/%d", e.Name, i)
				if _, err := l.cloud.Client.PutObject(t.Context(), "bucket", key, strings.NewReader("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// The response to the first batch is lost, but its deletions are done.
	l.fault(t, cloud.Fault{Type: cloud.FaultLost, Operation: "DeleteObjects", Count: 1})
	if _, err := l.entry.Delete(t.Context(), e, nil); err == nil {
		t.Error("Delete() did not report the lost response")
	}
	if left := len(keys(t, l.cloud)); left != count-cloud.MaxDeleteObjects {
		t.Errorf("%d objects are left, want %d", left, count-cloud.MaxDeleteObjects)
	}
	if result, err := l.entry.Delete(t.Context(), e, nil); err != nil || !result.IsDone() {
		t.Errorf("Delete() = %v, %v, want it done", result, err)
	}
	if left := keys(t, l.cloud); len(left) != 0 {
		t.Errorf("%q are left", left)
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
