package systemd

import (
	"context"
	"fmt"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"

	"hortus.dev/hortus/internal/nodeagent/units"
)

// properties are the properties of a unit, by their names in org.freedesktop.systemd1.Unit and .Service.
type properties map[string]any

func (m Manager) properties(ctx context.Context, name string) (properties, error) {
	var found properties
	err := m.with(ctx, func(conn *dbus.Conn) (err error) {
		found, err = conn.GetAllPropertiesContext(ctx, name)
		return err
	})
	return found, err
}

func (p properties) text(name string) string {
	value, _ := p[name].(string)
	return value
}

func (p properties) state() string { return p.text("ActiveState") }

// exists reports whether the unit has a file or runs.
func (p properties) exists() bool {
	return p.text("LoadState") != "not-found" || p.state() != "inactive" && p.state() != "failed"
}

// settled reports whether no job is queued or running for the unit.
func (p properties) settled() bool {
	job, _ := p["Job"].([]any) // Number and object path.
	if len(job) > 0 && job[0] != uint32(0) {
		return false
	}
	return p.state() != "activating" && p.state() != "deactivating" || p.text("SubState") == "auto-restart"
}

func (p properties) status() units.Status {
	status := units.Status{Reason: p.reason()}
	switch p.state() {
	case "active", "reloading", "refreshing":
		status.State = units.Active
	case "activating":
		status.State = units.Activating
	case "deactivating":
		status.State = units.Deactivating
	case "failed":
		status.State = units.Failed
	default:
		status.State = units.Inactive
	}
	switch p.text("UnitFileState") {
	case "enabled", "enabled-runtime", "linked", "linked-runtime", "alias":
		status.Enabled = true
	}
	if pid, ok := p["MainPID"].(uint32); ok {
		status.PID = int(pid)
	}
	return status
}

// Ways in which processes end, as numbered in waitid(2).
var exitCodes = map[int32]string{1: "exit status", 2: "signal", 3: "signal"}

// reason returns how a unit has failed, like "exit-code (exit status 1)".
func (p properties) reason() string {
	if loadState := p.text("LoadState"); loadState != "loaded" && loadState != "" {
		return "unit file is " + loadState
	}
	result := p.text("Result")
	if result == "" || result == "success" {
		return ""
	}
	if code, ok := p["ExecMainCode"].(int32); ok && exitCodes[code] != "" {
		if status, ok := p["ExecMainStatus"].(int32); ok && status != 0 {
			return fmt.Sprintf("%s (%s %d)", result, exitCodes[code], status)
		}
	}
	return strings.TrimSpace(result)
}
