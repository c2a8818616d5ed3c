package validate

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// writers write results in the formats of --output.
var writers = map[string]func(io.Writer, []Result) error{
	"table": writeTable,
	"json": func(out io.Writer, results []Result) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(results)
	},
	"yaml": func(out io.Writer, results []Result) error {
		raw, err := yaml.Marshal(results)
		if err == nil {
			_, err = out.Write(raw)
		}
		return err
	},
}

// writeTable writes one line per manifest and below it one line per problem, in a form that editors can jump to.
func writeTable(out io.Writer, results []Result) error {
	for _, r := range results {
		state := "valid"
		if !r.Valid {
			state = "INVALID"
		} else if len(r.Warnings) == 0 && r.Skipped != "" && r.Kind != "Shoot" {
			state = "skipped"
		}
		if _, err := fmt.Fprintf(out, "%-8s%s\n", state, r.object()); err != nil {
			return err
		}
		for _, p := range r.Problems {
			if _, err := fmt.Fprintf(out, "  %s:%d: %s\n", r.File, p.Line, p); err != nil {
				return err
			}
		}
		for _, w := range r.Warnings {
			if _, err := fmt.Fprintf(out, "  warning: %s\n", w); err != nil {
				return err
			}
		}
		if r.Skipped != "" {
			if _, err := fmt.Fprintf(out, "  note: %s\n", r.Skipped); err != nil {
				return err
			}
		}
	}
	return nil
}

// object returns the name of a manifest.
func (r Result) object() string {
	at := fmt.Sprintf("%s:%d", r.File, r.Line)
	switch {
	case r.Kind == "":
		return at
	case r.Name == "":
		return r.Kind + " (" + at + ")"
	case r.Namespace == "":
		return fmt.Sprintf("%s %s (%s)", r.Kind, r.Name, at)
	default:
		return fmt.Sprintf("%s %s/%s (%s)", r.Kind, r.Namespace, r.Name, at)
	}
}
