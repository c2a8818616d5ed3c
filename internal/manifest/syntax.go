package manifest

import (
	"regexp"
	"strconv"
	"strings"
)

// lineOf finds the line within a text in a message of the parser.
var lineOf = regexp.MustCompile(`^line ([0-9]+): `)

// syntax returns the problem that the parser had with the text.
func (s *source) syntax(err error) Problem {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), s.line
	if match := lineOf.FindStringSubmatch(message); match != nil {
		message = strings.TrimPrefix(message, match[0])
		if n, err := strconv.Atoi(match[1]); err == nil {
			line += n - 1
		}
	}
	return Problem{Type: TypeSyntax, Line: line, Message: message}
}
