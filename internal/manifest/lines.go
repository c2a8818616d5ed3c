package manifest

import (
	"fmt"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
)

// lines are the line numbers of a document's fields in the file.
type lines map[string]int

// collect records the lines of a node and its descendants, and returns the duplicate fields.
func (l lines) collect(node *yamlnode.Node, path string, offset int) []Problem {
	l[path] = node.Line + offset
	var problems []Problem
	switch node.Kind {
	case yamlnode.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			at := childPath(path, key.Value)
			if seen[key.Value] && key.Value != "<<" {
				problems = append(problems, Problem{
					Type: TypeDuplicateField, Field: at, Line: key.Line + offset, Message: messageDuplicate,
				})
			}
			seen[key.Value] = true
			problems = append(problems, l.collect(value, at, offset)...)
			l[at] = key.Line + offset
		}
	case yamlnode.SequenceNode:
		for i, value := range node.Content {
			problems = append(problems, l.collect(value, fmt.Sprintf("%s[%d]", path, i), offset)...)
		}
	}
	return problems
}

// childPath returns the path of a field in the form of errors. Keys that are not field names are in brackets.
func childPath(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./[]"):
		return path + "[" + key + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// of returns the line of a field, or of its nearest parent with a known line; 0 if nothing is known.
func (l lines) of(path string) int {
	for {
		if line, ok := l[path]; ok {
			return line
		}
		end := strings.LastIndexAny(path, ".[")
		if end < 0 {
			return l[""]
		}
		path = path[:end]
	}
}
