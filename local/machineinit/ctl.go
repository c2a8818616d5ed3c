package machineinit

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"text/tabwriter"
	"time"

	"hortus.dev/hortus/local/machineinit/unit"
)

const controlUsage = `usage:
  init ctl list
  init ctl status|start|stop|restart|enable|disable UNIT
  init ctl daemon-reload
  init ctl update VERSION     install another version of the machine image, and reboot
  init ctl reboot`

// Control is the command line "init ctl": it sends the command in args to process 1 at socket.
func Control(ctx context.Context, socket string, args []string, out io.Writer) error {
	client := unit.NewClient(socket)
	switch {
	case len(args) == 1 && args[0] == "list":
		list, err := client.List(ctx)
		if err != nil {
			return err
		}
		return printStatus(out, list...)
	case len(args) == 1 && args[0] == "daemon-reload":
		return client.Reload(ctx)
	case len(args) == 1 && args[0] == "reboot":
		return Reboot(ctx, socket)
	case len(args) == 2 && args[0] == "update":
		return Update(ctx, "/", args[1], func(ctx context.Context) error {
			if err := Reboot(ctx, socket); err != nil {
				return err
			}
			<-ctx.Done() // The command ends with the reboot; it has printed the image's version before.
			return nil
		})
	case len(args) == 2 && args[0] == "status":
		status, err := client.Status(ctx, args[1])
		if err != nil {
			return err
		}
		return printStatus(out, status)
	case len(args) == 2:
		actions := map[string]func(context.Context, string) error{
			"start": client.Start, "stop": client.Stop, "restart": client.Restart,
			"enable": client.Enable, "disable": client.Disable,
		}
		if action, known := actions[args[0]]; known {
			return action(ctx, args[1])
		}
	}
	return fmt.Errorf("unknown command\n%s", controlUsage)
}

// Reboot makes process 1 at socket end; the cloud then restarts the machine.
func Reboot(ctx context.Context, socket string) error {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://init/v1/reboot", nil)
	if err != nil {
		return fmt.Errorf("request a reboot: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("request a reboot: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("request a reboot: process 1 answered %s", response.Status)
	}
	return nil
}

func printStatus(out io.Writer, list ...unit.Status) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "UNIT\tSTATE\tENABLED\tPID\tRESTARTS\tSINCE\tLAST RESULT")
	for _, status := range list {
		since := "-"
		if !status.Since.IsZero() {
			since = status.Since.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%t\t%d\t%d\t%s\t%s\n", status.Name, status.State, status.Enabled, status.PID,
			status.Restarts, since, status.Message)
	}
	return table.Flush()
}
