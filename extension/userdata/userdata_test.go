package userdata

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

func file(path, data string) extensionsv1alpha1.File {
	return extensionsv1alpha1.File{
		Path: path, Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{Data: data}},
	}
}

func binary(path string, data []byte) extensionsv1alpha1.File {
	f := file(path, base64.StdEncoding.EncodeToString(data))
	f.Content.Inline.Encoding = extensionsv1alpha1.EncodingBase64
	return f
}

func readable(f extensionsv1alpha1.File) extensionsv1alpha1.File {
	f.Content.TransmitUnencoded = ptr.To(true)
	return f
}

func script(t *testing.T, spec *extensionsv1alpha1.OperatingSystemConfigSpec, o Options) string {
	t.Helper()
	out, err := Script(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// run runs a script with a systemctl that only records its arguments.
func run(t *testing.T, script string) (systemctl []string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	program := "#!/bin/sh\necho \"$@\" >>" + log + "\n"
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("bash")
	c.Stdin = strings.NewReader(script)
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(log)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

func TestScriptWritesFiles(t *testing.T) {
	long := strings.Repeat("the same line\n", 1000)
	for name, content := range map[string]string{
		"empty":                 "",
		"without a newline":     "a",
		"with newlines":         "\n\na\n\n",
		"what a shell expands":  "$HOME `id` $(id) \\n %s !! \"\n",
		"single quotes":         "'it''s'\n",
		"what ends a document":  "EOF\n",
		"no text":               string([]byte{0, 1, 0xff, '\n'}),
		"as long as it is dull": long,
	} {
		for _, compress := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "new directory", "it's a file")
				f := binary(path, []byte(content))
				f.Permissions = ptr.To[uint32](0o751)
				spec := &extensionsv1alpha1.OperatingSystemConfigSpec{Files: []extensionsv1alpha1.File{f}}
				run(t, script(t, spec, Options{Gzip: compress}))
				got, err := os.ReadFile(path)
				if err != nil || string(got) != content {
					t.Errorf("the file has %q, want %q (%v)", got, content, err)
				}
				info, err := os.Stat(path)
				if err != nil || info.Mode().Perm() != 0o751 {
					t.Errorf("the file is %v, want mode 0751 (%v)", info, err)
				}
				if parent, err := os.Stat(filepath.Dir(path)); err != nil || parent.Mode().Perm() != 0o755 {
					t.Errorf("its directory is %v, want mode 0755 (%v)", parent, err)
				}
			})
		}
	}
}

func TestPlaceholdersStayReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	spec := &extensionsv1alpha1.OperatingSystemConfigSpec{Files: []extensionsv1alpha1.File{
		readable(file(path, "<<BOOTSTRAP_TOKEN>>"+strings.Repeat(" ", 1000))),
	}}
	text := script(t, spec, Options{Gzip: true})
	if !strings.Contains(text, "<<BOOTSTRAP_TOKEN>>") {
		t.Fatalf("the placeholder is not readable:\n%s", text)
	}
	run(t, strings.ReplaceAll(text, "<<BOOTSTRAP_TOKEN>>", "abcdef.0123456789abcdef"))
	if got, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(got)) != "abcdef.0123456789abcdef" {
		t.Errorf("the file has %q (%v)", got, err)
	}
}

func TestScriptRunsUnits(t *testing.T) {
	unit := func(name string, enable *bool, command *extensionsv1alpha1.UnitCommand) extensionsv1alpha1.Unit {
		return extensionsv1alpha1.Unit{Name: name, Enable: enable, Command: command}
	}
	spec := &extensionsv1alpha1.OperatingSystemConfigSpec{Units: []extensionsv1alpha1.Unit{
		unit("default.service", nil, nil),
		unit("started.service", ptr.To(true), ptr.To(extensionsv1alpha1.CommandStart)),
		unit("stopped.service", nil, ptr.To(extensionsv1alpha1.CommandStop)),
		unit("disabled.service", ptr.To(false), nil),
		unit("now-only.service", ptr.To(false), ptr.To(extensionsv1alpha1.CommandStart)),
	}}
	want := []string{
		"daemon-reload",
		"enable -- default.service", "enable -- started.service", "enable -- stopped.service",
		"disable -- disabled.service", "disable -- now-only.service",
		"--no-block restart -- default.service", "--no-block restart -- started.service",
		"--no-block stop -- stopped.service", "--no-block stop -- disabled.service", "--no-block restart -- now-only.service",
	}
	if diff := cmp.Diff(want, run(t, script(t, spec, Options{}))); diff != "" {
		t.Errorf("commands mismatch (-want +got):\n%s", diff)
	}
}

func TestSizeOfScripts(t *testing.T) {
	spec := &extensionsv1alpha1.OperatingSystemConfigSpec{
		Files: []extensionsv1alpha1.File{file("/etc/long", strings.Repeat("the same line\n", 2000))},
	}
	if _, err := Script(spec, Options{MaxBytes: 16384}); err == nil ||
		!strings.Contains(err.Error(), "(at most 16384)") {
		t.Errorf("user data that is too large: %v", err)
	}
	if got := len(script(t, spec, Options{MaxBytes: 16384, Gzip: true})); got > 1000 {
		t.Errorf("compressed it has %d bytes", got)
	}
}

func TestRefusedConfigurations(t *testing.T) {
	image := file("/x", "")
	image.Content = extensionsv1alpha1.FileContent{ImageRef: &extensionsv1alpha1.FileContentImageRef{Image: "i"}}
	host := file("/x", "")
	host.HostName = ptr.To("a")
	encoding := file("/x", "")
	encoding.Content.Inline.Encoding = "gzip"
	for want, spec := range map[string]extensionsv1alpha1.OperatingSystemConfigSpec{
		"spec.files[0].path":                      {Files: []extensionsv1alpha1.File{file("etc/x", "")}},
		"spec.files[0].content.inline":            {Files: []extensionsv1alpha1.File{image}},
		"spec.files[0].hostName":                  {Files: []extensionsv1alpha1.File{host}},
		`unknown encoding "gzip"`:                 {Files: []extensionsv1alpha1.File{encoding}},
		"spec.files[0].content.transmitUnencoded": {Files: []extensionsv1alpha1.File{readable(binary("/x", []byte{0}))}},
		"spec.units[0].name":                      {Units: []extensionsv1alpha1.Unit{{Name: "../x.service"}}},
		"spec.units[0].dropIns[0].name": {Units: []extensionsv1alpha1.Unit{{
			Name: "x.service", DropIns: []extensionsv1alpha1.DropIn{{Name: "x"}},
		}}},
	} {
		if _, err := Script(&spec, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Script: %v, want %q in it", err, want)
		}
	}
}
