package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// piece is a part of a file that can be parsed separately.
type piece struct {
	file     string
	document int // Number in the file, starting at 1.
	line     int // First line of the text, starting at 1.
	text     []byte
	json     bool
	dashed   bool     // The text is one item of a sequence, with its dash.
	item     bool     // The piece is an item of a List,
	list     typeMeta // of objects of this kind unless they name another,
	whole    *piece   // which is this one if it is YAML.
}

// typeMeta is the type of an object.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// item returns the type of the list's items that have none, and whether this is the kind of a list.
func (t typeMeta) item() (of typeMeta, isList bool) {
	kind, isList := strings.CutSuffix(t.Kind, "List")
	if !isList || kind == "" {
		return typeMeta{}, isList
	}
	return typeMeta{t.APIVersion, kind}, true
}

// split splits a file at document separators, and Lists into their items.
func split(file string, data []byte) []piece {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // The byte order mark that some editors write.
	var pieces []piece
	document, start, startLine, number := 0, 0, 1, 1
	add := func(end int) {
		text, skipped := skipEmptyLines(data[start:end])
		if len(text) == 0 {
			return
		}
		document++
		whole := piece{file: file, document: document, line: startLine + skipped, text: text}
		parts, ok := splitJSON(whole)
		if !ok {
			parts = splitList(whole)
		}
		pieces = append(pieces, parts...)
	}
	for at := 0; at < len(data); number++ {
		line, next := cutLine(data, at)
		if isMarker(line) {
			add(at)
			start, startLine = at+len("---"), number
		}
		at = next
	}
	add(len(data))
	return pieces
}

// skipEmptyLines returns the text from its first line that is not empty, a comment or a directive.
func skipEmptyLines(text []byte) (rest []byte, skipped int) {
	for at := 0; at < len(text); skipped++ {
		line, next := cutLine(text, at)
		if content := bytes.TrimSpace(line); len(content) > 0 && content[0] != '#' && line[0] != '%' {
			return text[at:], skipped
		}
		at = next
	}
	return nil, 0
}

// isMarker reports whether a line is a document separator: three dashes that are not part of a word.
func isMarker(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

// cutLine returns the line that begins at an offset, without trailing white space, and the offset of the next line.
func cutLine(data []byte, at int) (line []byte, next int) {
	if end := bytes.IndexByte(data[at:], '\n'); end >= 0 {
		return bytes.TrimRight(data[at:at+end], " \t\r"), at + end + 1
	}
	return bytes.TrimRight(data[at:], " \t\r"), len(data)
}

// splitJSON splits consecutive JSON objects, and Lists among them. It returns false for YAML in flow style.
func splitJSON(whole piece) ([]piece, bool) {
	if bytes.TrimSpace(whole.text)[0] != '{' {
		return nil, false
	}
	if json.Valid(whole.text) { // Without a copy of a text that may be very large.
		whole.json = true
		return orItems(whole), true
	}
	var pieces []piece
	lines := lineCounter{piece: &whole}
	decoder := json.NewDecoder(bytes.NewReader(whole.text))
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return pieces, true
		} else if err != nil {
			return nil, false
		}
		end := int(decoder.InputOffset())
		pieces = append(pieces, orItems(lines.part(end-len(raw), end))...)
	}
}

// orItems returns the items of a List in JSON, and any other object as it is.
func orItems(value piece) []piece {
	if bytes.Contains(value.text, []byte(`"items"`)) {
		if items, ok := splitJSONList(value); ok {
			return items
		}
	}
	return []piece{value}
}

// splitJSONList splits a List in JSON into its items. It returns false for other objects.
func splitJSONList(whole piece) ([]piece, bool) {
	var list typeMeta
	var items []piece
	lines := lineCounter{piece: &whole}
	decoder := json.NewDecoder(bytes.NewReader(whole.text))
	for token, err := decoder.Token(); ; token, err = decoder.Token() {
		var value any
		switch {
		case err != nil:
			of, isList := list.item()
			for i := range items {
				items[i].item, items[i].list = true, of
			}
			return items, isList && errors.Is(err, io.EOF) && items != nil
		case token == json.Delim('{'), token == json.Delim('}'):
			continue
		case token == "apiVersion":
			value = &list.APIVersion
		case token == "kind":
			value = &list.Kind
		case token == "items":
			if token, err := decoder.Token(); err != nil || token != json.Delim('[') || items != nil {
				return nil, false
			}
			for items = []piece{}; decoder.More(); {
				var raw json.RawMessage
				if err := decoder.Decode(&raw); err != nil {
					return nil, false
				}
				end := int(decoder.InputOffset())
				items = append(items, lines.part(end-len(raw), end))
			}
			if _, err := decoder.Token(); err != nil {
				return nil, false
			}
			continue
		default:
			value = &json.RawMessage{}
		}
		if err := decoder.Decode(value); err != nil {
			return nil, false
		}
	}
}

// lineCounter cuts consecutive parts from the text of a piece, and counts each line once.
type lineCounter struct {
	piece    *piece
	at, line int
}

func (c *lineCounter) part(begin, end int) piece {
	c.line += bytes.Count(c.piece.text[c.at:begin], []byte("\n"))
	c.at = begin
	return piece{
		file: c.piece.file, document: c.piece.document, line: c.piece.line + c.line,
		text: c.piece.text[begin:end], json: true,
	}
}

// splitList splits a List in YAML into its items if it has kubectl's format: block style, with the dashes in the first
// column. Any other text stays whole.
func splitList(whole piece) []piece {
	var items []piece
	var around []byte                         // Text outside of the items.
	inItems, begin, beginLine := false, -1, 0 // Beginning of the current item.
	endItem := func(at int) {
		if begin >= 0 {
			items = append(items, piece{
				file: whole.file, document: whole.document, line: beginLine,
				text: whole.text[begin:at], dashed: true, item: true, whole: &whole,
			})
		}
		begin = -1
	}
	for at, number := 0, whole.line; at < len(whole.text); number++ {
		line, next := cutLine(whole.text, at)
		switch {
		case len(line) == 0, line[0] == ' ', line[0] == '#':
		case bytes.HasPrefix(line, []byte("- ")) && inItems:
			endItem(at)
			begin, beginLine = at, number
		default:
			endItem(at)
			key, _, _ := bytes.Cut(line, []byte(":"))
			if !slices.Contains([]string{"apiVersion", "kind", "metadata", "items"}, string(key)) {
				return []piece{whole}
			}
			inItems = string(key) == "items"
		}
		if begin < 0 {
			around = append(around, whole.text[at:next]...)
		}
		at = next
	}
	endItem(len(whole.text))
	if len(items) == 0 {
		return []piece{whole}
	}
	var list struct {
		typeMeta `json:",inline"`
		Metadata any `json:"metadata"`
		Items    any `json:"items"`
	}
	err := yaml.UnmarshalStrict(around, &list)
	of, isList := list.item()
	// Aliases may refer from one item to another.
	aliases := bytes.Contains(whole.text, []byte(": &")) || bytes.Contains(whole.text, []byte("- &"))
	if err != nil || !isList || list.Items != nil || aliases {
		return []piece{whole}
	}
	for i := range items {
		items[i].list = of
	}
	return items
}
