package cli_test

import (
	"net/netip"
	"testing"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/cli"
)

// TestMetricsAreServedInsidePodsByDefault: serving metrics to others requires a flag.
func TestMetricsAreServedInsidePodsByDefault(t *testing.T) {
	seen := 0
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		if flag := c.Flags().Lookup("metrics-address"); flag != nil {
			seen++
			address, err := netip.ParseAddrPort(flag.DefValue)
			if flag.DefValue != "0" && (err != nil || !address.Addr().IsLoopback()) {
				t.Errorf("%s: --metrics-address is %s by default (127.0.0.1, or 0 for off)", c.CommandPath(), flag.DefValue)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(cli.NewCommand())
	if seen == 0 {
		t.Error("no command has the flag")
	}
}
