package clouddaemon_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

func putObject(t testing.TB, client *s3.Client, bucket, key, content string) error {
	t.Helper()
	_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(bucket), Key: aws.String(key), Body: strings.NewReader(content),
	}, once)
	return err
}

func TestS3VerifiesSignatures(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	createBucket(t, c.Client, "backups")
	wrong, unknown := c.Config, c.Config
	wrong.SecretKey, unknown.AccessKey = "wrong", "ak-unknown"
	expectS3Code(t, putObject(t, sdk(t, wrong), "backups", "k", "x"), "SignatureDoesNotMatch")
	expectS3Code(t, putObject(t, sdk(t, unknown), "backups", "k", "x"), "InvalidAccessKeyId")
	anonymous := sdk(t, c.Config, func(o *s3.Options) { o.Credentials = aws.AnonymousCredentials{} })
	expectS3Code(t, putObject(t, anonymous, "backups", "k", "x"), "AccessDenied")

	alice := accountConfig(t, c, "alice")
	if _, err := sdk(t, alice).ListBuckets(t.Context(), &s3.ListBucketsInput{}, once); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.DeleteCredentials(t.Context(), alice.AccessKey); err != nil {
		t.Fatal(err)
	}
	_, err := sdk(t, alice).ListBuckets(t.Context(), &s3.ListBucketsInput{}, once)
	expectS3Code(t, err, "InvalidAccessKeyId")

	link, err := s3.NewPresignClient(sdk(t, c.Config)).PresignPutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("backups"), Key: aws.String("linked"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]int{link.URL: http.StatusOK, link.URL + "&prefix=x": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("by link"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := sdk(t, c.Config).Options().HTTPClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("PUT %s = %d, want %d", url, response.StatusCode, want)
		}
	}
}

func TestS3KeepsAccountsApart(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	alice, bob := sdk(t, accountConfig(t, c, "alice")), sdk(t, accountConfig(t, c, "bob"))
	bucket := aws.String("alices")
	if _, err := alice.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: bucket}, once); err != nil {
		t.Fatal(err)
	}
	if err := putObject(t, alice, "alices", "k", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bobs")}, once); err != nil {
		t.Fatal(err)
	}
	_, err := bob.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: bucket}, once)
	expectS3Code(t, err, "BucketAlreadyExists")
	for name, call := range map[string]func() error{
		"GetObject": func() error {
			_, err := bob.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: aws.String("k")}, once)
			return err
		},
		"PutObject": func() error { return putObject(t, bob, "alices", "k", "x") },
		"ListObjectsV2": func() error {
			_, err := bob.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: bucket}, once)
			return err
		},
		"DeleteObject": func() error {
			_, err := bob.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("k")}, once)
			return err
		},
		"DeleteBucket": func() error {
			_, err := bob.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: bucket}, once)
			return err
		},
		"CreateMultipartUpload": func() error {
			in := &s3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String("k")}
			_, err := bob.CreateMultipartUpload(t.Context(), in, once)
			return err
		},
		"CopyObject, of which the source is another's": func() error {
			_, err := bob.CopyObject(t.Context(), &s3.CopyObjectInput{
				Bucket: aws.String("bobs"), Key: aws.String("k"), CopySource: aws.String("alices/k"),
			}, once)
			return err
		},
		"CopyObject with the slash escaped": func() error {
			_, err := bob.CopyObject(t.Context(), &s3.CopyObjectInput{
				Bucket: aws.String("bobs"), Key: aws.String("k"), CopySource: aws.String("alices%2Fk"),
			}, once)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { expectS3Code(t, call(), "AccessDenied") })
	}
	listed, err := bob.ListBuckets(t.Context(), &s3.ListBucketsInput{}, once)
	if err != nil || len(listed.Buckets) != 1 {
		t.Errorf("bob lists %v, %v, want his own bucket", listed, err)
	}
	_, err = alice.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: bucket}, once)
	expectS3Code(t, err, "BucketNotEmpty")
}

func TestCredentialsOfABucketReachNothingElse(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	owner := accountConfig(t, c, "alice")
	alice, err := cloud.New(owner)
	if err != nil {
		t.Fatal(err)
	}
	createBucket(t, alice, "backups")
	createBucket(t, alice, "others")
	made, err := alice.CreateBucketCredentials(t.Context(), "backups")
	if err != nil {
		t.Fatal(err)
	}
	again, err := alice.CreateBucketCredentials(t.Context(), "backups")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made, again); diff != "" {
		t.Errorf("the credentials of the second request differ (-first +second):\n%s", diff)
	}
	_, err = c.As(t, "bob").CreateBucketCredentials(t.Context(), "backups")
	expectCode(t, err, cloud.CodeNotFound)

	cfg := owner
	cfg.AccessKey, cfg.SecretKey = made.AccessKey, made.SecretKey
	limited, err := cloud.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client := sdk(t, cfg)
	if err := putObject(t, client, "backups", "k", "x"); err != nil {
		t.Errorf("put into the bucket: %v", err)
	}
	if objects, err := limited.ListObjects(t.Context(), "backups", ""); err != nil || len(objects) != 1 {
		t.Errorf("ListObjects() = %v, %v, want one", objects, err)
	}
	expectS3Code(t, putObject(t, client, "others", "k", "x"), "AccessDenied")
	_, err = client.ListBuckets(t.Context(), &s3.ListBucketsInput{}, once)
	expectS3Code(t, err, "AccessDenied")
	_, err = client.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String("backups")}, once)
	expectS3Code(t, err, "AccessDenied")
	_, err = limited.ListObjects(t.Context(), "others", "")
	expectCode(t, err, cloud.CodeUnauthorized)
	_, err = limited.ListNetworks(t.Context(), cloud.Filter{})
	expectCode(t, err, cloud.CodeUnauthorized)
	expectCode(t, limited.DeleteBucket(t.Context(), "backups", true), cloud.CodeUnauthorized)

	// The bucket vanishes: its users get NoSuchBucket, not AccessDenied.
	if err := alice.DeleteBucket(t.Context(), "backups", true); err != nil {
		t.Fatal(err)
	}
	expectS3Code(t, putObject(t, client, "backups", "k", "x"), "NoSuchBucket")
	_, err = limited.GetBucket(t.Context(), "backups")
	expectCode(t, err, cloud.CodeNotFound)
	createBucket(t, alice, "backups")
	if err := putObject(t, client, "backups", "k", "x"); err != nil {
		t.Errorf("put into the bucket that was created again: %v", err)
	}
	if err := alice.DeleteBucketCredentials(t.Context(), "backups"); err != nil {
		t.Fatal(err)
	}
	expectS3Code(t, putObject(t, client, "backups", "k", "x"), "InvalidAccessKeyId")
}

func setFault(t testing.TB, c *cloudtest.Cloud, f cloud.Fault) {
	t.Helper()
	if _, err := c.Client.SetFault(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func TestS3Faults(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	createBucket(t, c.Client, "backups")
	client := sdk(t, c.Config)
	for fault, want := range map[cloud.FaultType]string{
		cloud.FaultUnauthorized: "AccessDenied",
		cloud.FaultQuota:        "QuotaExceeded",
		cloud.FaultRateLimit:    "SlowDown",
		cloud.FaultDepleted:     "InsufficientInstanceCapacity",
		cloud.FaultDependency:   "DependencyViolation",
		cloud.FaultBusy:         "RetryableError",
	} {
		t.Run(string(fault), func(t *testing.T) {
			setFault(t, c, cloud.Fault{Type: fault, Operation: "PutObject", Target: "backups", Count: 1})
			expectS3Code(t, putObject(t, client, "backups", string(fault), "x"), want)
			if err := putObject(t, client, "backups", string(fault), "x"); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
	}
	t.Run("lost", func(t *testing.T) {
		setFault(t, c, cloud.Fault{Type: cloud.FaultLost, Operation: "PutObject", Target: "lost", Count: 1})
		if err := putObject(t, client, "backups", "lost", "x"); err == nil {
			t.Error("the response was not lost")
		}
		if objects, err := c.Client.ListObjects(t.Context(), "backups", "lost"); err != nil || len(objects) != 1 {
			t.Errorf("objects = %v, %v, want the one whose response was lost", objects, err)
		}
	})
	t.Run("lost at the end of an upload in parts, which the client repeats", func(t *testing.T) {
		setFault(t, c, cloud.Fault{Type: cloud.FaultLost, Operation: "CompleteMultipartUpload", Count: 1})
		if err := uploadParts(t.Context(), client, "backups", "parts", "content"); err != nil {
			t.Error(err)
		}
	})
}

func TestS3SlowFault(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now()) // New certificates must be valid.
	c := cloudtest.Start(t, cloudtest.Options{Clock: clock})
	createBucket(t, c.Client, "backups")
	setFault(t, c, cloud.Fault{Type: cloud.FaultSlow, Operation: "UploadPart", DelaySeconds: 60, Count: 1})
	done := make(chan error, 1)
	go func() { done <- uploadParts(t.Context(), sdk(t, c.Config), "backups", "k", "content") }()
	c.Eventually(t, "the fault has struck", func() bool {
		faults, err := c.Client.ListFaults(t.Context())
		return err == nil && len(faults) == 0
	})
	for { // The request begins to wait at some time after this.
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			if clock.HasWaiters() {
				clock.Step(time.Minute)
			}
			runtime.Gosched()
		}
	}
}

func TestS3ListsInPages(t *testing.T) {
	const count, dirs = 2500, 5
	c := cloudtest.Start(t, cloudtest.Options{})
	createBucket(t, c.Client, "backups")
	createBucket(t, c.Client, "backups2") // Another bucket with the same prefix.
	client := sdk(t, c.Config)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < count; i += 8 {
				key := fmt.Sprintf("p/%d/%06d", i%dirs, i)
				if _, err := c.Client.PutObject(t.Context(), "backups", key, strings.NewReader("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := putObject(t, client, "backups2", "p/0/other", "x"); err != nil {
		t.Fatal(err)
	}
	var keys []string
	pages := 0
	for list := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{
		Bucket: aws.String("backups"), Prefix: aws.String("p/"),
	}); list.HasMorePages(); pages++ {
		page, err := list.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			if n := len(keys); n > 0 && *o.Key <= keys[n-1] {
				t.Fatalf("key %q comes after %q", *o.Key, keys[n-1])
			}
			keys = append(keys, *o.Key)
		}
	}
	if len(keys) != count || pages != 3 {
		t.Errorf("listed %d keys in %d pages, want %d in 3", len(keys), pages, count)
	}
	var found []string
	for list := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{
		Bucket: aws.String("backups"), Prefix: aws.String("p/"), Delimiter: aws.String("/"), MaxKeys: aws.Int32(2),
	}); list.HasMorePages(); {
		page, err := list.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.CommonPrefixes {
			found = append(found, *p.Prefix)
		}
	}
	if diff := cmp.Diff([]string{"p/0/", "p/1/", "p/2/", "p/3/", "p/4/"}, found); diff != "" {
		t.Errorf("common prefixes mismatch (-want +got):\n%s", diff)
	}
	for len(keys) > 0 {
		n := min(len(keys), 1000)
		var batch []types.ObjectIdentifier
		for _, k := range keys[:n] {
			batch = append(batch, types.ObjectIdentifier{Key: aws.String(k)})
		}
		keys = keys[n:]
		out, err := client.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{
			Bucket: aws.String("backups"), Delete: &types.Delete{Objects: batch},
		})
		if err != nil || len(out.Deleted) != n || len(out.Errors) != 0 {
			t.Fatalf("DeleteObjects() = %+v, %v, want %d deleted", out, err, n)
		}
	}
	for bucket, want := range map[string]int{"backups": 0, "backups2": 1} {
		if left, err := c.Client.ListObjects(t.Context(), bucket, ""); err != nil || len(left) != want {
			t.Errorf("bucket %s has %d objects, %v, want %d", bucket, len(left), err, want)
		}
	}
}

func TestS3ObjectsSurviveRestart(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	createBucket(t, c.Client, "backups")
	if err := uploadParts(t.Context(), sdk(t, c.Config), "backups", "parts", "content in parts"); err != nil {
		t.Fatal(err)
	}
	bucket, key := aws.String("backups"), aws.String("whole")
	_, err := sdk(t, c.Config).PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: bucket, Key: key, Body: strings.NewReader("content"), Metadata: map[string]string{"made-by": "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	begin := &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key}
	open, err := sdk(t, c.Config).CreateMultipartUpload(t.Context(), begin)
	if err != nil {
		t.Fatal(err)
	}
	old := sdk(t, c.Config)

	c.Restart(t)

	client := sdk(t, c.Config)
	if old.Options().BaseEndpoint == client.Options().BaseEndpoint {
		t.Error("the cloud was not restarted")
	}
	for key, want := range map[string]string{"parts": "content in parts", "whole": "content"} {
		got, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: bucket, Key: aws.String(key)})
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err != nil || string(data) != want {
			t.Errorf("%s = %q, %v, want %q", key, data, err, want)
		}
		if key == "whole" && (got.Metadata["made-by"] != "test" || aws.ToString(got.ChecksumCRC32) == "") {
			t.Errorf("metadata %v, checksum %v: want those that were sent", got.Metadata, got.ChecksumCRC32)
		}
	}
	_, err = client.UploadPart(t.Context(), &s3.UploadPartInput{
		Bucket: bucket, Key: key, UploadId: open.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("x"),
	})
	expectS3Code(t, err, "NoSuchUpload")
	var gone *types.NoSuchUpload
	abort := &s3.AbortMultipartUploadInput{Bucket: bucket, Key: key, UploadId: open.UploadId}
	_, err = client.AbortMultipartUpload(t.Context(), abort)
	if !errors.As(err, &gone) {
		t.Errorf("AbortMultipartUpload() = %v, want a missing upload", err)
	}
}
