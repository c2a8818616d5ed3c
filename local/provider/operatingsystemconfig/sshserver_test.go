package operatingsystemconfig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	machineunit "hortus.dev/hortus/local/machineinit/unit"
)

// The server runs as long as there are keys, independently of their content.
func TestServerRunsIfThereAreKeys(t *testing.T) {
	keys := func(text string) []extensionsv1alpha1.File {
		return []extensionsv1alpha1.File{
			{Path: "/other", Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{}}},
			{Path: extensionsv1alpha1.AuthorizedKeysFile, Content: extensionsv1alpha1.FileContent{
				Inline: &extensionsv1alpha1.FileContentInline{Data: text},
			}},
		}
	}
	type has struct {
		Files, Units []string
	}
	server := has{Files: []string{"/etc/ssh/sshd_config", "/opt/bin/ssh-server"}, Units: []string{"sshd.service"}}
	osc := &extensionsv1alpha1.OperatingSystemConfig{} // The same object all the time: what is no longer wanted goes.
	cluster := &extension.Cluster{Shoot: &corev1beta1.Shoot{}}
	var before *extensionsv1alpha1.OperatingSystemConfigStatus
	for _, tc := range []struct {
		name  string
		files []extensionsv1alpha1.File
		want  has
	}{
		{"no access", keys("")[:1], has{}},
		{"access", keys("ssh-rsa a\n"), server},
		{"a key is added", keys("ssh-rsa b\nssh-rsa a\n"), server},
		{"no access any more", nil, has{}},
	} {
		osc.Spec.Purpose, osc.Spec.Files = extensionsv1alpha1.OperatingSystemConfigPurposeReconcile, tc.files
		if _, err := (&Actuator{}).Reconcile(context.Background(), osc, cluster); err != nil {
			t.Fatal(err)
		}
		got := has{}
		for _, f := range osc.Status.ExtensionFiles {
			got.Files = append(got.Files, f.Path)
		}
		for _, u := range osc.Status.ExtensionUnits {
			got.Units = append(got.Units, u.Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: units of the server (-want +got):\n%s", tc.name, diff)
		}
		if tc.name == "a key is added" && !cmp.Equal(before.ExtensionFiles, osc.Status.ExtensionFiles) {
			t.Errorf("the server restarts for another key: %s", cmp.Diff(before.ExtensionFiles, osc.Status.ExtensionFiles))
		}
		before = osc.Status.DeepCopy()
	}
}

// The unit is read by the machine's process 1, and its command by the shell.
func TestServersUnitAndCommands(t *testing.T) {
	files, units := sshServer(&extensionsv1alpha1.OperatingSystemConfigSpec{
		Files: []extensionsv1alpha1.File{{Path: extensionsv1alpha1.AuthorizedKeysFile}},
	})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, units[0].Name), []byte(ptr.Deref(units[0].Content, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := machineunit.Load(units[0].Name, []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	start, stop := read.ExecStart[0].Args(nil, units[0].Name), read.ExecStop[0].Args(nil, units[0].Name)
	want := [][]string{{"/opt/bin/ssh-server", "start"}, {"/opt/bin/ssh-server", "end-sessions"}}
	if diff := cmp.Diff(want, [][]string{start, stop}); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	for _, f := range files {
		if f.Path != start[0] {
			continue
		}
		check := exec.Command("sh", "-n")
		check.Stdin = strings.NewReader(f.Content.Inline.Data)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("the shell refuses the commands: %v\n%s", err, out)
		}
	}
}
