package validate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// maxFileSize is more than etcd stores of an object many times over; larger files are no manifests.
const maxFileSize = 64 << 20

// document is one manifest of a file.
type document struct {
	file   string
	line   int            // Where it begins, from 1.
	object map[string]any // Nil if it could not be read.
	lines  lines
	// problems found while reading.
	problems []Problem
}

// readAll reads the manifests of files, directories and, for "-", of standard input.
func readAll(paths []string, in io.Reader) ([]document, error) {
	var documents []document
	for _, path := range paths {
		if path == "-" {
			found, err := readFrom("stdin", in)
			if err != nil {
				return nil, err
			}
			documents = append(documents, found...)
			continue
		}
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			found, err := readFile(name)
			if err != nil {
				return nil, err
			}
			documents = append(documents, found...)
		}
	}
	return documents, nil
}

// filesOf returns a file, or the manifests below a directory in the order of their names.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find manifests: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	return files, nil
}

func readFile(name string) ([]document, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	defer f.Close()
	return readFrom(name, f)
}

// readFrom splits a stream into documents. JSON is YAML.
func readFrom(name string, in io.Reader) ([]document, error) {
	raw, err := io.ReadAll(io.LimitReader(in, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(raw) > maxFileSize {
		return nil, fmt.Errorf("read %s: is larger than %d bytes", name, maxFileSize)
	}
	var documents []document
	for _, part := range splitDocuments(raw) {
		documents = append(documents, parseDocument(name, part.line, part.text)...)
	}
	return documents, nil
}

type part struct {
	line int
	text []byte
}

// splitDocuments splits at lines that begin with three hyphens.
func splitDocuments(raw []byte) []part {
	var parts []part
	current := part{line: 1}
	number := 0
	for line := range bytes.Lines(raw) {
		number++
		if bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.ContainsRune(" \t\r\n", rune(line[3]))) {
			parts = append(parts, current)
			current = part{line: number + 1}
			continue
		}
		current.text = append(current.text, line...)
	}
	return append(parts, current)
}

// parseDocument reads one document; a list becomes a document for each of its items.
func parseDocument(name string, line int, text []byte) []document {
	var root, rest yamlnode.Node
	decoder := yamlnode.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil // Nothing but comments.
	} else if err != nil {
		return []document{broken(name, line, err)}
	}
	if err := decoder.Decode(&rest); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("what follows belongs to no document; is the indentation right?")
		}
		return []document{broken(name, line, err)}
	}
	if len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return nil
	}
	node := root.Content[0]
	d := document{file: name, line: line + node.Line - 1, lines: lines{}}
	d.problems = d.lines.collect(node, "", line-1)
	// The conversion that kubectl uses, so that yes, 0o17 and the like mean the same.
	if err := yaml.Unmarshal(text, &d.object); err != nil {
		return []document{broken(name, line, err)}
	}
	if items, ok := d.object["items"].([]any); ok && strings.HasSuffix(stringAt(d.object, "kind"), "List") {
		return d.items(items)
	}
	return []document{d}
}

// lineOf finds the line within a document in a message of the parser.
var lineOf = regexp.MustCompile(`^line ([0-9]+): `)

// broken is a document, beginning at the given line, that cannot be parsed.
func broken(name string, line int, err error) document {
	message, at := strings.TrimPrefix(err.Error(), "yaml: "), line
	if match := lineOf.FindStringSubmatch(message); match != nil {
		message = strings.TrimPrefix(message, match[0])
		if n, err := strconv.Atoi(match[1]); err == nil {
			at += n - 1
		}
	}
	return document{file: name, line: line, problems: []Problem{{Type: TypeSyntax, Line: at, Message: message}}}
}

// items splits a list. Items without apiVersion and kind are of the list's kind.
func (d document) items(items []any) []document {
	kind := strings.TrimSuffix(stringAt(d.object, "kind"), "List")
	var documents []document
	for i, item := range items {
		prefix := fmt.Sprintf("items[%d]", i)
		object, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if kind != "" && object["kind"] == nil {
			object["kind"], object["apiVersion"] = kind, d.object["apiVersion"]
		}
		entry := document{file: d.file, line: d.lines[prefix], object: object, lines: lines{}}
		for path, line := range d.lines {
			if rest, ok := strings.CutPrefix(path, prefix+"."); ok {
				entry.lines[rest] = line
			}
		}
		for _, problem := range d.problems {
			if rest, ok := strings.CutPrefix(problem.Field, prefix+"."); ok {
				problem.Field = rest
				entry.problems = append(entry.problems, problem)
			}
		}
		documents = append(documents, entry)
	}
	return documents
}

func stringAt(object map[string]any, keys ...string) string {
	var in any = object
	for _, key := range keys {
		m, ok := in.(map[string]any)
		if !ok {
			return ""
		}
		in = m[key]
	}
	text, _ := in.(string)
	return text
}
