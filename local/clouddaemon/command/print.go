//go:build linux

package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// column is a column of a table.
type column[T any] struct {
	title string
	value func(T) string
	wide  bool // Only shown with -o wide.
}

// printItems writes items in the wanted format.
func printItems[T any](w io.Writer, format string, items []T, columns []column[T]) error {
	if format == "json" || format == "yaml" {
		return printValue(w, format, map[string]any{"items": items})
	}
	return printTable(w, items, columns, format == "wide")
}

// printOne writes a single item: as a row, or for JSON and YAML as the object itself.
func printOne[T any](w io.Writer, format string, item T, columns []column[T]) error {
	if format == "json" || format == "yaml" {
		return printValue(w, format, item)
	}
	return printItems(w, format, []T{item}, columns)
}

func printValue(w io.Writer, format string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil && format == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(data), "\n"))
	return err
}

func printTable[T any](w io.Writer, items []T, columns []column[T], wide bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(cell func(column[T]) string) {
		var cells []string
		for _, c := range columns {
			if wide || !c.wide {
				cells = append(cells, cell(c))
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row(func(c column[T]) string { return c.title })
	for _, item := range items {
		row(func(c column[T]) string {
			if v := c.value(item); v != "" {
				return v
			}
			return "-"
		})
	}
	return t.Flush()
}
