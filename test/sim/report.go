package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func (w *World) tracef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf("%s ", time.Now().UTC().Format("02 15:04:05.000"))+fmt.Sprintf(format, args...))
}

// failf fails the run. The step still ends.
func (w *World) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// fatalf fails the run and ends it. Only for the goroutine of the test.
func (w *World) fatalf(format string, args ...any) {
	w.failf(format, args...)
	panic(errStop)
}

// report fails the test with the information to understand and to repeat it.
func (w *World) report(t *testing.T) {
	t.Helper()
	if len(w.failures) == 0 {
		return
	}
	last := w.trace[max(0, len(w.trace)-traceLines):]
	if os.Getenv(envSeed) != "" {
		last = nil // All of it is logged.
	}
	t.Errorf("seed %d: %s\n\n%s\n\nreplay: %s=%d go test -tags grpcnotrace -run '^%s$' %s", w.seed, w.failures[0],
		strings.Join(last, "\n"), envSeed, w.seed, t.Name(), packageOf())
}

// packageOf is the folder of the test, in which it runs.
func packageOf() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for _, top := range []string{"internal", "local", "extension", "test"} {
		if _, below, ok := strings.Cut(dir, "/"+top+"/"); ok {
			return "./" + top + "/" + below
		}
	}
	return "."
}
