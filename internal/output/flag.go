// Package output is the flag --output of commands: the format in which they print their results.
package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// AddFlag adds the flag --output, -o to a command, which refuses other values than the formats. The first one is the
// default unless format has a value.
func AddFlag(cmd *cobra.Command, format *string, formats ...string) {
	if *format == "" {
		*format = formats[0]
	}
	last := len(formats) - 1
	cmd.Flags().VarP(&value{format, formats}, "output", "o",
		"output format: "+strings.Join(formats[:last], ", ")+" or "+formats[last])
	completions := cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("output", completions); err != nil {
		panic(err) // The flag is defined above.
	}
}

// value is the value of the flag.
type value struct {
	format    *string
	supported []string
}

func (v *value) String() string { return *v.format }

func (v *value) Type() string { return "string" }

func (v *value) Set(format string) error {
	if !slices.Contains(v.supported, format) {
		return fmt.Errorf("unsupported value (%s)", strings.Join(v.supported, ", "))
	}
	*v.format = format
	return nil
}
