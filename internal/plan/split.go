package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// document is one manifest and where it is from.
type document struct {
	source string
	data   []byte
	json   bool
	kind   string // Of an entry of a list that need not tell it.
}

// splitDocuments cuts a stream at lines that begin with "---", and lists into their entries, so that they can be decoded
// independently.
func splitDocuments(source string, data []byte) []document {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // Some editors begin files with this mark.
	var documents []document
	start, startLine, number := 0, 1, 1
	add := func(end int) {
		if data := data[start:end]; !blank(data) {
			found, ok := splitJSON(data)
			if !ok {
				found = splitList(data)
			}
			for i := range found {
				found[i].source = fmt.Sprintf("%s, document from line %d", source, startLine)
			}
			documents = append(documents, found...)
		}
	}
	for at := 0; at < len(data); number++ {
		line, next := cutLine(data, at)
		if marker(line) {
			add(at)
			start, startLine = at+len("---"), number
			if rest := bytes.TrimSpace(line[len("---"):]); len(rest) > 0 && rest[0] == '#' {
				start = next
			}
		}
		at = next
	}
	add(len(data))
	return documents
}

// blank tells whether there is nothing but comments and directives.
func blank(data []byte) bool {
	for at := 0; at < len(data); {
		line, next := cutLine(data, at)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && len(bytes.TrimSpace(line)) > 0 {
			return false
		}
		at = next
	}
	return true
}

// marker tells whether a line begins a document: three dashes that are not part of a word.
func marker(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

// splitJSON splits what may be one JSON object after the other. It declines flow style YAML, which looks alike.
func splitJSON(data []byte) ([]document, bool) {
	if data = bytes.TrimSpace(data); data[0] != '{' {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	var documents []document
	for {
		var raw json.RawMessage
		begin := decoder.InputOffset()
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return documents, true
		} else if err != nil {
			return nil, false
		}
		value := bytes.TrimSpace(data[begin:decoder.InputOffset()])
		var list struct {
			Kind  string            `json:"kind"`
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(value, &list); err == nil {
			if kind, isList := listed(list.Kind); isList && list.Items != nil {
				for _, item := range list.Items {
					documents = append(documents, document{data: item, json: true, kind: kind})
				}
				continue
			}
		}
		documents = append(documents, document{data: value, json: true})
	}
}

// splitList cuts a list into its entries, if it is written as kubectl does. Everything else stays whole.
func splitList(data []byte) []document {
	var found entries
	for at := 0; at < len(data); {
		line, next := cutLine(data, at)
		if !found.add(line, at) {
			return []document{{data: data}}
		}
		at = next
	}
	found.end(len(data))
	kind, isList := listed(found.kind)
	// Aliases may cross entries.
	if !isList || len(found.at) == 0 || bytes.Contains(data, []byte(": &")) || bytes.Contains(data, []byte("- &")) {
		return []document{{data: data}}
	}
	documents := make([]document, 0, len(found.at))
	for _, bounds := range found.at {
		entry := data[bounds[0]:bounds[1]]
		entry[0] = ' ' // Instead of the dash: what is left is a mapping.
		documents = append(documents, document{data: entry, kind: kind})
	}
	return documents
}

// entries collects where the entries of a list are, line by line.
type entries struct {
	kind    string
	at      [][2]int
	begin   int // Of the entry at hand.
	inItems bool
	inEntry bool
}

// add takes a line, and reports whether the text may still be such a list.
func (e *entries) add(line []byte, at int) bool {
	switch {
	case len(line) == 0, line[0] == ' ', line[0] == '#':
		return true
	case bytes.HasPrefix(line, []byte("- ")):
		e.end(at)
		e.begin, e.inEntry = at, true
		return e.inItems
	}
	e.end(at)
	key, value, ok := bytes.Cut(line, []byte(":"))
	e.inItems = string(key) == "items"
	switch string(key) {
	case "kind":
		e.kind = string(bytes.Trim(value, ` "'`))
	case "items":
		return ok && len(value) == 0 && len(e.at) == 0
	case "apiVersion", "metadata":
	default:
		return false
	}
	return ok
}

// end closes the entry at hand, if there is one.
func (e *entries) end(at int) {
	if e.inEntry {
		e.at = append(e.at, [2]int{e.begin, at})
	}
	e.inEntry = false
}

// cutLine returns the line that begins at a place, without white space at its end, and where the next one begins.
func cutLine(data []byte, at int) (line []byte, next int) {
	if end := bytes.IndexByte(data[at:], '\n'); end >= 0 {
		return bytes.TrimRight(data[at:at+end], " \t\r"), at + end + 1
	}
	return bytes.TrimRight(data[at:], " \t\r"), len(data)
}
