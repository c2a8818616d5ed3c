package docs_test

import (
	"regexp"
	"strings"
)

// document has the parts of a Markdown file that can be checked.
type document struct {
	prose    string   // Without fenced blocks.
	commands []string // Lines of fenced blocks, and code in sentences that begins with one of our programs.
	links    []string
	headings []string // As anchors.
}

var (
	linkPattern   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inlinePattern = regexp.MustCompile("`((?:make|hortus) [^`]+)`")
	notInAnchor   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func parse(text string) document {
	var doc document
	var prose strings.Builder
	fence, joined := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fence, joined = !fence, ""
			continue
		}
		if fence {
			if rest, continued := strings.CutSuffix(line, `\`); continued {
				joined += rest
				continue
			}
			doc.commands = append(doc.commands, strings.TrimPrefix(strings.TrimSpace(joined+line), "$ "))
			joined = ""
			continue
		}
		prose.WriteString(line + "\n")
		if marks := strings.IndexFunc(line, func(r rune) bool { return r != '#' }); marks > 0 && line[marks] == ' ' {
			doc.headings = append(doc.headings, slug(line[marks+1:]))
		}
	}
	doc.prose = prose.String()
	for _, match := range linkPattern.FindAllStringSubmatch(doc.prose, -1) {
		doc.links = append(doc.links, match[1])
	}
	for _, match := range inlinePattern.FindAllStringSubmatch(doc.prose, -1) {
		doc.commands = append(doc.commands, match[1])
	}
	return doc
}

// slug is the anchor of a heading.
func slug(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// commandsOf splits a line of shell into simple commands, including those in $(...), each as words without quotes,
// assignments and redirections. It supports the part of the shell that the documents use.
func commandsOf(line string) [][]string {
	var all [][]string
	var words []string
	var word strings.Builder
	started := false
	endWord := func() {
		if started {
			words = append(words, word.String())
		}
		word.Reset()
		started = false
	}
	endCommand := func() {
		endWord()
		if simple := simplify(words); len(simple) > 0 {
			all = append(all, simple)
		}
		words = nil
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'' || c == '"':
			end := strings.IndexByte(line[i+1:], c)
			if end < 0 {
				end = len(line) - i - 1
			}
			word.WriteString(line[i+1 : i+1+end])
			started = true
			i += end + 1
		case c == '$' && i+1 < len(line) && line[i+1] == '(':
			end := closing(line, i+2)
			all = append(all, commandsOf(line[i+2:end])...)
			word.WriteString("$()")
			started = true
			i = end
		case c == '#' && !started:
			endCommand()
			return all
		case c == ' ':
			endWord()
		case c == '|' || c == ';' || c == '&':
			endCommand()
		default:
			word.WriteByte(c)
			started = true
		}
	}
	endCommand()
	return all
}

// closing returns where the parenthesis that was opened before start is closed.
func closing(line string, start int) int {
	depth := 1
	for i := start; i < len(line); i++ {
		switch line[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	return len(line)
}

var assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)

// simplify drops leading assignments, and redirections with their files.
func simplify(words []string) []string {
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	var kept []string
	for i := 0; i < len(words); i++ {
		if strings.HasPrefix(words[i], ">") || strings.HasPrefix(words[i], "<") && !strings.HasSuffix(words[i], ">") ||
			strings.HasPrefix(words[i], "2>") {
			if strings.Trim(words[i], "<>2") == "" {
				i++ // The file is the next word.
			}
			continue
		}
		kept = append(kept, words[i])
	}
	return kept
}
