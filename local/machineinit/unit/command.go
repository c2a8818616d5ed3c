package unit

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// Command is one line of ExecStart and its relatives.
type Command struct {
	Words []string
	// IgnoreFailure is set by "-" in front: a bad exit does not fail the unit.
	IgnoreFailure bool
	// NoExpansion is set by ":" in front: variables stay as they are.
	NoExpansion bool
}

// ParseCommand reads a command line. The prefixes that change privileges ("+", "!") mean nothing here.
func ParseCommand(line string) (Command, error) {
	var command Command
	rest := strings.TrimLeftFunc(line, func(r rune) bool {
		switch r {
		case '-':
			command.IgnoreFailure = true
		case ':':
			command.NoExpansion = true
		case '+', '!':
		default:
			return false
		}
		return true
	})
	words, err := splitWords(rest)
	if err != nil {
		return Command{}, err
	}
	if len(words) == 0 {
		return Command{}, errors.New("empty command")
	}
	command.Words = words
	return command, nil
}

// Args returns the words with variables and specifiers filled in: "${X}" anywhere, "$X" only as a whole word, which
// is then split at white space; "$$" and "%%" stand for themselves.
func (c Command) Args(env []string, unitName string) []string {
	values := map[string]string{}
	for _, entry := range env {
		key, value, _ := strings.Cut(entry, "=")
		values[key] = value
	}
	var args []string
	for _, word := range c.Words {
		word = expandSpecifiers(word, unitName)
		if c.NoExpansion {
			args = append(args, word)
			continue
		}
		if name, found := strings.CutPrefix(word, "$"); found && isName(name) {
			args = append(args, strings.Fields(values[name])...)
			continue
		}
		args = append(args, expandVariables(word, values))
	}
	return args
}

func expandSpecifiers(word, unitName string) string {
	return strings.NewReplacer("%%", "%", "%n", unitName, "%N", strings.TrimSuffix(unitName, ".service")).Replace(word)
}

func expandVariables(word string, values map[string]string) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(word, '$')
		if i < 0 || i+1 == len(word) {
			out.WriteString(word)
			return out.String()
		}
		out.WriteString(word[:i])
		word = word[i:]
		end := strings.IndexByte(word, '}')
		switch {
		case word[1] == '$':
			out.WriteByte('$')
			word = word[2:]
		case word[1] == '{' && end > 0 && isName(word[2:end]):
			out.WriteString(values[word[2:end]])
			word = word[end+1:]
		default:
			out.WriteByte('$')
			word = word[1:]
		}
	}
}

func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// splitWords splits at white space, honouring both kinds of quotes and backslash escapes.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c == '\\' && i+1 < len(line) && line[i+1] == '\n' { // A continued line.
			i++
			c = ' '
		}
		switch {
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteString(unescape(line[i]))
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// plainWord needs no quotes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./,=@-]+$`)

// Quote writes a word so that Environment= and commands without expansion (":" in front) read exactly that.
func Quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "%", "%%").Replace(word) + `"`
}

// unescape covers systemd's C-style escapes that have a use in command lines; others keep their backslash.
func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 's':
		return " "
	case '\\', '"', '\'', ' ', '$', '%':
		return string(c)
	}
	return `\` + string(c)
}

// readEnvironmentFile reads lines of NAME=value; quotes around a value are removed, comments skipped.
func readEnvironmentFile(file EnvironmentFile) ([]string, error) {
	f, err := os.Open(file.Path)
	if file.Optional && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read environment file: %w", err)
	}
	defer f.Close()
	var env []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		name, value, found := strings.Cut(line, "=")
		if !found || !isName(strings.TrimSpace(name)) {
			continue // Comments, empty lines, and what systemd would skip with a warning.
		}
		value = strings.TrimSpace(value)
		if len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		env = append(env, strings.TrimSpace(name)+"="+value)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read environment file %s: %w", file.Path, err)
	}
	return env, nil
}
