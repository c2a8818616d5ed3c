// Program containerd-shim-runsc-v1 is gVisor's shim, which starts also where the kernel does not let root lower the OOM
// score of a process, such as on machines of the local cloud on a host without CAP_SYS_RESOURCE. Gvisor's own start
// fails there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/shim"
	gvisor "gvisor.dev/gvisor/pkg/shim/v1"
	_ "gvisor.dev/gvisor/pkg/shim/v1/plugin" // Serves tasks.
)

// Files in the folder of a container, in which the shim is started.
const (
	addressFile = "address" // Gvisor's service removes the socket that it names.
	processFile = "shim.pid"
)

// oomScore protects shims from the OOM killer.
const oomScore = -999

func main() {
	shim.Run(context.Background(), manager{gvisor.NewShimManager("io.containerd.runsc.v1")})
}

// manager is that of gVisor, except for Start.
type manager struct{ shim.Manager }

// Start starts the shim of a container.
func (manager) Start(ctx context.Context, id string, opts shim.StartOpts) (shim.BootstrapParams, error) {
	params, err := start(ctx, id, opts)
	if err != nil {
		return shim.BootstrapParams{}, fmt.Errorf("start shim of container %q: %w", id, err)
	}
	return params, nil
}

func start(ctx context.Context, id string, opts shim.StartOpts) (_ shim.BootstrapParams, err error) {
	address, err := shim.SocketAddress(ctx, opts.Address, id, opts.Debug)
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	listener, err := shim.NewSocket(address)
	if shim.SocketEaddrinuse(err) && !shim.CanConnect(address) { // Left by a shim that was killed.
		if err := shim.RemoveSocket(address); err != nil {
			return shim.BootstrapParams{}, err
		}
		listener, err = shim.NewSocket(address)
	}
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, listener.Close(), shim.RemoveSocket(address))
		}
	}()
	socket, err := listener.File()
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	defer socket.Close()
	if err := os.WriteFile(addressFile, []byte(address), 0o600); err != nil {
		return shim.BootstrapParams{}, err
	}
	cmd, err := command(ctx, id, opts)
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	cmd.ExtraFiles = []*os.File{socket}
	if err := cmd.Start(); err != nil {
		return shim.BootstrapParams{}, err
	}
	err = errors.Join(shim.WritePidFile(processFile, cmd.Process.Pid), protect(cmd.Process.Pid))
	if err != nil {
		return shim.BootstrapParams{}, errors.Join(err, cmd.Process.Kill())
	}
	return shim.BootstrapParams{Version: 2, Address: address, Protocol: "ttrpc"}, nil
}

// command runs this program as the shim that serves the container.
func command(ctx context.Context, id string, opts shim.StartOpts) (*exec.Cmd, error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-namespace", namespace, "-address", opts.Address, "-id", id}
	if opts.Debug {
		args = append(args, "-debug")
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2") // A shim waits most of the time.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}

// protect lowers the OOM score of a process as far as the kernel permits.
func protect(process int) error {
	err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", process), []byte(strconv.Itoa(oomScore)), 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
