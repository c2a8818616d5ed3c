//go:build landscape

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExampleExtension runs the commands of the tutorial about extensions, and checks the results: an extension is
// built outside the project's own module, installed, used, broken, repaired and removed.
func TestExampleExtension(t *testing.T) {
	story(t, firstSeed)
	const name, namespace = "noted", "extension-notice-local-1"
	garden := kubeconfigOf("garden")
	sections := tutorial(t)
	done := map[string]bool{}
	section := func(name string, check func(out string)) {
		if t.Failed() {
			return
		}
		commands, found := sections[name]
		if !found {
			t.Fatalf("the tutorial has no section %q with commands", name)
		}
		var printed strings.Builder
		for _, block := range commands {
			out, err := typeIn(t, block)
			if err != nil {
				t.Fatalf("%v:\n%s\n%s", err, block, out)
			}
			printed.WriteString(out)
		}
		done[name] = true
		if check != nil {
			check(printed.String())
		}
	}
	t.Cleanup(func() {
		there := kubectl(t, garden, "-n", projectNS, "get", "shoot", name, "--ignore-not-found", "-o", "name")
		if there != "" {
			keepState(t) // Before the Shoot is removed.
			deleteShoot(t, name)
		}
		kubectl(t, garden, "delete", "--ignore-not-found", "controllerregistration,controllerdeployment", "notice")
	})

	section("Build and test", nil)
	section("Install", func(string) {
		if out := kubectl(t, garden, "get", "namespaces", "-o", "name"); strings.Contains(out, namespace) {
			t.Errorf("the extension is installed although no Shoot uses it")
		}
	})
	section("Use", func(out string) {
		for _, want := range []string{"Welcome to noted.", "gardener-extension-heartbeat", "notice-local-1"} {
			if !strings.Contains(out, want) {
				t.Errorf("the output lacks %q:\n%s", want, out)
			}
		}
		eventually(t, "a condition of the Extension", func() error {
			out := kubectl(t, garden, "get", "extensions.extensions.gardener.cloud", "-A", "-o",
				`jsonpath={.items[?(@.spec.type=="notice")].status.conditions}`)
			if !strings.Contains(out, "SystemComponentsHealthy") || !strings.Contains(out, "NoticeShown") {
				return fmt.Errorf("conditions are %s", out)
			}
			return nil
		})
		forward(t, garden, namespace, "deployment/notice", "8080", func(url string) {
			calls := regexp.MustCompile(
				`hortus_extension_actuations_total\{kind="Extension",operation="Create",result="done"\} [1-9]`)
			if text := answer(t, url+"/metrics"); !calls.MatchString(text) {
				t.Errorf("the metrics lack %s:\n%s", calls, text)
			}
		})
	})
	section("Change", nil)
	section("Break it", func(out string) {
		if !strings.Contains(out, "Owner") {
			t.Errorf("the Shoot does not report the error:\n%s", out)
		}
		object := kubectl(t, garden, "get", "extensions.extensions.gardener.cloud", "-A", "-o",
			`jsonpath={.items[?(@.spec.type=="notice")].status.lastError}`)
		if !strings.Contains(object, "ERR_CONFIGURATION_PROBLEM") || !strings.Contains(object, "Owner") {
			t.Errorf("lastError of the Extension is %s", object)
		}
	})
	section("Repair it", func(string) {
		awaitSucceeded(t, name)
	})
	section("Remove", func(string) {
		for _, left := range []string{
			kubectl(t, garden, "get", "controllerinstallations", "-o", "name"),
			kubectl(t, garden, "get", "namespaces,clusterroles,clusterrolebindings", "-o", "name"),
			kubectl(t, garden, "get", "managedresources,extensions.extensions.gardener.cloud", "-A", "-o", "name"),
		} {
			if strings.Contains(left, "notice") {
				t.Errorf("there are still objects:\n%s", left)
			}
		}
	})
	for name := range sections {
		if !done[name] {
			t.Errorf("the commands of section %q were not run", name)
		}
	}
}

// tutorial returns the commands of each section of the tutorial that has any, by block.
func tutorial(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "examples", "extension", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string][]string{}
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		heading, rest, _ := strings.Cut(part, "\n")
		for i, block := range strings.Split("\n"+rest, "\n```\n") {
			if i%2 == 1 {
				sections[heading] = append(sections[heading], block)
			}
		}
	}
	return sections
}
