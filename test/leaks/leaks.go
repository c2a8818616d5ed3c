// Package leaks finds goroutines that tests leave behind.
package leaks

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, fails if goroutines are still running after them, and exits. Call it from TestMain.
// Only klog's flush daemon does not count: the first log message starts it, and it never ends.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	)
}
