package clouddaemon_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

// sdk returns the usual client of S3, for these credentials.
func sdk(t testing.TB, cfg cloud.Config, options ...func(*s3.Options)) *s3.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(cfg.CA))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	t.Cleanup(transport.CloseIdleConnections)
	return s3.New(s3.Options{
		Region: "local", BaseEndpoint: aws.String(cfg.Endpoint), UsePathStyle: true,
		HTTPClient:  &http.Client{Transport: transport},
		Credentials: awscredentials.NewStaticCredentialsProvider(cfg.AccessKey, cfg.SecretKey, ""),
		// Settings of a configuration that is loaded as usual.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	}, options...)
}

func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// openBucket returns a bucket with the driver that is used in production.
func openBucket(t testing.TB, client *s3.Client, name string) *blob.Bucket {
	t.Helper()
	b, err := s3blob.OpenBucket(t.Context(), client, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// accountConfig returns new credentials of an account.
func accountConfig(t testing.TB, c *cloudtest.Cloud, account string) cloud.Config {
	t.Helper()
	made, err := c.Client.CreateCredentials(t.Context(), account, false)
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.Config
	cfg.AccessKey, cfg.SecretKey = made.AccessKey, made.SecretKey
	return cfg
}

func createBucket(t testing.TB, c *cloud.Client, name string) {
	t.Helper()
	if _, err := c.CreateBucket(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// expectS3Code checks the code of an S3 error.
func expectS3Code(t testing.TB, err error, want string) {
	t.Helper()
	var got smithy.APIError
	if !errors.As(err, &got) || got.ErrorCode() != want {
		t.Errorf("error = %v, want code %q", err, want)
	}
}

func TestS3WorksWithTheDriverOfProduction(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	createBucket(t, c.Client, "backups")
	target, err := url.Parse(c.Config.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(c.Config.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	// Without TLS clients sign the content and send its checksum in a header; the signature has the name of the host.
	plain := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}})
	t.Cleanup(plain.Close)
	overHTTP := c.Config
	overHTTP.Endpoint = plain.URL

	for name, cfg := range map[string]cloud.Config{"https": c.Config, "http": overHTTP} {
		t.Run(name, func(t *testing.T) {
			b := openBucket(t, sdk(t, cfg), "backups")
			ctx := t.Context()
			content := []byte(strings.Repeat("content of "+name, 1000))
			key := name + "/a b+c/ä//%2F~*'()"
			writeOptions := &blob.WriterOptions{ContentType: "text/x-test", Metadata: map[string]string{"made-by": "test"}}
			if err := b.WriteAll(ctx, key, content, writeOptions); err != nil {
				t.Fatal(err)
			}
			got, err := b.ReadAll(ctx, key)
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("ReadAll() = %d bytes, %v, want %d", len(got), err, len(content))
			}
			attributes, err := b.Attributes(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			if attributes.ContentType != "text/x-test" || attributes.Metadata["made-by"] != "test" ||
				attributes.Size != int64(len(content)) {
				t.Errorf("Attributes() = %+v, want the written ones", attributes)
			}
			part, err := b.NewRangeReader(ctx, key, 5, 7, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer part.Close()
			if data, err := io.ReadAll(part); err != nil || !bytes.Equal(data, content[5:12]) {
				t.Errorf("range = %q, %v, want %q", data, err, content[5:12])
			}
			if err := b.WriteAll(ctx, name+"/empty", nil, nil); err != nil {
				t.Error(err)
			}
			if err := b.Copy(ctx, name+"/copy", key, nil); err != nil {
				t.Error(err)
			}
			var listed []string
			for list := b.List(&blob.ListOptions{Prefix: name + "/"}); ; {
				o, err := list.Next(ctx)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				listed = append(listed, fmt.Sprint(o.Key, " ", o.Size))
			}
			want := []string{fmt.Sprint(key, " ", len(content)), fmt.Sprint(name, "/copy ", len(content)), name + "/empty 0"}
			if diff := cmp.Diff(want, listed); diff != "" {
				t.Errorf("List() mismatch (-want +got):\n%s", diff)
			}
			viaAPI, err := c.Client.GetObject(ctx, "backups", key)
			if err != nil {
				t.Fatal(err)
			}
			defer viaAPI.Close()
			if data, err := io.ReadAll(viaAPI); err != nil || !bytes.Equal(data, content) {
				t.Errorf("the API has %d bytes of it, %v", len(data), err)
			}
			if err := b.Delete(ctx, key); err != nil {
				t.Error(err)
			}
			if _, err := b.ReadAll(ctx, key); gcerrors.Code(err) != gcerrors.NotFound {
				t.Errorf("a deleted object: %v, want it not found", err)
			}
		})
	}
}

func TestS3TakesAllChecksums(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	createBucket(t, c.Client, "backups")
	client := sdk(t, c.Config)
	for _, algorithm := range []types.ChecksumAlgorithm{
		types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmCrc64nvme,
		types.ChecksumAlgorithmSha256,
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			key := aws.String(string(algorithm))
			content := strings.Repeat("content ", 20_000)
			_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String("backups"), Key: key, ChecksumAlgorithm: algorithm, Body: strings.NewReader(content),
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("backups"), Key: key})
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			if data, err := io.ReadAll(got.Body); err != nil || string(data) != content {
				t.Errorf("content = %d bytes, %v", len(data), err)
			}
			sums := []*string{got.ChecksumCRC32, got.ChecksumCRC32C, got.ChecksumCRC64NVME, got.ChecksumSHA256}
			if !slices.ContainsFunc(sums, func(s *string) bool { return aws.ToString(s) != "" }) {
				t.Error("the response has no checksum for the client")
			}
		})
	}
	wrong := base64.StdEncoding.EncodeToString([]byte{1, 2, 3, 4})
	_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("backups"), Key: aws.String("wrong"), ChecksumCRC32: &wrong, Body: strings.NewReader("content"),
	}, once)
	expectS3Code(t, err, "BadDigest")
	if objects, err := c.Client.ListObjects(t.Context(), "backups", "wrong"); err != nil || len(objects) != 0 {
		t.Errorf("objects = %v, %v, want none with a wrong checksum", objects, err)
	}
}

// pattern is content of any size that is generated while it is read. It measures the heap meanwhile.
type pattern struct {
	random *rand.ChaCha8
	left   int64
	sum    io.Writer
	peak   *uint64
	reads  int
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	_, _ = p.random.Read(b[:n])
	_, _ = p.sum.Write(b[:n])
	p.left -= int64(n)
	if p.reads++; p.reads%100 == 0 {
		measure(p.peak)
	}
	return n, nil
}

func measure(peak *uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*peak = max(*peak, m.HeapInuse)
}

func TestS3StreamsLargeObjects(t *testing.T) {
	const size, partSize = 100 << 20, 5 << 20
	c := cloudtest.Start(t, cloudtest.Options{})
	createBucket(t, c.Client, "backups")
	b := openBucket(t, sdk(t, c.Config), "backups")
	runtime.GC()
	var before, peak uint64
	measure(&before)

	sum := sha256.New()
	begun := time.Now()
	in := &pattern{random: rand.NewChaCha8([32]byte{1}), left: size, sum: sum, peak: &peak}
	options := &blob.WriterOptions{ContentType: "x/y", BufferSize: partSize, MaxConcurrency: 2}
	if err := b.Upload(t.Context(), "large", in, options); err != nil {
		t.Fatal(err)
	}
	uploaded := time.Since(begun)

	begun = time.Now()
	r, err := b.NewReader(t.Context(), "large", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := sha256.New()
	if n, err := io.Copy(got, r); err != nil || n != size {
		t.Fatalf("read %d bytes, %v, want %d", n, err, size)
	}
	if !bytes.Equal(got.Sum(nil), sum.Sum(nil)) {
		t.Error("the content differs from the upload")
	}
	measure(&peak)
	t.Logf("upload %.0f MB/s, download %.0f MB/s, heap grew by %d MiB", size/1e6/uploaded.Seconds(),
		size/1e6/time.Since(begun).Seconds(), (peak-before)>>20)
	if grown := int64(peak) - int64(before); grown > size/2 {
		t.Errorf("the heap grew by %d MiB for an object of %d MiB: it is not streamed", grown>>20, size>>20)
	}
	objects, err := c.Client.ListObjects(t.Context(), "backups", "")
	if err != nil || len(objects) != 1 || objects[0].SHA256 != fmt.Sprintf("%x", sum.Sum(nil)) {
		t.Errorf("ListObjects() = %+v, %v, want one with SHA-256 %x", objects, err, sum.Sum(nil))
	}
	head, err := sdk(t, c.Config).HeadObject(t.Context(), &s3.HeadObjectInput{
		Bucket: aws.String("backups"), Key: aws.String("large"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if tag := aws.ToString(head.ETag); !strings.HasSuffix(tag, `-20"`) {
		t.Errorf("ETag = %s, want one of 20 parts", tag)
	}
	_, err = sdk(t, c.Config).GetObject(t.Context(), &s3.GetObjectInput{
		Bucket: aws.String("backups"), Key: aws.String("large"), IfNoneMatch: head.ETag,
	}, once)
	expectS3Code(t, err, "NotModified")
}

// uploadParts uploads an object in two parts, with the header If-None-Match: * at the end.
func uploadParts(ctx context.Context, client *s3.Client, bucket, key, content string) error {
	name, object := aws.String(bucket), aws.String(key)
	u, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: name, Key: object})
	if err != nil {
		return err
	}
	var parts []types.CompletedPart
	for i, piece := range []string{content[:len(content)/2], content[len(content)/2:]} {
		number := aws.Int32(int32(i + 1))
		p, err := client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: name, Key: object, UploadId: u.UploadId, PartNumber: number, Body: strings.NewReader(piece),
		})
		if err != nil {
			return err
		}
		parts = append(parts, types.CompletedPart{PartNumber: number, ETag: p.ETag})
	}
	_, err = client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: name, Key: object, UploadId: u.UploadId, IfNoneMatch: aws.String("*"),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

func TestS3CreatesOnlyOnce(t *testing.T) {
	const racers = 20
	c := cloudtest.Start(t, cloudtest.Options{})
	createBucket(t, c.Client, "backups")
	client := sdk(t, c.Config)
	for name, write := range map[string]func(ctx context.Context, key, content string) error{
		"whole": func(ctx context.Context, key, content string) error {
			_, err := client.PutObject(ctx, &s3.PutObjectInput{
				Bucket: aws.String("backups"), Key: aws.String(key), Body: strings.NewReader(content), IfNoneMatch: aws.String("*"),
			})
			return err
		},
		"parts": func(ctx context.Context, key, content string) error {
			return uploadParts(ctx, client, "backups", key, content)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			results := make([]error, racers)
			content := func(i int) string { return strings.Repeat(fmt.Sprint("by ", i), 10_000) }
			for i := range racers {
				wg.Go(func() { results[i] = write(t.Context(), name, content(i)) })
			}
			wg.Wait()
			winner := -1
			for i, err := range results {
				if err != nil {
					expectS3Code(t, err, "PreconditionFailed")
					continue
				}
				if winner >= 0 {
					t.Errorf("both %d and %d created the object", winner, i)
				}
				winner = i
			}
			if winner < 0 {
				t.Fatal("nobody created the object")
			}
			got, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("backups"), Key: aws.String(name)})
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			if data, err := io.ReadAll(got.Body); err != nil || string(data) != content(winner) {
				t.Errorf("the object is not the winner's: %d bytes, %v", len(data), err)
			}
		})
	}
}

func TestS3ReplacesWhatItExpects(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	createBucket(t, c.Client, "backups")
	client := sdk(t, c.Config)
	if err := uploadParts(t.Context(), client, "backups", "lease", "first"); err != nil {
		t.Fatal(err)
	}
	head, err := client.HeadObject(t.Context(), &s3.HeadObjectInput{
		Bucket: aws.String("backups"), Key: aws.String("lease"),
	})
	if err != nil {
		t.Fatal(err)
	}
	replace := func(content string) error {
		_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: aws.String("backups"), Key: aws.String("lease"), Body: strings.NewReader(content), IfMatch: head.ETag,
		})
		return err
	}
	if err := replace("second"); err != nil {
		t.Errorf("replace an existing object: %v", err)
	}
	expectS3Code(t, replace("third"), "PreconditionFailed")
}
