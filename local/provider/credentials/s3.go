package credentials

import (
	"hortus.dev/hortus/local/cloud"
)

// Keys of a Secret with credentials for a bucket, as users of S3 expect them; KeyEndpoint is another one. The cloud
// serves S3 where it serves its API.
const (
	KeyS3AccessKey = "accessKeyID"      // Public part of the credentials.
	KeyS3SecretKey = "secretAccessKey"  // Secret part of the credentials.
	KeyS3Region    = "region"           // Name that requests are signed with.
	KeyS3PathStyle = "s3ForcePathStyle" // "true": buckets are no host names.
	KeyS3CA        = "trustedCaCert"    // PEM encoded certificate authority of the endpoint; may be missing.
)

// IsS3 reports whether the data of a Secret has the keys for S3.
func IsS3(data map[string][]byte) bool {
	return len(data[KeyAccessKey]) == 0 && len(data[KeyS3AccessKey]) > 0
}

// S3Data returns the data of a Secret for users of S3.
func S3Data(cfg cloud.Config, region string) map[string][]byte {
	data := map[string][]byte{
		KeyS3AccessKey: []byte(cfg.AccessKey), KeyS3SecretKey: []byte(cfg.SecretKey), KeyEndpoint: []byte(cfg.Endpoint),
		KeyS3Region: []byte(region), KeyS3PathStyle: []byte("true"),
	}
	if cfg.CA != "" {
		data[KeyS3CA] = []byte(cfg.CA)
	}
	return data
}
