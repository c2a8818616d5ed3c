package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
)

// userAgent names this program in the access logs of the store.
const userAgent = "hortus-etcd-backup"

// defaultRegion is the region that S3 servers other than AWS expect if they have no regions.
const defaultRegion = "us-east-1"

// openBucket opens the bucket without a request to the server.
func openBucket(ctx context.Context, c credentials, p Provider) (*blob.Bucket, error) {
	switch p {
	case S3:
		return openS3(ctx, c)
	case GCS:
		return openGCS(ctx, c)
	case Azure:
		return openAzure(ctx, c)
	}
	return fileblob.OpenBucket(c.folder(), &fileblob.Options{
		NoTempDir: true, // A rename is atomic only within a file system.
		Metadata:  fileblob.MetadataDontWrite,
	})
}

func openS3(ctx context.Context, c credentials) (*blob.Bucket, error) {
	pathStyle, err := c.flag(keyForcePathStyle)
	if err != nil {
		return nil, err
	}
	web, err := httpClient(c)
	if err != nil {
		return nil, err
	}
	options := s3.Options{
		Region:      c.values[keyRegion],
		Credentials: staticCredentials(c),
		HTTPClient:  web,
	}
	bucketOptions := &s3blob.Options{}
	if endpoint := c.values[keyEndpoint]; endpoint != "" {
		options.BaseEndpoint = aws.String(withScheme(endpoint))
		options.UsePathStyle = pathStyle
		// Servers other than AWS often refuse the checksums that the SDK adds since 2025. Contents carry their own.
		options.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		options.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		bucketOptions.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		if options.Region == "" {
			options.Region = defaultRegion
		}
	}
	if options.Region == "" {
		return nil, fmt.Errorf("%s: required value without %s", filepath.Join(c.dir, keyRegion), keyEndpoint)
	}
	return s3blob.OpenBucket(ctx, s3.New(options), c.values[keyBucket], bucketOptions)
}

func staticCredentials(c credentials) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: c.values[keyAccessKeyID], SecretAccessKey: c.values[keySecretAccessKey]}, nil
	})
}

// scopeReadWrite lets a token list, read, write and delete objects.
const scopeReadWrite = "https://www.googleapis.com/auth/devstorage.read_write"

func openGCS(ctx context.Context, c credentials) (*blob.Bucket, error) {
	// Only keys of service accounts: other kinds of this file may name programs to run and addresses to call.
	account, err := google.JWTConfigFromJSON([]byte(c.values[keyServiceAccount]), scopeReadWrite)
	if err != nil {
		return nil, fmt.Errorf("%s: must be the key of a service account", filepath.Join(c.dir, keyServiceAccount))
	}
	web, err := httpClient(c)
	if err != nil {
		return nil, err
	}
	client, err := gcp.NewHTTPClient(web.Transport, account.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, web)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(c.dir, keyServiceAccount), err)
	}
	options := &gcsblob.Options{}
	if endpoint := c.values[keyEndpoint]; endpoint != "" {
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(withScheme(endpoint)))
	}
	return gcsblob.OpenBucket(ctx, client, c.values[keyBucket], options)
}

func openAzure(ctx context.Context, c credentials) (*blob.Bucket, error) {
	key, err := container.NewSharedKeyCredential(c.values[keyStorageAccount], c.values[keyStorageKey])
	if err != nil {
		return nil, fmt.Errorf("%s: must be base64", filepath.Join(c.dir, keyStorageKey))
	}
	domain := c.values[keyDomain]
	if domain == "" {
		domain = "blob.core.windows.net"
	}
	service := fmt.Sprintf("https://%s.%s", c.values[keyStorageAccount], domain)
	if endpoint := c.values[keyEndpoint]; endpoint != "" {
		service = withScheme(endpoint)
	}
	web, err := httpClient(c)
	if err != nil {
		return nil, err
	}
	client, err := container.NewClientWithSharedKeyCredential(strings.TrimSuffix(service, "/")+"/"+c.values[keyBucket],
		key,
		&container.ClientOptions{ClientOptions: azcore.ClientOptions{
			Transport: web,
			Telemetry: policy.TelemetryOptions{ApplicationID: userAgent},
			Retry:     policy.RetryOptions{MaxRetries: 2, RetryDelay: time.Second},
		}})
	if err != nil {
		return nil, fmt.Errorf("%s: invalid value: %w", filepath.Join(c.dir, keyEndpoint), err)
	}
	return azureblob.OpenBucket(ctx, client, nil)
}

// httpClient trusts the system's authorities and those of the credentials. Few connections stay open: there is one
// upload a minute.
func httpClient(c credentials) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 2, 2
	transport.IdleConnTimeout = 90 * time.Second
	transport.ReadBufferSize, transport.WriteBufferSize = 4<<10, 32<<10
	if ca := c.values[keyTrustedCA]; ca != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			return nil, fmt.Errorf("%s: no certificate found (PEM)", filepath.Join(c.dir, keyTrustedCA))
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	return &http.Client{Transport: transport}, nil
}

func withScheme(endpoint string) string {
	if strings.Contains(endpoint, "://") {
		return endpoint
	}
	return "https://" + endpoint
}
