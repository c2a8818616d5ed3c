package unit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write makes files below dir.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoad(t *testing.T) {
	own, image := t.TempDir(), t.TempDir()
	write(t, image, map[string]string{
		"a.service":           "[Service]\nExecStart=/bin/image\n",
		"b.service":           "[Service]\nExecStart=/bin/b\n",
		"a.service.d/10.conf": "[Service]\nEnvironment=FROM=image10\n",
		"a.service.d/20.conf": "[Service]\nEnvironment=FROM=image20\n",
	})
	write(t, own, map[string]string{
		"a.service": `[Unit]
Description=An example
After=x.service y.service
Requires=x.service
ConditionPathExists=!/nowhere

[Service]
Type=oneshot
ExecStartPre=-/bin/pre "one word" two
ExecStart=/bin/first \
    --flag=1 \
    $EXTRA
ExecStart=/bin/second
Restart=on-failure
RestartSec=1min 500ms
TimeoutStopSec=infinity
RemainAfterExit=yes
KillMode=process
EnvironmentFile=-/etc/optional
Unknown=ignored

[Install]
WantedBy=multi-user.target
`,
		"a.service.d/10.conf": "[Service]\nEnvironment=FROM=own10 \"B=b c\"\nExecStart=\nExecStart=/bin/only\n",
	})
	got, err := Load("a.service", []string{own, image})
	if err != nil {
		t.Fatal(err)
	}
	want := &Spec{
		Name: "a.service", Description: "An example",
		After: []string{"x.service", "y.service"}, Wants: []string{"x.service"}, WantedBy: []string{"multi-user.target"},
		ConditionPathExists: []string{"!/nowhere"},
		Type:                Oneshot,
		ExecStartPre:        []Command{{Words: []string{"/bin/pre", "one word", "two"}, IgnoreFailure: true}},
		ExecStart:           []Command{{Words: []string{"/bin/only"}}},
		Restart:             RestartOnFailure, RestartDelay: time.Minute + 500*time.Millisecond,
		StartTimeout: defaultStartTimeout, StopTimeout: 0, RemainAfterExit: true, KillMainOnly: true,
		Environment:      []string{"FROM=own10", "B=b c", "FROM=image20"},
		EnvironmentFiles: []EnvironmentFile{{Path: "/etc/optional", Optional: true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load mismatch (-want +got):\n%s", diff)
	}
	if b, err := Load("b.service", []string{own, image}); err != nil || b.ExecStart[0].Words[0] != "/bin/b" {
		t.Errorf("the unit of the second directory: %v, %v", b, err)
	}
}

func TestLoadFails(t *testing.T) {
	for name, tc := range map[string]struct{ unit, content, want string }{
		"a unit without a command":               {"a.service", "[Service]\nType=simple\n", "no ExecStart"},
		"several commands of a long-running one": {"a.service", "[Service]\nExecStart=/a\nExecStart=/b\n", "only oneshot"},
		"an unknown type":                        {"a.service", "[Service]\nType=dbus\nExecStart=/a\n", "Type=dbus"},
		"a bad time span": {
			"a.service", "[Service]\nExecStart=/a\nRestartSec=soon\n", "RestartSec=soon",
		},
		"an open quote":        {"a.service", "[Service]\nExecStart=/a \"b\n", "quote"},
		"another kind of unit": {"a.timer", "[Timer]\n", "only services"},
		"a name with a path":   {"../a.service", "[Service]\nExecStart=/a\n", "only services"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{filepath.Base(tc.unit): tc.content})
			_, err := Load(tc.unit, []string{dir})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Load: %v, want something about %q", err, tc.want)
			}
		})
	}
	if _, err := Load("none.service", []string{t.TempDir()}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Load of a missing unit: %v, want ErrNotFound", err)
	}
}

func TestArgs(t *testing.T) {
	env := []string{"ONE=1", "LIST=a b  c", "EMPTY=", "ONE=2"}
	for name, tc := range map[string]struct {
		line string
		want []string
	}{
		"a variable anywhere in a word":      {"run --x=${ONE}y", []string{"run", "--x=2y"}},
		"a word that is a variable is split": {"run $LIST end", []string{"run", "a", "b", "c", "end"}},
		"an empty variable is no word":       {"run $EMPTY $MISSING", []string{"run"}},
		"a variable in braces is one word":   {"run ${LIST}", []string{"run", "a b  c"}},
		"without braces only whole words":    {"run a$ONE", []string{"run", "a$ONE"}},
		"doubled signs":                      {"run $$ONE 100%%", []string{"run", "$ONE", "100%"}},
		"the name of the unit":               {"run %n %N", []string{"run", "u.service", "u"}},
		"quotes of both kinds": {
			`sh -c 'echo "$ONE" done' "it's"`, []string{"sh", "-c", `echo "$ONE" done`, "it's"},
		},
		"escapes":                           {`run a\ b c\\d "x\"y"`, []string{"run", "a b", `c\d`, `x"y`}},
		"nothing is expanded after a colon": {":run $ONE ${ONE}", []string{"run", "$ONE", "${ONE}"}},
		"prefixes that change privileges are dropped": {"+!run", []string{"run"}},
		"a lone sign at the end, and an open brace":   {"run a$ ${ONE", []string{"run", "a$", "${ONE"}},
		"a continued line separates words":            {"run a\\\n  b", []string{"run", "a", "b"}},
		"an empty word in quotes is a word":           {`run ""`, []string{"run", ""}},
		"unknown escapes keep their backslash (\\d)":  {`grep \d`, []string{"grep", `\d`}},
	} {
		t.Run(name, func(t *testing.T) {
			command, err := ParseCommand(tc.line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, command.Args(env, "u.service")); diff != "" {
				t.Errorf("Args mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLaterSettingsOfAVariableWin(t *testing.T) {
	s, dir := newReal(t, map[string]string{"env": "FILE=from file\nPATH=/file\n"},
		Options{Env: []string{"PATH=/supervisor", "HOME=/root"}})
	spec := &Spec{
		Environment:      []string{"OWN=%n", "PATH=/unit", "FILE=unit"},
		EnvironmentFiles: []EnvironmentFile{{Path: filepath.Join(dir, "env")}},
	}
	got, err := (&service{Supervisor: s, name: "a.service"}).environment(spec)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"HOME=/root", "OWN=a.service", "FILE=from file", "PATH=/file"}, got); diff != "" {
		t.Errorf("environment mismatch (-want +got):\n%s", diff)
	}
}

func TestReadEnvironmentFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"env": "# comment\n\nA=1\n B = \"x y\" \nC='z'\nnot a variable\nD=a=b\n9=x\n"})
	got, err := readEnvironmentFile(EnvironmentFile{Path: filepath.Join(dir, "env")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A=1", "B=x y", "C=z", "D=a=b"}, got); diff != "" {
		t.Errorf("variables mismatch (-want +got):\n%s", diff)
	}
	if _, err := readEnvironmentFile(EnvironmentFile{Path: filepath.Join(dir, "none"), Optional: true}); err != nil {
		t.Errorf("a missing optional file: %v", err)
	}
	if _, err := readEnvironmentFile(EnvironmentFile{Path: filepath.Join(dir, "none")}); err == nil {
		t.Error("a missing file is no error")
	}
}

func FuzzSplitWords(f *testing.F) {
	for _, seed := range []string{"", "a b", `"a b" 'c'`, `a\ b`, "a\\\nb", `\`, `"`, "100%n $HOME", "-a", ":b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitWords(line)
		if err == nil && strings.Trim(line, " \t\n\r") == "" && len(words) != 0 { // Characters that systemd treats as space.
			t.Errorf("words %q without input", words)
		}
		command, err := ParseCommand(":run " + Quote(line))
		if err != nil {
			t.Fatalf("Quote(%q) = %s: %v", line, Quote(line), err)
		}
		if diff := cmp.Diff([]string{"run", line}, command.Args(nil, "u.service")); diff != "" {
			t.Errorf("a quoted word mismatch (-want +got):\n%s", diff)
		}
	})
}
