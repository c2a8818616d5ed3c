package output_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/output"
)

func TestAddFlag(t *testing.T) {
	for name, tc := range map[string]struct {
		standard, want, err string
		args                []string
	}{
		"the first format is the default": {want: "table"},
		"another default":                 {standard: "yaml", want: "yaml"},
		"a format":                        {args: []string{"-o", "json"}, want: "json"},
		"another value": {args: []string{"-o", "xml"},
			err: `invalid argument "xml" for "-o, --output" flag: unsupported value (table, json, yaml)`},
	} {
		t.Run(name, func(t *testing.T) {
			format, got := tc.standard, ""
			cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
				got = format
				return nil
			}}
			output.AddFlag(cmd, &format, "table", "json", "yaml")
			cmd.SetArgs(tc.args)
			err := ""
			if e := cmd.Execute(); e != nil {
				err = e.Error()
			}
			if got != tc.want || err != tc.err {
				t.Errorf("the format is %q, the error %q; want %q, %q", got, err, tc.want, tc.err)
			}
			if usage := cmd.UsageString(); !strings.Contains(usage, "output format: table, json or yaml") {
				t.Errorf("the usage does not list the formats:\n%s", usage)
			}
		})
	}
}
