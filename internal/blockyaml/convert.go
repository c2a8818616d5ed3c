package blockyaml

import "bytes"

// maxDepth bounds the recursion; manifests nest a dozen levels.
const maxDepth = 100

// ToJSON converts one YAML document whose root is a mapping, and reports whether it could. The result replaces the
// content of buffer, which may be nil, and is returned in any case so that its memory can be used again.
func ToJSON(data, buffer []byte) (out []byte, ok bool) {
	c := converter{data: data, out: buffer[:0]}
	ok = c.next() && c.more && c.mapping(c.indent, 0) && !c.more
	return c.out, ok
}

// converter reads line by line. The line at hand is the first one not yet consumed.
type converter struct {
	data []byte
	at   int // Begin of the line after the one at hand.
	out  []byte

	more   bool   // There is a line at hand.
	indent int    // Its indentation; for an entry of a sequence that of what follows the dash.
	line   []byte // What follows the indentation, without blanks at the end.
}

// next moves to the next line that is neither empty nor a comment. It reports false for a line that cannot be read.
func (c *converter) next() bool {
	for c.at < len(c.data) {
		raw := c.raw()
		text := bytes.TrimLeft(raw, " ")
		if len(text) == 0 || text[0] == '#' {
			if !readable(text) {
				return false
			}
			continue
		}
		c.more, c.indent, c.line = true, len(raw)-len(text), text
		return readable(text)
	}
	c.more, c.indent, c.line = false, -1, nil
	return true
}

// raw takes the next line as it is, but for blanks at its end.
func (c *converter) raw() []byte {
	end := bytes.IndexByte(c.data[c.at:], '\n')
	var line []byte
	if end < 0 {
		line, c.at = c.data[c.at:], len(c.data)
	} else {
		line, c.at = c.data[c.at:c.at+end], c.at+end+1
	}
	return bytes.TrimRight(line, " ")
}

// readable tells whether the text is printable ASCII.
func readable(text []byte) bool {
	for _, b := range text {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}

func dashed(line []byte) bool { return len(line) > 1 && line[0] == '-' && line[1] == ' ' }

// mapping converts the mapping whose first key is at hand.
func (c *converter) mapping(indent, depth int) bool {
	if depth > maxDepth {
		return false
	}
	var few [16][]byte // Keys so far: most mappings are small, and a list of slices needs no hashing.
	keys := few[:0]
	c.out = append(c.out, '{')
	for c.more && c.indent == indent && c.line[0] != '-' {
		key, value, ok := cutKey(c.line)
		if !ok {
			return false
		}
		for _, known := range keys {
			if bytes.Equal(known, key) {
				return false
			}
		}
		if len(keys) > 0 {
			c.out = append(c.out, ',')
		}
		keys = append(keys, key)
		c.out = append(c.out, '"')
		c.out = append(c.out, key...)
		c.out = append(c.out, '"', ':')
		if !c.value(value, indent, depth) {
			return false
		}
	}
	c.out = append(c.out, '}')
	return c.indent <= indent
}

// value converts what belongs to a key at the given indentation; text is what follows it in its line.
func (c *converter) value(text []byte, indent, depth int) bool {
	if len(text) > 0 && text[0] == '|' {
		return c.literal(text, indent)
	}
	if !c.next() {
		return false
	}
	if len(text) > 0 {
		// Deeper lines would go on with the scalar.
		return c.indent <= indent && c.scalar(text)
	}
	switch {
	case c.indent > indent && dashed(c.line), c.indent == indent && dashed(c.line):
		return c.sequence(c.indent, depth+1)
	case c.indent > indent:
		return c.mapping(c.indent, depth+1)
	}
	c.out = append(c.out, "null"...)
	return true
}

// sequence converts the sequence whose first entry is at hand.
func (c *converter) sequence(indent, depth int) bool {
	if depth > maxDepth {
		return false
	}
	c.out = append(c.out, '[')
	for first := true; c.more && c.indent == indent && dashed(c.line); first = false {
		if !first {
			c.out = append(c.out, ',')
		}
		entry := bytes.TrimLeft(c.line[1:], " ")
		if len(entry) == 0 || entry[0] == '-' || entry[0] == '|' {
			return false
		}
		if _, _, isKey := cutKey(entry); isKey {
			c.indent += len(c.line) - len(entry)
			c.line = entry
			if !c.mapping(c.indent, depth+1) {
				return false
			}
			continue
		}
		if !c.next() || c.indent > indent || !c.scalar(entry) {
			return false
		}
	}
	c.out = append(c.out, ']')
	return c.indent <= indent
}

// literal converts a block of text that keeps its line breaks.
func (c *converter) literal(header []byte, indent int) bool {
	strip := len(header) == 2 && header[1] == '-'
	if len(header) > 1 && !strip {
		return false
	}
	margin, empty := -1, 0
	c.out = append(c.out, '"')
	for c.at < len(c.data) {
		begin := c.at
		end := bytes.IndexByte(c.data[begin:], '\n')
		if end < 0 {
			return false // Whether the last line counts as broken is for others to tell.
		}
		line := c.data[begin : begin+end]
		text := bytes.TrimLeft(line, " ")
		if len(text) == 0 {
			if margin < 0 || len(line) > margin {
				return false
			}
			empty++
			c.at = begin + end + 1
			continue
		}
		depth := len(line) - len(text)
		if margin < 0 {
			if margin = depth; depth <= indent {
				return false
			}
		} else {
			if depth <= indent {
				break
			}
			if depth < margin {
				return false
			}
			for range empty + 1 {
				c.out = append(c.out, '\\', 'n')
			}
		}
		if empty = 0; !readable(text) {
			return false
		}
		c.out = appendEscaped(c.out, line[margin:])
		c.at = begin + end + 1
	}
	if margin < 0 {
		return false
	}
	if !strip {
		c.out = append(c.out, '\\', 'n')
	}
	c.out = append(c.out, '"')
	return c.next()
}
