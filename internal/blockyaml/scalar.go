package blockyaml

import "bytes"

// maxKey is far below the 1024 characters to which YAML limits keys without a mark.
const maxKey = 256

// cutKey splits a line at the colon of its key. Only keys that need no quotes and are surely strings are taken.
func cutKey(line []byte) (key, value []byte, ok bool) {
	for i, b := range line {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
		case i == 0 || i > maxKey:
			return nil, nil, false
		case b == ':' && i+1 == len(line):
			return line[:i], nil, !special(line[:i])
		case b == ':' && line[i+1] == ' ':
			return line[:i], bytes.TrimLeft(line[i+1:], " "), !special(line[:i])
		case '0' <= b && b <= '9', b == '-', b == '_', b == '.', b == '/', b == ':':
		default:
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// specials are words that YAML 1.1 takes for something else than text, in lower case.
var specials = []string{"y", "yes", "n", "no", "on", "off", "true", "false", "null", "nan", "inf"}

func special(word []byte) bool {
	if len(word) > 5 {
		return false
	}
	for _, s := range specials {
		if len(s) == len(word) && bytes.EqualFold(word, []byte(s)) {
			return true
		}
	}
	return false
}

// scalar converts a value that is complete in one line.
func (c *converter) scalar(text []byte) bool {
	switch first := text[0]; {
	case first == '"':
		return c.doubleQuoted(text)
	case first == '\'':
		return c.singleQuoted(text)
	case len(text) == 2 && (string(text) == "{}" || string(text) == "[]"):
		c.out = append(c.out, text...)
		return true
	case 'a' <= first && first <= 'z', 'A' <= first && first <= 'Z', first == '/':
		if special(text) {
			switch string(text) {
			case "true", "false", "null":
				c.out = append(c.out, text...)
				return true
			}
			return false
		}
		return c.plain(text)
	case '0' <= first && first <= '9':
		if integer(text) {
			c.out = append(c.out, text...)
			return true
		}
		return surelyText(text) && c.plain(text)
	case first == '-' && integer(text[1:]) && text[1] != '0':
		c.out = append(c.out, text...)
		return true
	}
	return false
}

// plain converts text without quotes.
func (c *converter) plain(text []byte) bool {
	for i, b := range text {
		if b == ':' && (i+1 == len(text) || text[i+1] == ' ') || b == '#' && text[i-1] == ' ' {
			return false
		}
	}
	c.out = append(c.out, '"')
	c.out = appendEscaped(c.out, text)
	c.out = append(c.out, '"')
	return true
}

// integer tells whether the text is a decimal number that any reader takes for the same integer.
func integer(text []byte) bool {
	if len(text) == 0 || len(text) > 15 || text[0] == '0' && len(text) > 1 {
		return false
	}
	for _, b := range text {
		if b < '0' || b > '9' {
			return false
		}
	}
	return true
}

// surelyText tells whether something that begins with a digit is no number in any notation: it has a character that
// no number has, or a sign behind a digit (dates, UUIDs, times with an offset), or is a version of three parts.
func surelyText(text []byte) bool {
	dots, others := 0, false
	for i, b := range text {
		switch {
		case '0' <= b && b <= '9':
		case b == '.':
			dots++
		case (b == '-' || b == '+') && '0' <= text[i-1] && text[i-1] <= '9': // Never the first character.
			return true
		case bytes.IndexByte([]byte("_+-:abcdefABCDEFxXoOpPiInNtTyY"), b) >= 0:
			others = true
		default:
			return true
		}
	}
	return dots >= 2 && !others
}

// doubleQuoted takes the escapes that mean the same in JSON.
func (c *converter) doubleQuoted(text []byte) bool {
	last := len(text) - 1
	if last < 1 || text[last] != '"' {
		return false
	}
	for i := 1; i < last; i++ {
		switch text[i] {
		case '"':
			return false
		case '\\':
			if i++; i == last || bytes.IndexByte([]byte(`"\nrt`), text[i]) < 0 {
				return false
			}
		}
	}
	c.out = append(c.out, text...)
	return true
}

func (c *converter) singleQuoted(text []byte) bool {
	last := len(text) - 1
	if last < 1 || text[last] != '\'' {
		return false
	}
	c.out = append(c.out, '"')
	for i := 1; i < last; i++ {
		if text[i] == '\'' {
			if i++; i == last || text[i] != '\'' {
				return false
			}
		}
		c.out = appendEscaped(c.out, text[i:i+1])
	}
	c.out = append(c.out, '"')
	return true
}

// appendEscaped appends printable ASCII as the inside of a JSON string.
func appendEscaped(out, text []byte) []byte {
	for _, b := range text {
		if b == '"' || b == '\\' {
			out = append(out, '\\')
		}
		out = append(out, b)
	}
	return out
}
