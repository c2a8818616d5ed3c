package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"hortus.dev/hortus/test/env"
)

func TestSchedulerCommandPrintsJSON(t *testing.T) {
	e := env.Shared(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	c := e.Config
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"env": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"env": {
			ClientCertificateData: c.CertData, ClientKeyData: c.KeyData, Token: c.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"env": {Cluster: "env", AuthInfo: "env"}},
		CurrentContext: "env",
	}
	data, err := clientcmd.Write(config)
	if err == nil {
		err = os.WriteFile(kubeconfig, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	command, out, progress := NewCommand(), &bytes.Buffer{}, &bytes.Buffer{}
	command.SetArgs([]string{
		"scheduler", "--kubeconfig", kubeconfig, "--shoots", "4", "--seeds", "2", "--workers", "2", "--clients", "2", "-o",
		"json",
	})
	command.SetOut(out)
	command.SetErr(progress)
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var report SchedulerReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("output is not JSON: %v\n%s", err, out)
	}
	if len(report.Placements) != 1 || report.Placements[0].Shoots != 4 || report.Placements[0].Fewest != 2 ||
		report.Placements[0].Most != 2 {
		t.Errorf("placements are %+v, want 2 of 4 Shoots on each of 2 Seeds", report.Placements)
	}
	nothingLeft(t, e)
}
