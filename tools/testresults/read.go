package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// event is one of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // Seconds.
}

// state is the outcome of a test.
type state string

const (
	passed  state = "passed"
	failed  state = "failed"
	skipped state = "skipped"
)

// test is a test function that was run; its subtests are part of it.
type test struct {
	pkg, name string
	state     state // Empty while it runs.
	seconds   float64
	took      float64 // Without the time of waiting for other stories, of tests that log it.
	log       string  // The last line that it logged.
	output    strings.Builder
}

// pkg is a package whose tests were run.
type pkg struct {
	name    string
	state   state // Empty while it runs.
	cached  bool
	seconds float64
	output  strings.Builder
}

// reader collects the results in the output of go test.
type reader struct {
	out      io.Writer
	tests    []*test
	packages []*pkg
	// byName finds tests by package and name. Those of go test -v have no package before its last line.
	byName    map[[2]string]*test
	byPackage map[string]*pkg
	// running is the test that the lines of go test -v are from.
	running string
}

func newReader(out io.Writer) *reader {
	return &reader{out: out, byName: map[[2]string]*test{}, byPackage: map[string]*pkg{}}
}

// all reads the output of go test to its end and passes it on.
func (r *reader) all(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := r.line(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read results: %w", err)
		}
	}
	return r.end()
}

func (r *reader) line(line string) error {
	var e event
	if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
		return r.event(e)
	}
	if _, err := io.WriteString(r.out, line); err != nil {
		return err
	}
	r.text(strings.TrimRight(line, "\r\n"))
	return nil
}

// event handles an event of go test -json. What packages print is passed on if they fail.
func (r *reader) event(e event) error {
	name, _, isSubtest := strings.Cut(e.Test, "/")
	switch {
	case e.Action == "build-output":
		_, err := io.WriteString(r.out, e.Output)
		return err
	case e.Package == "":
		return nil
	case e.Action == "output" && name != "":
		t := r.test(e.Package, name)
		t.output.WriteString(e.Output)
		t.logged(e.Output)
	case e.Action == "output":
		p := r.pkg(e.Package)
		p.output.WriteString(e.Output)
		p.cached = p.cached || strings.HasSuffix(e.Output, "\t(cached)\n")
	case name != "" && !isSubtest:
		if s := stateOf(e.Action); s != "" {
			t := r.test(e.Package, name)
			t.state, t.seconds = s, e.Elapsed
		}
	case name == "":
		if s := stateOf(e.Action); s != "" {
			p := r.pkg(e.Package)
			p.state, p.seconds = s, e.Elapsed
			return r.show(p)
		}
	}
	return nil
}

func stateOf(action string) state {
	return map[string]state{"pass": passed, "fail": failed, "skip": skipped}[action]
}

// show prints the result of a package of go test -json, as go test does.
func (r *reader) show(p *pkg) error {
	var text strings.Builder
	if p.state == failed {
		for _, t := range r.tests {
			if t.pkg == p.name && t.state != passed && t.state != skipped {
				text.WriteString(t.output.String())
			}
		}
		text.WriteString(p.output.String())
	} else {
		for line := range strings.Lines(p.output.String()) {
			if strings.HasPrefix(line, "ok  \t") {
				text.WriteString(line)
			}
		}
	}
	for _, t := range r.tests {
		if t.pkg == p.name {
			t.output.Reset()
		}
	}
	p.output.Reset()
	_, err := io.WriteString(r.out, text.String())
	return err
}

// end handles tests and packages of which the input has the beginning alone: they have failed.
func (r *reader) end() error {
	for _, t := range r.tests {
		if t.state == "" {
			t.state = failed
			t.log = "no result"
		}
	}
	for _, p := range r.packages {
		if p.state == "" {
			p.state = failed
			if err := r.show(p); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	section     = regexp.MustCompile(`^=== (?:RUN|CONT|NAME|PAUSE) +(\S+)$`)
	testEnd     = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)$`)
	packageEnd  = regexp.MustCompile(`^(ok  |FAIL|---)\t(\S+)\t(?:([0-9.]+)s|(\(cached\)|\[[a-z ]+\]))`)
	logged      = regexp.MustCompile(`^ {4,}([A-Za-z0-9_]+\.go:\d+: .*)$`)
	storyTook   = regexp.MustCompile(`^\w+\.go:\d+: the story took (\S+)$`)
	aboutStates = regexp.MustCompile(`^\w+\.go:\d+: (?:the story took |the state of the landscape is in )`)
)

// text handles a line of go test -v.
func (r *reader) text(line string) {
	if match := section.FindStringSubmatch(line); match != nil {
		r.running, _, _ = strings.Cut(match[1], "/")
		r.test("", r.running)
		return
	}
	if match := testEnd.FindStringSubmatch(line); match != nil {
		t := r.test("", match[2])
		t.state = stateOf(strings.ToLower(match[1]))
		t.seconds, _ = strconv.ParseFloat(match[3], 64)
		return
	}
	if match := packageEnd.FindStringSubmatch(line); match != nil {
		p := r.pkg(match[2])
		p.state = passed
		if match[1] == "FAIL" {
			p.state = failed
		}
		p.seconds, _ = strconv.ParseFloat(match[3], 64)
		p.cached = match[4] == "(cached)"
		for _, t := range r.tests {
			if t.pkg == "" {
				t.pkg = p.name
				delete(r.byName, [2]string{"", t.name})
			}
		}
		r.running = ""
		return
	}
	if r.running != "" {
		r.test("", r.running).logged(line)
	}
}

// logged keeps what a test has logged last, apart from its own time.
func (t *test) logged(line string) {
	match := logged.FindStringSubmatch(strings.TrimRight(line, "\n"))
	if match == nil {
		return
	}
	if took := storyTook.FindStringSubmatch(match[1]); took != nil {
		if d, err := time.ParseDuration(took[1]); err == nil {
			t.took = d.Seconds()
		}
	}
	if !aboutStates.MatchString(match[1]) {
		t.log = match[1]
	}
}

// test is the one of this name, which it adds if it is new.
func (r *reader) test(pkg, name string) *test {
	key := [2]string{pkg, name}
	t := r.byName[key]
	if t == nil {
		t = &test{pkg: pkg, name: name}
		r.tests, r.byName[key] = append(r.tests, t), t
	}
	return t
}

// pkg is the package of this name, which it adds if it is new.
func (r *reader) pkg(name string) *pkg {
	p := r.byPackage[name]
	if p == nil {
		p = &pkg{name: name}
		r.packages, r.byPackage[name] = append(r.packages, p), p
	}
	return p
}

// longest is the time, in seconds, of the package or test that took longest, without cached results.
func (r *reader) longest() float64 {
	var longest float64
	for _, t := range r.tests {
		if p := r.byPackage[t.pkg]; p == nil || !p.cached {
			longest = max(longest, t.seconds)
		}
	}
	for _, p := range r.packages {
		longest = max(longest, p.seconds)
	}
	return longest
}
