// Package storage checks what the API server stores in etcd and the settings of its admission, with the configuration
// of the garden's chart.
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
	"hortus.dev/hortus/internal/garden/keyrotation"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithGardenAPI(func(o *apiserver.Options) {
		// The directory of the serving certificate is removed with the environment.
		dir := filepath.Dir(o.Recommended.SecureServing.ServerCert.CertKey.CertFile)
		for key, path := range map[string]*string{
			"encryption.yaml": &o.Recommended.Etcd.EncryptionProviderConfigFilepath,
			"admission.yaml":  &o.Recommended.Admission.ConfigFile,
		} {
			content, err := configuration(key)
			*path = filepath.Join(dir, key)
			if err == nil {
				err = os.WriteFile(*path, []byte(content), 0o600)
			}
			if err != nil {
				panic(err)
			}
		}
		o.Recommended.Admission.EnablePlugins = []string{"ShootDNSRewriting"}
		o.Recommended.Admission.DisablePlugins = append(o.Recommended.Admission.DisablePlugins, "DeletionConfirmation")
	}))
}

// configuration is a file of the garden's chart, or of the Secret with its key.
func configuration(key string) (string, error) {
	if key == keyrotation.KeyConfig {
		secret := keyrotation.InitialSecret("garden", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
		return string(secret.Data[key]), nil
	}
	objects, err := gardenChart()
	if err != nil {
		return "", err
	}
	for _, object := range objects {
		if object.GetKind() == "Secret" && object.GetName() == "hortus-apiserver" {
			content, found, err := unstructured.NestedString(object.Object, "stringData", key)
			if err == nil && !found {
				err = fmt.Errorf("the chart has no %s", key)
			}
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
			"tlsCrt": "-", "tlsKey": "-", "encryptionSecret": "-",
			"admission": map[string]any{
				"ShootTolerationRestriction": map[string]any{
					"apiVersion": "shoottolerationrestriction.admission.gardener.cloud/v1alpha1", "kind": "Configuration",
					"defaults":  []any{map[string]any{"key": "everybody"}},
					"whitelist": []any{map[string]any{"key": "everybody"}, map[string]any{"key": "whoever", "value": "asks"}},
				},
				"ShootResourceReservation": map[string]any{
					"apiVersion": "shootresourcereservation.admission.gardener.cloud/v1alpha1", "kind": "Configuration",
					"useGKEFormula": true, "selector": map[string]any{"matchLabels": map[string]any{"reserve": "by-machine"}},
				},
				"ShootDNSRewriting": map[string]any{
					"apiVersion": "shootdnsrewriting.admission.gardener.cloud/v1alpha1", "kind": "Configuration",
					"commonSuffixes": []any{"a.example.org"},
				},
			},
		},
		"etcd": map[string]any{"serverCrt": "-", "serverKey": "-", "clientCrt": "-", "clientKey": "-"},
	})
}
