// Package storage checks what the API server keeps in etcd, configured as the garden's chart configures it.
package storage

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/apiserver"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithGardenAPI(func(o *apiserver.Options) {
		// The directory of the serving certificate ends with the environment.
		path := filepath.Join(filepath.Dir(o.Recommended.SecureServing.ServerCert.CertKey.CertFile), "encryption.yaml")
		content, err := encryptionConfiguration()
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			panic(err)
		}
		o.Recommended.Etcd.EncryptionProviderConfigFilepath = path
	}))
}

// encryptionConfiguration is that of the garden's chart.
func encryptionConfiguration() (string, error) {
	objects, err := gardenChart()
	if err != nil {
		return "", err
	}
	for _, object := range objects {
		if object.GetKind() == "Secret" && object.GetName() == "hortus-apiserver" {
			content, _, err := unstructured.NestedString(object.Object, "stringData", "encryption.yaml")
			return content, err
		}
	}
	return "", fmt.Errorf("the chart has no Secret hortus-apiserver")
}

func gardenChart() ([]*unstructured.Unstructured, error) {
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		return nil, err
	}
	return chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, map[string]any{
		"image": "hortus:test", "caCrt": "-",
		"apiserver": map[string]any{
			"tlsCrt": "-", "tlsKey": "-", "encryptionKey": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))),
		},
		"etcd": map[string]any{"image": "etcd:test", "serverCrt": "-", "serverKey": "-", "clientCrt": "-", "clientKey": "-"},
	})
}
