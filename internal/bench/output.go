package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// printReport writes a report as JSON or, by its own function, as a table.
func printReport(out io.Writer, format string, report any, table func(*tabwriter.Writer)) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	table(w)
	return w.Flush()
}

// writeReport writes a report as JSON to a file, in addition to the output for people. Without a path it does nothing.
func writeReport(path string, report any) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	if err := errors.Join(printReport(file, "json", report, nil), file.Close()); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	return nil
}

// showReport ends a bench: its report is kept in the file, if there is one, and printed.
func showReport(out io.Writer, format, file string, report any, table func(*tabwriter.Writer)) error {
	if err := writeReport(file, report); err != nil {
		return err
	}
	return printReport(out, format, report, table)
}

func (r *APIReport) table(w *tabwriter.Writer) {
	fmt.Fprintf(w, "Server %s, %d clients, %d watchers, Shoots of %d bytes\nMachine: %s\n\n", r.Server, r.Clients,
		r.Watchers, r.ShootBytes, r.Host)
	fmt.Fprintln(w, "PHASE\tSHOOTS\tCOUNT\tPER SECOND\tP50 ms\tP99 ms\tMAX ms\tBYTES\tSERVER CPU ms")
	for _, m := range r.Measurements {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%s\n",
			m.Phase, m.Shoots, m.Count, m.PerSecond, m.P50, m.P99, m.Max, m.BytesPerOperation, known(m.CPUMilliseconds, "%.2f"))
	}
	if len(r.Memory) == 0 {
		return
	}
	fmt.Fprintln(w, "\nSERVER MEMORY\tSHOOTS\tRESIDENT MiB\tPEAK MiB")
	for _, m := range r.Memory {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%s\n", m.Moment, m.Shoots, mebibytes(m.ResidentBytes),
			known(mebibytes(m.PeakBytes), "%.0f"))
	}
}

func known(value float64, format string) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
