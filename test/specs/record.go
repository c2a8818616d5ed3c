package specs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Suite is the conformance tests of one minor of Kubernetes, with the last result of each.
type Suite struct {
	// Kubernetes is the version of the Shoots that the specs were run on.
	Kubernetes string   `json:"kubernetes"`
	Specs      []Result `json:"specs"`
}

// merge adds the conformance tests among the results to the known ones; the last result of each spec counts. Results of
// another version of Kubernetes are dropped.
func (s Suite) merge(kubernetes string, results []Result) Suite {
	known := map[string]Result{}
	if s.Kubernetes == kubernetes {
		for _, r := range s.Specs {
			known[r.Name] = r
		}
	}
	for _, r := range results {
		if _, is := known[r.Name]; r.IsConformance() && (!is || r.State != NotRun) {
			known[r.Name] = r
		}
	}
	return Suite{Kubernetes: kubernetes, Specs: slices.SortedFunc(maps.Values(known), byName)}
}

// folder holds a file with the results for each minor of Kubernetes, next to the page.
const (
	folder = "conformance"
	page   = "conformance.md"
)

// Record adds the results of a run to those in the folder of documents, and writes the page anew.
func Record(docs, kubernetes string, results []Result) error {
	parts := strings.SplitN(kubernetes, ".", 3)
	if len(parts) != 3 {
		return fmt.Errorf("version of Kubernetes: invalid value: %q (as 1.36.3)", kubernetes)
	}
	file := filepath.Join(docs, folder, parts[0]+"."+parts[1]+".json")
	suite, err := readSuite(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	content, err := suite.merge(kubernetes, results).marshal()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return err
	}
	suites, err := Load(docs)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, page), []byte(Page(suites)), 0o644)
}

// Load returns all that is recorded in a folder of documents, the newest minor of Kubernetes first.
func Load(docs string) ([]Suite, error) {
	files, err := filepath.Glob(filepath.Join(docs, folder, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	slices.Reverse(files)
	var suites []Suite
	for _, file := range files {
		suite, err := readSuite(file)
		if err != nil {
			return nil, err
		}
		suites = append(suites, suite)
	}
	return suites, nil
}

func readSuite(file string) (Suite, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return Suite{}, err
	}
	var s Suite
	if err := json.Unmarshal(content, &s); err != nil {
		return Suite{}, fmt.Errorf("read results of specs %q: %w", file, err)
	}
	return s, nil
}

// marshal writes each spec on a line of its own, so that a change of one shows as such.
func (s Suite) marshal() ([]byte, error) {
	version, err := json.Marshal(s.Kubernetes)
	if err != nil {
		return nil, err
	}
	lines := make([]string, 0, len(s.Specs))
	for _, r := range s.Specs {
		line, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		lines = append(lines, string(line))
	}
	return fmt.Appendf(nil, "{\"kubernetes\": %s, \"specs\": [\n%s\n]}\n", version, strings.Join(lines, ",\n")), nil
}
