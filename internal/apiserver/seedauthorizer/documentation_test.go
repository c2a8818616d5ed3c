package seedauthorizer

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocumentation: the page shows the present table. -update rewrites it.
func TestDocumentation(t *testing.T) {
	const path, begin, end = "../../../docs/controllers/seed-authorizer.md", "<!-- begin table -->\n", "<!-- end table -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	shown, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no markers for the table", path)
	}
	if update := flag.Lookup("update"); update != nil && update.Value.String() == "true" {
		if err := os.WriteFile(path, []byte(before+begin+markdown()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(markdown(), shown); diff != "" {
		t.Errorf("%s is not up to date, run with -update (-want +got):\n%s", path, diff)
	}
}

func markdown() string {
	var out strings.Builder
	out.WriteString("\n| group | resource | verbs | allowed where the object is | extensions |\n|---|---|---|---|---|\n")
	for _, rule := range table {
		if rule.grants == nil {
			fmt.Fprintf(&out, "| %s | %s | none | | |\n", group(rule.group), rule.resource)
		}
		for _, grant := range rule.grants {
			resource := rule.resource
			if grant.subresources != nil {
				resource = ""
				for _, sub := range grant.subresources {
					resource += ", " + strings.TrimSuffix(rule.resource+"/"+sub, "/")
				}
				resource = strings.TrimPrefix(resource, ", ")
			}
			extensions := ""
			if grant.extensions {
				extensions = "too"
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", group(rule.group), resource,
				strings.Join(slices.Clone(grant.verbs), ", "), strings.ReplaceAll(grant.where.text, "<shoot>",
					"`<shoot>`"), extensions)
		}
	}
	return out.String() + "\n"
}

func group(name string) string {
	if name == "" {
		return "(core)"
	}
	return name
}
