package clouddaemon_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

// TestImagesNeedCredentials: only instances and callers of the API get images, since anonymous clients could cause
// builds.
func TestImagesNeedCredentials(t *testing.T) {
	layout := t.TempDir()
	if err := os.WriteFile(filepath.Join(layout, "index.json"), []byte(`{"manifests":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cloudtest.Start(t, cloudtest.Options{Layout: layout})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(c.Config.CA))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: pool, MinVersion: tls.VersionTLS13,
	}}}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(user, password string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Config.Endpoint+"/v2/pause/manifests/1",
			nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			request.SetBasicAuth(user, password)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	const there, refused = http.StatusNotFound, http.StatusUnauthorized // There is no such image.
	if got := ask("", ""); got != refused {
		t.Errorf("without credentials: %d", got)
	}
	if got := ask(c.Config.AccessKey, c.Config.SecretKey); got != there {
		t.Errorf("with the credentials of the API: %d", got)
	}
	if got := ask(c.Config.AccessKey, "wrong"); got != refused {
		t.Errorf("with a wrong key: %d", got)
	}
	network := c.Network(t, "n", "10.9.0.0/24")
	one := createInstance(t, c.Client, cloud.CreateInstance{Name: "one", NetworkID: network})
	c.Eventually(t, "it runs", func() bool { return stateOf(t, c.Client, one.ID) == cloud.StateRunning })
	var metadata cloud.Metadata
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(c.AdminFile()), "instances", one.ID, "boot", "metadata.json"))
	if err != nil || json.Unmarshal(raw, &metadata) != nil {
		t.Fatalf("metadata of the instance: %v\n%s", err, raw)
	}
	password := metadata.RegistryPassword
	if got := ask(one.ID, password); got != there {
		t.Errorf("as an instance: %d", got)
	}
	if got := ask("i-other", password); got != refused {
		t.Errorf("as another instance: %d", got)
	}
	if err := c.Client.DeleteInstance(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "it is gone", func() bool { return stateOf(t, c.Client, one.ID) == "" })
	if got := ask(one.ID, password); got != refused {
		t.Errorf("as a deleted instance: %d", got)
	}
}
