package machineinit

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/hortus/local/machineinit/unit"
)

const (
	// ControlSocket is the socket on which process 1 serves commands.
	ControlSocket = "/run/init.sock"
	// LogDir holds one log per unit.
	LogDir = "/var/log/units"
	// imageUnitDir holds the units of the machine image; files in UnitDir take precedence.
	imageUnitDir = "/usr/lib/systemd/system"

	// stageVariable marks the second run of process 1, inside its own cgroup namespace, and says whether the cgroups
	// there are its own.
	stageVariable = "HORTUS_MACHINE_STAGE"
	stageOwn      = "own-cgroups"
	stageShared   = "shared-cgroups"
	// shutdownTimeout bounds the stop of all units; the cloud waits a little longer before it kills a machine.
	shutdownTimeout = 20 * time.Second
)

// environment of units and of process 1 itself. Plugins of containerd and kubelet look programs up in PATH.
var environment = []string{
	"PATH=/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root",
	"LANG=C.UTF-8",
}

// Boot runs process 1. It returns when the machine is to stop or to reboot (the cloud restarts a machine that ends by
// itself). It continues after errors in the user's configuration, since a running machine can be inspected.
func Boot(console io.Writer) error {
	if os.Getenv(stageVariable) == "" {
		return enterCgroupNamespace()
	}
	log := slog.New(slog.NewTextHandler(console, nil))
	for _, entry := range environment {
		key, value, _ := strings.Cut(entry, "=")
		if err := os.Setenv(key, value); err != nil {
			return fmt.Errorf("set environment: %w", err)
		}
	}
	unix.Umask(0o022)
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM, syscall.SIGINT)

	instance, err := ReadInstance(InstanceDir)
	if err != nil {
		return err
	}
	if err := prepare(instance, log); err != nil {
		return err
	}
	commands, err := applyUserData("/", instance.UserData)
	if err != nil {
		log.Error("User data could not be applied completely", "error", err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reaper := unit.NewReaper()
	go reaper.Run(ctx)
	supervisor := unit.NewSupervisor(unit.Options{
		Dirs: []string{UnitDir, imageUnitDir}, LogDir: LogDir, Console: console, Env: environment,
		Starter: reaper, Log: log,
	})
	reboot := make(chan struct{}, 1)
	stopServing, err := serve(supervisor, reboot)
	if err != nil {
		return err
	}
	defer stopServing()
	if err := supervisor.Enable("containerd.service"); err != nil {
		log.Error("containerd cannot be enabled", "error", err)
	}
	commands.enable(supervisor, log)
	go func() {
		if err := commands.start(ctx, supervisor); err != nil {
			log.Error("Not all units could be started", "error", err)
		}
	}()
	log.Info("Machine is up", "name", instance.Metadata.Name, "id", instance.Metadata.ID, "image",
		instance.Metadata.ImageVersion)

	select {
	case <-terminate:
		log.Info("Machine shuts down")
	case <-reboot:
		log.Info("Machine reboots")
	}
	stopCtx, stopCancel := context.WithTimeout(ctx, shutdownTimeout)
	defer stopCancel()
	if err := supervisor.StopAll(stopCtx); err != nil {
		log.Error("Not all units could be stopped", "error", err)
	}
	return nil
}

// enterCgroupNamespace starts the same program again in a new cgroup namespace. Only the calling thread changes its
// namespace, and exec makes that thread the only one.
func enterCgroupNamespace() error {
	// Inside the namespace every cgroup looks like a root, so the cgroups are read before.
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("read own cgroups: %w", err)
	}
	stage := stageShared
	if ownsCgroups(cgroups) {
		stage = stageOwn
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make cgroup namespace: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	if err := unix.Exec(self, os.Args, append(os.Environ(), stageVariable+"="+stage)); err != nil {
		return fmt.Errorf("start again in the new cgroup namespace: %w", err)
	}
	return nil
}

// prepare makes the machine ready for containerd and a kubelet. Only what they cannot do without is an error.
func prepare(instance *Instance, log *slog.Logger) error {
	if err := setUpCgroups(os.Getenv(stageVariable) == stageOwn); err != nil {
		return err
	}
	if err := shareMounts(); err != nil {
		return err
	}
	if err := writeIdentity(instance.Metadata); err != nil {
		return err
	}
	if err := writeContainerd("/", instance); err != nil {
		return err
	}
	if err := writeFile(kubeletArgsFile, kubeletArgs(instance.Metadata, runtime.NumCPU()), 0o644); err != nil {
		return fmt.Errorf("write arguments for the kubelet: %w", err)
	}
	if err := unix.Sethostname([]byte(instance.Metadata.Name)); err != nil {
		log.Error("Host name cannot be set", "error", err)
	}
	if err := hideMemory(instance.Metadata.MemoryBytes); err != nil {
		log.Error("Memory of the machine type cannot be shown", "error", err)
	}
	if err := showBootID(); err != nil {
		log.Error("The boot has no ID of its own", "error", err)
	}
	settings := sysctls
	fromFiles, err := fileSysctls()
	if err != nil {
		log.Error("Settings of the kernel cannot be read", "error", err)
	}
	for _, setting := range append(settings[:len(settings):len(settings)], fromFiles...) {
		if err := setting.set(); err != nil {
			log.Info("Setting of the kernel is left as it is", "error", err)
		}
	}
	return nil
}

// writeIdentity writes the files by which programs identify the machine. Kubelets take the machine ID, and where no DMI
// can be read the system UUID, from /etc/machine-id; it is made from the instance ID, so a reboot keeps it.
func writeIdentity(m Metadata) error {
	id := md5.Sum([]byte(m.ID)) // Not for security: machine-id(5) requires 32 hexadecimal digits.
	files := map[string]string{
		"/etc/machine-id": hex.EncodeToString(id[:]) + "\n",
		"/etc/hostname":   m.Name + "\n",
		"/etc/hosts":      fmt.Sprintf("127.0.0.1 localhost\n::1 localhost ip6-localhost\n%s %s\n", m.Address, m.Name),
	}
	if m.DNS != "" {
		files["/etc/resolv.conf"] = "nameserver " + m.DNS + "\n"
	}
	for path, content := range files {
		if err := rewrite(path, []byte(content)); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	for _, dir := range []string{
		"/tmp", "/run/lock", "/var/tmp", "/root", "/etc/containerd/conf.d", "/etc/cni/net.d", LogDir,
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	if err := os.Chmod("/tmp", 0o1777|os.ModeSticky); err != nil {
		return fmt.Errorf("open /tmp to everybody: %w", err)
	}
	return nil
}

// kubeletArgsFile is read by kubelet units. It holds flags whose values only the machine knows.
const kubeletArgsFile = "/var/lib/kubelet/extra_args"

// kubeletArgs returns the flags for a kubelet's identity and resources. A machine sees all CPUs of the host; those
// beyond its machine type are declared as reserved.
func kubeletArgs(m Metadata, hostCPUs int) []byte {
	args := []string{"--hostname-override=" + m.Name}
	if m.Address != "" {
		args = append(args, "--node-ip="+m.Address)
	}
	if m.ProviderID != "" {
		args = append(args, "--provider-id="+m.ProviderID)
	}
	if m.CPU > 0 && m.CPU < hostCPUs {
		args = append(args, fmt.Sprintf("--system-reserved=cpu=%d", hostCPUs-m.CPU))
	}
	return []byte("KUBELET_EXTRA_ARGS=" + strings.Join(args, " ") + "\n")
}

// writeContainerd configures containerd where the machine does not have a configuration already.
func writeContainerd(root string, instance *Instance) error {
	files := map[string]string{
		"/etc/containerd/config.toml":                containerdConfig,
		filepath.Join(UnitDir, "containerd.service"): containerdUnit,
		registryDir + hostsFile:                      "",
		registryCAPath:                               string(instance.CA),
	}
	if instance.Metadata.Registry != "" {
		files[registryDir+hostsFile] = registryHosts(instance.Metadata, len(instance.CA) > 0)
	}
	for path, content := range files {
		path = filepath.Join(root, path)
		if content == "" || !missing(path) {
			continue
		}
		mode := fs.FileMode(0o644)
		if filepath.Base(path) == hostsFile {
			mode = 0o600 // It has the password of the registry.
		}
		if err := writeFile(path, []byte(content), mode); err != nil {
			return fmt.Errorf("configure containerd: %w", err)
		}
	}
	return nil
}

// unitCommands are the commands of the user data for its units, which are carried out once everything is written.
type unitCommands []Unit

// applyUserData applies user data if it has to be, and returns what remains to be done with its units.
func applyUserData(root string, raw []byte) (unitCommands, error) {
	if len(raw) == 0 || !needsApply(root, raw) {
		return nil, nil
	}
	data, err := ParseUserData(raw)
	if err != nil {
		return nil, err
	}
	if err := data.apply(root); err != nil {
		return data.Units, err // Not marked as applied: the next boot tries again.
	}
	return data.Units, markApplied(root, raw)
}

func (c unitCommands) enable(supervisor *unit.Supervisor, log *slog.Logger) {
	for _, u := range c {
		set := supervisor.Enable
		if u.Enable != nil && !*u.Enable {
			set = supervisor.Disable
		}
		if err := set(u.Name); err != nil {
			log.Error("Unit cannot be enabled or disabled", "unit", u.Name, "error", err)
		}
	}
}

// start starts the enabled units and those with a command to start or restart, in one call, so that their order holds.
func (c unitCommands) start(ctx context.Context, supervisor *unit.Supervisor) error {
	names, err := supervisor.Enabled()
	if err != nil {
		return err
	}
	for _, u := range c {
		if u.Command == nil {
			continue
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == u.Name })
		if *u.Command != "stop" {
			names = append(names, u.Name)
		}
	}
	return supervisor.Start(ctx, names...)
}

// serve offers the supervisor and the machine's own operations on the control socket.
func serve(supervisor *unit.Supervisor, reboot chan<- struct{}) (stop func(), err error) {
	if err := os.Remove(ControlSocket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old control socket: %w", err)
	}
	listener, err := net.Listen("unix", ControlSocket)
	if err != nil {
		return nil, fmt.Errorf("listen on control socket: %w", err)
	}
	if err := os.Chmod(ControlSocket, 0o600); err != nil {
		return nil, fmt.Errorf("protect control socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", supervisor.Handler())
	mux.HandleFunc("POST /v1/reboot", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		select {
		case reboot <- struct{}{}:
		default: // A reboot is already requested.
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
