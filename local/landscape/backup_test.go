package landscape

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

func TestBackupStoreIsMadeOnce(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	o := Options{StateDir: filepath.Dir(filepath.Dir(c.AdminFile()))}
	about, err := c.Client.About(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := ensureBackupStore(t.Context(), o, c.Client, about)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ensureBackupStore(t.Context(), o, c.Client, about)
	if err != nil || !maps.Equal(first, second) {
		t.Errorf("a second call gives %d other keys, %v", len(second), err)
	}
	for key, value := range map[string]string{
		"bucketName": gardenBucket, "endpoint": c.Config.Endpoint, "trustedCaCert": c.Config.CA, "s3ForcePathStyle": "true",
		"region": about.Region,
	} {
		if first[key] != value {
			t.Errorf("%s is %q, want %q", key, first[key], value)
		}
	}
	path := filepath.Join(o.StateDir, "landscape", "garden-backup.json")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the credentials has %v, %v", info, err)
	}

	limited, err := cloud.New(cloud.Config{
		Endpoint: c.Config.Endpoint, CA: c.Config.CA, AccessKey: first["accessKeyID"], SecretKey: first["secretAccessKey"],
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.CreateBucket(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := limited.ListObjectsAfter(t.Context(), gardenBucket, "", "", 1); err != nil {
		t.Errorf("the credentials do not open the bucket: %v", err)
	}
	if _, err := limited.ListObjectsAfter(t.Context(), "other", "", "", 1); err == nil {
		t.Error("the credentials open another bucket")
	}
	if _, err := limited.ListInstances(t.Context(), cloud.Filter{}); err == nil {
		t.Error("the credentials see instances")
	}

	if err := c.Client.DeleteBucket(t.Context(), gardenBucket, true); err != nil {
		t.Fatal(err)
	}
	if _, err := ensureBackupStore(t.Context(), o, c.Client, about); err == nil ||
		!strings.Contains(err.Error(), "remove "+path) {
		t.Errorf("with the bucket gone the error is %v", err)
	}
}
