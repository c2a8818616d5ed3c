package plan

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

const (
	formProfile = `apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: local
spec:
  kubernetes:
    versions:
    - version: 1.26.3
    - classification: supported
      version: 1.25.4
    - expirationDate: "2025-12-01T00:00:00Z"
      version: 1.24.12
  machineImages:
  - name: linux
    versions:
    - version: 2.0.0
    - version: 1.0.0
  machineTypes:
  - cpu: "1"
    gpu: "0"
    memory: 1Gi
    name: small
`
	formShoot = `apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata:
  name: a
  namespace: garden-dev
spec:
  cloudProfileName: local
  kubernetes:
    version: 1.24.12
  provider:
    type: local
    workers:
    - machine:
        image:
          name: linux
          version: 1.0.0
        type: small
      name: w
`
	formStep = `{"namespace":"garden-dev","name":"a","changed":true,"failed":false,"kubernetesVersion":"1.25.4","workers":[{"name":"w","image":"linux","imageVersion":"2.0.0"}],` +
		`"reasons":["Control Plane: Updated Kubernetes version from \"1.24.12\" to \"1.25.4\". Reason: Kubernetes version expired - force update required",` +
		`"Worker pool \"w\": Updated machine image \"linux\" from \"1.0.0\" to \"2.0.0\". Reason: Automatic update of the machine image version is configured (image update strategy: major)"]}` + "\n"
)

// steps runs 'hortus plan --step' with a file on standard input.
func steps(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	cmd := newCommand(clocktesting.NewFakePassiveClock(time.Time{}))
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader(input))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if len(args) == 0 {
		args = []string{"-f", "-"}
	}
	cmd.SetArgs(append([]string{"--step", "--at", "2026-01-10"}, args...))
	err := cmd.Execute()
	return out.String(), err
}

func toJSON(t *testing.T, document string) string {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// entry is a manifest as an entry of a list in YAML.
func entry(document string) string {
	lines := strings.SplitAfter(document, "\n")
	return "- " + strings.Join(lines[:len(lines)-1], "  ")
}

func withoutKind(document string) string { return document[strings.Index(document, "metadata:"):] }

func TestManifestsInEveryForm(t *testing.T) {
	profile, shoot := toJSON(t, formProfile), toJSON(t, formShoot)
	indented := new(bytes.Buffer)
	if err := json.Indent(indented, []byte(shoot), "", "\t"); err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string]string{
		"documents":                formProfile + "---\n" + formShoot,
		"Shoot first":              formShoot + "---\n" + formProfile,
		"markers at both ends":     "---\n" + formProfile + "---\n" + formShoot + "---\n",
		"end of document":          formProfile + "...\n---\n" + formShoot + "...\n",
		"directive":                "%YAML 1.1\n---\n" + formProfile + "---\n" + formShoot,
		"comments behind markers":  "--- # one\n" + formProfile + "--- # two\n# three\n" + formShoot,
		"content behind a marker":  "--- " + profile + "\n--- " + shoot + "\n",
		"empty documents":          "---\n---\n# nothing\n---\n" + formProfile + "---\n\n---\n" + formShoot,
		"carriage returns":         strings.ReplaceAll(formProfile+"---\n"+formShoot, "\n", "\r\n"),
		"byte order mark":          "\ufeff" + formProfile + "---\n" + formShoot,
		"no line break at the end": strings.TrimSuffix(formProfile+"---\n"+formShoot, "\n"),
		"JSON one after the other": profile + shoot,
		"JSON lines":               profile + "\n" + shoot + "\n",
		"JSON with markers":        profile + "\n---\n" + indented.String(),
		"JSON and YAML":            profile + "\n---\n" + formShoot,
		"List": "apiVersion: v1\nitems:\n" + entry(formProfile) + entry(formShoot) +
			"kind: List\nmetadata:\n  resourceVersion: \"\"\n",
		"List with its kind first": "kind: List\napiVersion: v1\nitems:\n# first\n" + entry(formProfile) + "\n" +
			entry(formShoot),
		"List in JSON":       `{"kind":"List","apiVersion":"v1","items":[` + profile + "," + shoot + "]}",
		"List in flow style": "{kind: List, apiVersion: v1, items: [" + profile + "," + shoot + "]}",
		"List with deeper entries": "apiVersion: v1\nkind: List\nitems:\n  " +
			strings.ReplaceAll(strings.TrimSpace(entry(formProfile)), "\n", "\n  ") + "\n  " +
			strings.ReplaceAll(strings.TrimSpace(entry(formShoot)), "\n", "\n  ") + "\n",
		"List with aliases": "apiVersion: v1\nkind: List\nitems:\n- &p\n  " +
			strings.ReplaceAll(formProfile, "\n", "\n  ") + "\n" + entry(formShoot) + "- *p\n",
		"List with items before the kind": "items:\n" + entry(formShoot) + entry(formProfile) +
			"apiVersion: v1\nkind: List\n",
		"List of Lists": "apiVersion: v1\nkind: List\nitems:\n" +
			entry("apiVersion: v1\nkind: List\nitems:\n"+entry(formProfile)+entry(formShoot)),
		"lists of a kind": "apiVersion: core.gardener.cloud/v1beta1\nkind: CloudProfileList\nitems:\n" +
			entry(formProfile) + "---\napiVersion: core.gardener.cloud/v1beta1\nkind: ShootList\nitems:\n" + entry(formShoot),
		"entries that leave out the kind": "apiVersion: core.gardener.cloud/v1beta1\nkind: ShootList\nitems:\n" +
			entry(withoutKind(formShoot)) + "---\n" + formProfile,
		"the same in JSON": `{"apiVersion":"core.gardener.cloud/v1beta1","kind":"ShootList","items":[` +
			toJSON(t, withoutKind(formShoot)) + "]}\n" + profile,
		"an empty list alongside": "apiVersion: v1\nkind: List\nitems: []\n---\n" + formProfile + "---\n" +
			formShoot,
		"other kinds alongside": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: Yg==}\n---\n" +
			formProfile + "---\n" + formShoot + "---\napiVersion: example.org/v1\nkind: Shoot\nmetadata: {name: true}\n",
		"profile given twice, last counts": strings.ReplaceAll(formProfile, "1.25.4", "1.25.3") + "---\n" + formProfile +
			"---\n" + formShoot,
		"reference instead of a name": formProfile + "---\n" +
			strings.Replace(formShoot, "cloudProfileName: local", "cloudProfile: {name: local}", 1),
		"reference and name": formProfile + "---\n" + strings.Replace(formShoot, "cloudProfileName: local",
			"cloudProfileName: other\n  cloudProfile:\n    kind: CloudProfile\n    name: local", 1),
		"comments and quotes": formProfile + "---\n" +
			strings.Replace(formShoot, "version: 1.24.12", "version: \"1.24.12\" # old", 1),
		"image in other case in profile": strings.Replace(formProfile, "name: linux", "name: Linux",
			1) + "---\n" + formShoot,
		"hibernated": formProfile + "---\n" +
			strings.Replace(formShoot, "  provider:", "  hibernation:\n    enabled: true\n  provider:", 1),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := steps(t, input)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(formStep, got); diff != "" {
				t.Errorf("step mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManifestsInDirectories(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"profiles/local.yml": formProfile, "shoots/dev/a.json": toJSON(t, formShoot), "README.md": "{", "shoots/.gitkeep": "",
		"empty.yaml": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"directory":          {"-f", dir},
		"file and directory": {"-f", filepath.Join(dir, "profiles/local.yml"), "-f", filepath.Join(dir, "shoots")},
		"files joined by commas": {
			"-f", filepath.Join(dir, "profiles/local.yml") + "," + filepath.Join(dir, "shoots/dev/a.json"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := steps(t, "", args...)
			if err != nil || got != formStep {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	if _, err := steps(t, "", "-f", filepath.Join(dir, "none.yaml")); err == nil ||
		!strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a missing file gives %v", err)
	}
}

func TestStepsOfUnusualShoots(t *testing.T) {
	change := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(formShoot) }
	line := func(changed, failed, kubernetes, workers string) string {
		return `{"namespace":"garden-dev","name":"a","changed":` + changed + `,"failed":` + failed +
			`,"kubernetesVersion":"` + kubernetes + `","workers":[` + workers + `],"reasons":[`
	}
	const pool = `{"name":"w","image":"linux","imageVersion":"1.0.0"}`
	for name, tc := range map[string]struct{ shoot, want string }{
		"no such profile": {
			change("cloudProfileName: local", "cloudProfileName: gone"),
			line("false", "true", "1.24.12", pool) + `"CloudProfile \"gone\" does not exist"]}`,
		},
		"no profile named": {
			change("  cloudProfileName: local\n", ""),
			line("false", "true", "1.24.12", pool) + `"the Shoot refers to no CloudProfile"]}`,
		},
		"no such NamespacedCloudProfile": {
			change("cloudProfileName: local", "cloudProfile: {kind: NamespacedCloudProfile, name: own}"),
			line("false", "true", "1.24.12", pool) + `"NamespacedCloudProfile \"garden-dev/own\" does not exist"]}`,
		},
		"in deletion": {
			change("  name: a\n", "  name: a\n  deletionTimestamp: \"2026-01-09T00:00:00Z\"\n"),
			line("false", "false", "1.24.12", pool) + `]}`,
		},
		"without workers": {
			formShoot[:strings.Index(formShoot, "    workers:")],
			line("true", "false", "1.25.4", "") + `"Control Plane: Updated`,
		},
		"pool of its own version": {
			formShoot + "      kubernetes: {version: 1.24.12}\n",
			line("true", "false", "1.25.4", `{"name":"w","kubernetesVersion":"1.25.4","image":"linux","imageVersion":"2.0.0"}`) +
				`"Control Plane: Updated`,
		},
		"pool that sets only its kubelet": {
			formShoot + "      kubernetes: {kubelet: {maxPods: 20}}\n",
			line("true", "false", "1.25.4", `{"name":"w","image":"linux","imageVersion":"2.0.0"}`) + `"Control Plane: Updated`,
		},
		"no image: the API server's default": {
			change("        image:\n          name: linux\n          version: 1.0.0\n", ""),
			line("true", "false", "1.25.4", `{"name":"w","image":"linux","imageVersion":"2.0.0"}`) + `"Control Plane: Updated`,
		},
		"no image version: the API server's default": {
			change("          version: 1.0.0\n", ""),
			line("true", "false", "1.25.4", `{"name":"w","image":"linux","imageVersion":"2.0.0"}`) + `"Control Plane: Updated`,
		},
		"missing machine type: images stay, and nothing has failed": {
			change("type: small", "type: gone"),
			line("true", "false", "1.25.4", pool) + `"Control Plane: Updated`,
		},
		"version that is none": {
			change("version: 1.24.12", "version: newest"),
			line("true", "true", "newest", `{"name":"w","image":"linux","imageVersion":"2.0.0"}`) +
				`"Control Plane: Kubernetes version update failed.`,
		},
		"incomplete version that the profile cannot complete": {
			change("version: 1.24.12", "version: \"1.23\""),
			line("true", "false", "1.24.12", `{"name":"w","image":"linux","imageVersion":"2.0.0"}`) +
				`"Control Plane: Updated Kubernetes version from \"1.23\" to \"1.24.12\". Reason: Version does not`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := steps(t, formProfile+"---\n"+tc.shoot)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("got  %swant %s", got, tc.want)
			}
		})
	}
}

func TestBrokenManifestsAreErrors(t *testing.T) {
	for name, tc := range map[string]struct{ input, want string }{
		"no YAML": {"a: b: c\n", "stdin:1 document 1: invalid syntax: mapping values are not allowed in this context"},
		"no YAML further down": {
			formProfile + "---\na: [\n", "stdin:24 document 2: invalid syntax: did not find expected node content",
		},
		"no mapping": {
			"hello\n", `stdin:1 document 1: invalid value: "hello" (must have fields, such as apiVersion and kind)`,
		},
		"field of another type": {
			strings.Replace(formShoot, "workers:", "workers: 1\n    other:", 1),
			"stdin:12 Shoot garden-dev/a: spec.provider.workers: invalid value: 1 (must be a list)",
		},
		"number for a version": {
			strings.Replace(formShoot, "version: 1.24.12", "version: 1.24", 1),
			"stdin:9 Shoot garden-dev/a: spec.kubernetes.version: invalid value: 1.24 (must be a string)",
		},
		"the same in a List": {
			"apiVersion: v1\nkind: List\nitems:\n" + entry(strings.Replace(formShoot, "version: 1.24.12", "version: 1.24", 1)),
			"stdin:12 Shoot garden-dev/a: spec.kubernetes.version: invalid value: 1.24 (must be a string)",
		},
		"wrong date": {
			strings.Replace(formProfile, "2025-12-01T00:00:00Z", "soon", 1),
			`stdin:11 CloudProfile local: spec.kubernetes.versions[2].expirationDate: invalid value: "soon" (parsing time "soon"`,
		},
		"JSON that breaks off": {
			toJSON(t, formShoot)[:100], "stdin:1 document 1: invalid syntax: found unexpected end of stream",
		},
		"broken entry of a List": {"apiVersion: v1\nkind: List\nitems:\n- a: b: c\n", "stdin:4 document 1: invalid syntax"},
		"nothing":                {"", ""},
		"no Shoots":              {formProfile, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := steps(t, tc.input)
			if tc.want == "" {
				if err != nil || out != "" {
					t.Errorf("got %q, %v; want nothing", out, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	out, err := steps(t, strings.Replace(formProfile, "1.26.3", "x.y", 1)+"---\n"+formShoot)
	if err != nil || !strings.Contains(out, `"failed":true`) ||
		!strings.Contains(out, `profile \"local\": kubernetes: parse version \"x.y\"`) {
		t.Errorf("a profile with a broken version gives %s, %v", out, err)
	}
}
