package systemd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Results of jobs, as in the signal JobRemoved of org.freedesktop.systemd1.Manager.
const (
	jobDone    = "done"
	jobSkipped = "skipped" // There was nothing to do.
)

const (
	// connectionCheckPeriod is the interval at which a job checks whether systemd has closed its connections.
	connectionCheckPeriod = time.Second
	// reconnectTimeout bounds how long systemd may be unreachable. It re-executes itself within a second.
	reconnectTimeout = time.Minute
	// statePeriod is the interval at which the state of a unit is read when there is no signal to wait for.
	statePeriod = 200 * time.Millisecond
)

// errDisconnected is returned when systemd closes its connections during a job, which it does when it re-executes
// itself. The job continues.
var errDisconnected = errors.New("systemd has closed the connection")

// enqueue requests a job whose result is sent to the channel.
type enqueue func(conn *dbus.Conn, result chan<- string) error

// runJob waits for the end of a job and returns its result.
func (m Manager) runJob(ctx context.Context, request enqueue) (string, error) {
	var result string
	err := m.with(ctx, func(conn *dbus.Conn) error {
		results := make(chan string, 1) // Buffered: the connection must not wait for receivers that have given up.
		if err := request(conn, results); err != nil {
			return err
		}
		ticker := time.NewTicker(connectionCheckPeriod)
		defer ticker.Stop()
		for {
			select {
			case result = <-results:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-ticker.C:
				if !conn.Connected() {
					return errDisconnected
				}
			}
		}
	})
	return result, err
}

// awaitState waits until a unit has no job and its state is not changing. It replaces a lost result of a job.
func (m Manager) awaitState(ctx context.Context, name string) (properties, error) {
	for reached := time.Now(); ; {
		found, err := m.properties(ctx, name)
		if err == nil {
			if found.settled() {
				return found, nil
			}
			reached = time.Now()
		}
		if time.Since(reached) >= reconnectTimeout {
			return properties{}, err
		}
		select {
		case <-ctx.Done():
			return properties{}, errors.Join(ctx.Err(), err)
		case <-time.After(statePeriod):
		}
	}
}

// start starts a unit by a job, and explains a failure.
func (m Manager) start(ctx context.Context, name string, request enqueue) error {
	// Otherwise systemd refuses units that have been started often within a short time.
	err := m.with(ctx, func(conn *dbus.Conn) error { return conn.ResetFailedUnitContext(ctx, name) })
	if err != nil && !isNotFound(err) {
		return explain(err, name)
	}
	result, err := m.runJob(ctx, request)
	switch {
	case errors.Is(err, errDisconnected):
		found, err := m.awaitState(ctx, name)
		if err != nil {
			return explain(err, name)
		}
		if found.state() != "failed" {
			return nil
		}
		result = "failed"
	case err != nil:
		return explain(err, name)
	case result == jobDone || result == jobSkipped:
		return nil
	}
	reason := ""
	if found, err := m.properties(ctx, name); err == nil && found.reason() != "" {
		reason = ": " + found.reason()
	}
	return fmt.Errorf("%s%s. See \"journalctl --unit=%s\"", describeResult(result), reason, name)
}

// describeResult describes the result of a job that has not succeeded.
func describeResult(result string) string {
	switch result {
	case "dependency":
		return "a unit that it requires has failed"
	case "timeout":
		return "the job timed out"
	case "canceled":
		return "canceled by another job"
	}
	return "job " + result // For example "job failed".
}
