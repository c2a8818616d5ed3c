package manifest

import (
	"regexp"
	"strconv"
	"strings"
)

// lineOf matches the line number, relative to the text, in a message of the parser.
var lineOf = regexp.MustCompile(`^line ([0-9]+): `)

// syntax converts an error of the parser to a problem.
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
