package unit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/unit"
)

// Type says when a unit counts as started.
type Type string

const (
	// Simple units are started when their process runs.
	Simple Type = "simple"
	// Notify units are started when they have sent READY=1 to the socket in NOTIFY_SOCKET.
	Notify Type = "notify"
	// Oneshot units are started when all their commands have ended well.
	Oneshot Type = "oneshot"
)

// Defaults for keys a unit file leaves out.
const (
	// defaultRestartDelay is systemd's DefaultRestartSec.
	defaultRestartDelay = 100 * time.Millisecond
	// defaultStartTimeout is systemd's DefaultTimeoutStartSec. It does not bound oneshot units.
	defaultStartTimeout = 90 * time.Second
	// defaultStopTimeout is below systemd's 90 s, since machines here are stopped far more often than real ones.
	defaultStopTimeout = 10 * time.Second
)

// Spec is a service unit as read from its file and drop-ins.
type Spec struct {
	Name        string
	Description string
	// After names units that, if they are being started at the same time, have to be started first.
	After []string
	// Wants names units that are started with this one; Requires= is read as the same.
	Wants []string
	// WantedBy names the targets that enabling the unit links it to.
	WantedBy []string
	// ConditionPathExists names paths that must exist ("!" in front: must not); otherwise a start does nothing.
	ConditionPathExists []string

	Type            Type
	ExecStartPre    []Command
	ExecStart       []Command
	ExecStartPost   []Command
	ExecStop        []Command
	Restart         RestartPolicy
	RestartDelay    time.Duration // RestartSec.
	StartTimeout    time.Duration // TimeoutStartSec; 0 means forever.
	StopTimeout     time.Duration // TimeoutStopSec, after which processes are killed.
	RemainAfterExit bool
	// KillMainOnly is KillMode=process: only the main process is stopped, as containerd wants it for its shims.
	KillMainOnly     bool
	WorkingDirectory string
	Environment      []string
	EnvironmentFiles []EnvironmentFile
}

// EnvironmentFile is a file of variables; an optional one (with "-" in front) may be missing.
type EnvironmentFile struct {
	Path     string
	Optional bool
}

// ErrNotFound is returned for units without a file.
var ErrNotFound = errors.New("unit not found")

// Load reads a unit and its drop-ins from dirs. The unit's file is taken from the first directory that has it;
// drop-ins (<name>.d/*.conf) are read from all directories in the order of their names, the first directory winning
// where names are equal.
func Load(name string, dirs []string) (*Spec, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	content, err := readFirst(name, dirs)
	if err != nil {
		return nil, err
	}
	spec := &Spec{
		Name: name, Type: Simple, Restart: RestartNo,
		RestartDelay: defaultRestartDelay, StartTimeout: defaultStartTimeout, StopTimeout: defaultStopTimeout,
	}
	if err := spec.apply(content); err != nil {
		return nil, fmt.Errorf("read unit %s: %w", name, err)
	}
	dropIns, err := findDropIns(name, dirs)
	if err != nil {
		return nil, err
	}
	for _, path := range dropIns {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read drop-in of unit %s: %w", name, err)
		}
		if err := spec.apply(content); err != nil {
			return nil, fmt.Errorf("read drop-in %s: %w", path, err)
		}
	}
	if len(spec.ExecStart) == 0 {
		return nil, fmt.Errorf("read unit %s: it has no ExecStart", name)
	}
	if len(spec.ExecStart) > 1 && spec.Type != Oneshot {
		return nil, fmt.Errorf("read unit %s: only oneshot units can have several ExecStart", name)
	}
	return spec, nil
}

// checkName refuses names that lead out of the unit directories.
func checkName(name string) error {
	if !strings.HasSuffix(name, ".service") || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("unit %q: only services are supported, with a name like example.service", name)
	}
	return nil
}

func readFirst(name string, dirs []string) ([]byte, error) {
	for _, dir := range dirs {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return content, err
		}
	}
	return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
}

func findDropIns(name string, dirs []string) ([]string, error) {
	byName := map[string]string{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(dir, name+".d"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list drop-ins of unit %s: %w", name, err)
		}
		for _, entry := range entries {
			if _, seen := byName[entry.Name()]; !seen && strings.HasSuffix(entry.Name(), ".conf") {
				byName[entry.Name()] = filepath.Join(dir, name+".d", entry.Name())
			}
		}
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = byName[name]
	}
	return names, nil
}

// apply reads one file on top of what is there. An empty value resets a list, as in systemd.
func (s *Spec) apply(content []byte) error {
	options, err := systemd.DeserializeOptions(bytes.NewReader(content))
	if err != nil {
		return err
	}
	for _, option := range options {
		value := strings.TrimSpace(option.Value)
		if err := s.set(option.Section+"."+option.Name, value); err != nil {
			return fmt.Errorf("%s=%s: %w", option.Name, value, err)
		}
	}
	return nil
}

func (s *Spec) set(key, value string) (err error) {
	switch key {
	case "Unit.Description":
		s.Description = value
	case "Unit.After":
		s.After = extend(s.After, value)
	case "Unit.Wants", "Unit.Requires", "Unit.BindsTo":
		s.Wants = extend(s.Wants, value)
	case "Unit.ConditionPathExists":
		s.ConditionPathExists = extend(s.ConditionPathExists, value)
	case "Install.WantedBy", "Install.RequiredBy":
		s.WantedBy = extend(s.WantedBy, value)
	case "Service.Type":
		s.Type, err = parseType(value)
	case "Service.ExecStartPre":
		s.ExecStartPre, err = extendCommands(s.ExecStartPre, value)
	case "Service.ExecStart":
		s.ExecStart, err = extendCommands(s.ExecStart, value)
	case "Service.ExecStartPost":
		s.ExecStartPost, err = extendCommands(s.ExecStartPost, value)
	case "Service.ExecStop":
		s.ExecStop, err = extendCommands(s.ExecStop, value)
	case "Service.Restart":
		s.Restart, err = parseRestart(value)
	case "Service.RestartSec":
		s.RestartDelay, err = parseDuration(value)
	case "Service.TimeoutStartSec":
		s.StartTimeout, err = parseDuration(value)
	case "Service.TimeoutStopSec":
		s.StopTimeout, err = parseDuration(value)
	case "Service.TimeoutSec":
		s.StartTimeout, err = parseDuration(value)
		s.StopTimeout = s.StartTimeout
	case "Service.RemainAfterExit":
		s.RemainAfterExit, err = parseBool(value)
	case "Service.KillMode":
		s.KillMainOnly = value == "process"
	case "Service.WorkingDirectory":
		s.WorkingDirectory = value
	case "Service.Environment":
		var words []string
		if words, err = splitWords(value); err == nil {
			s.Environment = extendWords(s.Environment, words)
		}
	case "Service.EnvironmentFile":
		s.EnvironmentFiles = extendFiles(s.EnvironmentFiles, value)
	}
	return err
}

func extend(list []string, value string) []string { return extendWords(list, strings.Fields(value)) }

func extendWords(list, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	return append(list, words...)
}

func extendCommands(list []Command, value string) ([]Command, error) {
	if value == "" {
		return nil, nil
	}
	command, err := ParseCommand(value)
	return append(list, command), err
}

func extendFiles(list []EnvironmentFile, value string) []EnvironmentFile {
	if value == "" {
		return nil
	}
	path, optional := strings.CutPrefix(value, "-")
	return append(list, EnvironmentFile{Path: path, Optional: optional})
}

func parseType(value string) (Type, error) {
	switch value {
	case "simple", "exec", "": // Both count as started once the process runs.
		return Simple, nil
	case "notify", "notify-reload":
		return Notify, nil
	case "oneshot":
		return Oneshot, nil
	}
	return "", errors.New("not one of simple, exec, notify, oneshot")
}

func parseBool(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "yes", "true", "on", "1":
		return true, nil
	case "no", "false", "off", "0", "":
		return false, nil
	}
	return false, errors.New("not a boolean")
}

// durationUnits are the spellings of systemd.time(7) that occur in services.
var durationUnits = map[string]time.Duration{
	"us": time.Microsecond, "ms": time.Millisecond, "": time.Second, "s": time.Second, "sec": time.Second,
	"m": time.Minute, "min": time.Minute, "h": time.Hour, "hr": time.Hour, "d": 24 * time.Hour,
}

// parseDuration reads a time span like "5", "100ms" or "1min 30s"; "infinity" is 0.
func parseDuration(value string) (time.Duration, error) {
	if value == "infinity" {
		return 0, nil
	}
	fields := strings.Fields(value)
	if len(fields) == 0 {
		return 0, errors.New("no time span")
	}
	var sum time.Duration
	for _, field := range fields {
		digits := strings.TrimRight(field, "abcdefghijklmnopqrstuvwxyz")
		number, err := strconv.ParseFloat(digits, 64)
		scale, known := durationUnits[field[len(digits):]]
		if err != nil || !known || number < 0 {
			return 0, errors.New("not a time span")
		}
		sum += time.Duration(number * float64(scale))
	}
	return sum, nil
}
