package backup

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/local/cloud"
)

func bucket(name string) *extensionsv1alpha1.BackupBucket {
	return &extensionsv1alpha1.BackupBucket{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{extensionsv1alpha1.AnnotationGeneratedSecretNamespace: "generated"},
		},
		Spec: extensionsv1alpha1.BackupBucketSpec{
			Region: "local", SecretRef: corev1.SecretReference{Namespace: "garden", Name: "entry"},
		},
	}
}

// put writes an object as users of a Secret do.
func put(t *testing.T, data map[string][]byte, bucket string) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data["trustedCaCert"]) {
		t.Fatal("trustedCaCert holds no certificate")
	}
	id, secret := string(data["accessKeyID"]), string(data["secretAccessKey"])
	api := s3.New(s3.Options{
		Region: string(data["region"]), BaseEndpoint: aws.String(string(data["endpoint"])),
		UsePathStyle: string(data["s3ForcePathStyle"]) == "true",
		Credentials:  awscredentials.NewStaticCredentialsProvider(id, secret, ""),
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		}),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
	})
	_, err := api.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(bucket), Key: aws.String("key"), Body: strings.NewReader("content"),
	})
	return err
}

func TestBucketHasCredentialsOfItsOwn(t *testing.T) {
	l := start(t, namespace("generated"), namespace("shoot--dev--a"))
	b := bucket("backups")
	key := client.ObjectKey{Namespace: "generated", Name: "local-bucket-backups"}
	for range 2 { // The second call finds the existing objects.
		if _, err := l.bucket.Reconcile(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
	}
	if ref := b.Status.GeneratedSecretRef; ref == nil || ref.Namespace != key.Namespace || ref.Name != key.Name {
		t.Fatalf("generatedSecretRef = %v, want %s", ref, key)
	}
	secret := &corev1.Secret{}
	if err := l.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.Finalizers) != 1 || secret.Finalizers[0] != "extensions.gardener.cloud/backupbucket" {
		t.Errorf("finalizers = %q, want that of BackupBuckets", secret.Finalizers)
	}
	if err := put(t, secret.Data, "backups"); err != nil {
		t.Errorf("use the credentials: %v", err)
	}
	if err := put(t, secret.Data, "bucket"); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("use the credentials for another bucket: %v, want AccessDenied", err)
	}
	made, err := l.cloud.Client.ListCredentials(t.Context())
	if err != nil || len(made) != 2 {
		t.Errorf("credentials = %v, %v, want the administrator's and the bucket's", made, err)
	}

	// An entry gets these credentials, uses them, and passes them on.
	e := entry("shoot--dev--a--1111")
	e.Spec.BucketName, e.Spec.SecretRef = "backups", *b.Status.GeneratedSecretRef
	if _, err := l.entry.Reconcile(t.Context(), e, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Get(t.Context(), client.ObjectKey{Namespace: "shoot--dev--a", Name: "etcd-backup"}, secret); err != nil {
		t.Fatal(err)
	}
	if err := put(t, secret.Data, string(secret.Data["bucketName"])); err != nil {
		t.Errorf("use the credentials of the entry: %v", err)
	}
	if result, err := l.entry.Delete(t.Context(), e, nil); err != nil || !result.IsDone() {
		t.Errorf("delete the entry: %v, %v", result, err)
	}

	for range 2 { // The second call finds nothing left.
		if _, err := l.bucket.Delete(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Get(t.Context(), key, secret); !apierrors.IsNotFound(err) {
		t.Errorf("generated secret: %v, want it gone", err)
	}
	if made, err = l.cloud.Client.ListCredentials(t.Context()); err != nil || len(made) != 1 {
		t.Errorf("credentials = %v, %v, want those of the bucket revoked", made, err)
	}
}

func TestBucketThatHasVanishedIsNotMadeAgain(t *testing.T) {
	l := start(t)
	b := bucket("backups")
	if _, err := l.bucket.Reconcile(t.Context(), b, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.cloud.Client.DeleteBucket(t.Context(), "backups", true); err != nil {
		t.Fatal(err)
	}
	_, err := l.bucket.Reconcile(t.Context(), b, nil)
	if err == nil || !strings.Contains(err.Error(), "vanished") {
		t.Errorf("Reconcile() = %v, want an error about the missing bucket", err)
	}
	if _, err := l.cloud.Client.GetBucket(t.Context(), "backups"); !cloud.IsNotFound(err) {
		t.Errorf("GetBucket() = %v, want no bucket", err)
	}
	if _, err := l.cloud.Client.CreateBucket(t.Context(), "backups"); err != nil { // The operator accepts the loss.
		t.Fatal(err)
	}
	if _, err := l.bucket.Reconcile(t.Context(), b, nil); err != nil {
		t.Errorf("with a bucket created by hand: %v", err)
	}
}

func TestBucketReportsWhatIsWrongWithCredentials(t *testing.T) {
	l := start(t)
	b := bucket("backups")
	wrong := l.cloud.Config
	wrong.SecretKey = "wrong"
	if err := l.Update(t.Context(), account(wrong)); err != nil {
		t.Fatal(err)
	}
	_, err := l.bucket.Reconcile(t.Context(), b, nil)
	expectCodes(t, err, corev1beta1.ErrorInfraUnauthenticated)
	if err := l.Update(t.Context(), account(l.cloud.Config)); err != nil {
		t.Fatal(err)
	}
	for _, operation := range []string{"CreateBucket", "CreateBucketCredentials"} {
		l.fault(t, cloud.Fault{Type: cloud.FaultUnauthorized, Operation: operation, Count: 1})
		_, err := l.bucket.Reconcile(t.Context(), b, nil)
		expectCodes(t, err, corev1beta1.ErrorInfraUnauthorized)
	}
	if _, err := l.bucket.Reconcile(t.Context(), b, nil); err != nil {
		t.Error(err)
	}
}
