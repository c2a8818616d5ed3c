// Command apidocs writes the reference of the API from the comments of its types: one Markdown file per group and
// version, and a list of them.
//
// It reads sources only (go/parser), so it needs no library of the API. Usage:
//
//	apidocs [-check] API_DIR OUT_DIR
//
// With -check nothing is written; it fails if a file differs from what it would write.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	log.SetFlags(0)
	check := flag.Bool("check", false, "fail if a file is not up to date, and write nothing")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: apidocs [-check] API_DIR OUT_DIR")
	}
	files, err := generate(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	if *check {
		err = compare(files, flag.Arg(1))
	} else {
		err = write(files, flag.Arg(1))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// generate returns the files of the reference by name.
func generate(apiDir string) (map[string][]byte, error) {
	sources, err := filepath.Glob(filepath.Join(apiDir, "*", "v*", "register.go"))
	if err != nil {
		return nil, err
	}
	slices.Sort(sources)
	files := map[string][]byte{}
	var packages []*apiPackage
	for _, source := range sources {
		p, err := readPackage(filepath.Dir(source))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Dir(source), err)
		}
		packages = append(packages, p)
		files[p.file()] = p.render()
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("no API packages below %s", apiDir)
	}
	files["README.md"] = renderIndex(packages)
	return files, nil
}

func write(files map[string][]byte, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	stale, err := staleFiles(files, dir)
	if err != nil {
		return err
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func compare(files map[string][]byte, dir string) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !bytes.Equal(have, files[name]) {
			problems = append(problems, fmt.Errorf("%s is not what the types say; run 'make generate'",
				filepath.Join(dir, name)))
		}
	}
	stale, err := staleFiles(files, dir)
	if err != nil {
		return err
	}
	for _, name := range stale {
		problems = append(problems, fmt.Errorf("%s belongs to no API package", filepath.Join(dir, name)))
	}
	return errors.Join(problems...)
}

// staleFiles are those in dir that the generator would not write.
func staleFiles(files map[string][]byte, dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var stale []string
	for _, entry := range entries {
		if _, known := files[entry.Name()]; !known {
			stale = append(stale, entry.Name())
		}
	}
	return stale, nil
}
