// Command testresults keeps the last results of the tests: a file per part of them, and a page that shows all.
//
// It reads what go test prints for one part, passes it on, and replaces the results of that part. Usage, from the root
// of the repository or from tools:
//
//	go test -json ./... | testresults -part unit -into docs
//	testresults -part stories -into docs -day 2026-01-02 < log
//	testresults -part long -add -into docs < log
//	testresults -into docs
//
// With -add the known results of other tests stay: a part that takes longer than anybody waits is run in pieces.
//
// The input is that of go test -json, of which only failures and a line per package are passed on, or of go test -v.
// Without -part it writes the page alone. With -check nothing is written; it fails if the page differs from what it
// would write.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.part, "part", "", "`part` of the tests that the input is of: "+strings.Join(partNames(), ", "))
	flag.StringVar(&o.into, "into", "docs", "`folder` with the page and the results, from the root of the repository")
	flag.StringVar(&o.day, "day", time.Now().UTC().Format(time.DateOnly), "`day` of the run")
	flag.StringVar(&o.machine, "machine", thisMachine(), "`machine` of the run")
	flag.StringVar(&o.version, "version", "", "`version` that was tested; by default that of the sources")
	flag.DurationVar(&o.duration, "duration", 0, "`duration` of the run; by default that of the input")
	flag.BoolVar(&o.add, "add", false, "keep the known results of tests that the input does not have")
	flag.BoolVar(&o.check, "check", false, "fail if the page is not up to date, and write nothing")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("arguments: unexpected: %q (flags only)", flag.Arg(0))
	}
	root, err := repositoryRoot()
	if err != nil {
		log.Fatal(err)
	}
	if err := o.run(root, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

type options struct {
	part, into, day, machine, version string
	duration                          time.Duration
	add, check                        bool
}

func (o options) run(root string, in io.Reader, out io.Writer) error {
	folder := o.into
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(root, folder)
	}
	if o.part != "" {
		if err := o.record(root, folder, in, out); err != nil {
			return err
		}
	}
	content, err := page(root, folder)
	if err != nil {
		return err
	}
	file := filepath.Join(folder, pageName)
	if !o.check {
		return os.WriteFile(file, content, 0o644)
	}
	if present, err := os.ReadFile(file); err != nil || string(present) != string(content) {
		return errors.Join(err, fmt.Errorf("%s is not up to date; run 'go run -C tools ./testresults'", file))
	}
	return nil
}

// record reads the results of a part and replaces the known ones.
func (o options) record(root, folder string, in io.Reader, out io.Writer) error {
	i := slices.IndexFunc(parts, func(p part) bool { return p.name == o.part })
	if i < 0 {
		return fmt.Errorf("-part: invalid value: %q (%s)", o.part, strings.Join(partNames(), ", "))
	}
	if o.check {
		return errors.New("-check: not allowed with -part")
	}
	if o.add && !parts[i].byTest {
		return fmt.Errorf("-add: not allowed with -part %s, whose results are those of packages", o.part)
	}
	if _, err := time.Parse(time.DateOnly, o.day); err != nil {
		return fmt.Errorf("-day: invalid value: %q (such as 2026-01-02)", o.day)
	}
	began := time.Now()
	read := newReader(out)
	if err := read.all(in); err != nil {
		return err
	}
	results := parts[i].results(read)
	if len(results) == 0 {
		return fmt.Errorf("-part %s: no results in the input", o.part)
	}
	if err := printSlowest(out, results); err != nil {
		return err
	}
	version := o.version
	if version == "" {
		var err error
		if version, err = versionOf(root); err != nil {
			return err
		}
	}
	// A log that is read afterwards takes no time itself.
	elapsed := max(time.Since(began), time.Duration(read.longest()*float64(time.Second)))
	r := record{
		Part: o.part, Day: o.day, Version: version, Machine: o.machine,
		Seconds: int(cmp.Or(o.duration, elapsed).Round(time.Second).Seconds()), Results: results,
	}
	if o.add {
		known, err := load(folder)
		if err != nil {
			return err
		}
		for _, before := range known {
			if before.Part == o.part {
				r = r.addedTo(before)
			}
		}
	}
	return r.write(folder)
}

// printSlowest lists what took longest.
func printSlowest(out io.Writer, results []result) error {
	var text strings.Builder
	for i, r := range slices.SortedStableFunc(slices.Values(results), slowestFirst) {
		if i == 10 || r.Seconds == 0 {
			break
		}
		fmt.Fprintf(&text, "%8.1f  %s\n", r.Seconds, r.name())
	}
	_, err := fmt.Fprintf(out, "\nSlowest, seconds:\n%s", text.String())
	return err
}

// thisMachine describes the machine in a few words.
func thisMachine() string {
	text := fmt.Sprintf("%d cores", runtime.NumCPU())
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kilobytes int
		if _, err := fmt.Sscanf(string(info), "MemTotal: %d kB", &kilobytes); err == nil {
			text += fmt.Sprintf(", %d GB", (kilobytes+1<<19)>>20)
		}
	}
	return text + ", " + runtime.GOOS + "/" + runtime.GOARCH
}

// repositoryRoot is the folder of the main module, at or above the working directory.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module hortus.dev/hortus\n") {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return "", errors.New("the working directory is in no checkout of hortus.dev/hortus")
	}
}
