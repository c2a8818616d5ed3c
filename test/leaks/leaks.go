// Package leaks finds goroutines that tests leave behind.
package leaks

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, fails if goroutines are still running after them, and exits. Call it from TestMain.
// Goroutines that libraries start once and never end do not count.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	)
}
