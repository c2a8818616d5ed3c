package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"hortus.dev/hortus/local/provider/csi"
)

// csiVersion is the version of the Container Storage Interface that the driver announces to the kubelet; it stands for
// all 1.x.
const csiVersion = "1.0.0"

// registrar introduces the driver to the kubelet.
type registrar struct {
	registration.UnimplementedRegistrationServer
	endpoint string
	refused  chan error
}

// GetInfo returns the name and the socket of the driver.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: csi.Driver, Endpoint: r.endpoint, SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus receives the kubelet's decision to accept the driver or not. If not, the process ends and is
// restarted.
func (r *registrar) NotifyRegistrationStatus(
	_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !s.GetPluginRegistered() {
		select {
		case r.refused <- fmt.Errorf("the kubelet does not register the driver: %s", s.GetError()):
		default: // An earlier refusal is pending.
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// Serve serves the driver at a socket in socketDir and introduces it by one in registryDir, until ctx ends or the
// kubelet refuses it.
func Serve(ctx context.Context, s *Server, socketDir, registryDir string) error {
	endpoint := filepath.Join(socketDir, "csi.sock")
	driver, introduction := grpc.NewServer(), grpc.NewServer()
	csispec.RegisterIdentityServer(driver, s)
	csispec.RegisterNodeServer(driver, s)
	r := &registrar{endpoint: endpoint, refused: make(chan error, 1)}
	registration.RegisterRegistrationServer(introduction, r)

	group, ctx := errgroup.WithContext(ctx)
	for _, one := range []struct { // The kubelet connects to the second socket as soon as it exists.
		server *grpc.Server
		socket string
	}{{driver, endpoint}, {introduction, filepath.Join(registryDir, csi.Driver+"-reg.sock")}} {
		listener, err := listen(one.socket)
		if err != nil {
			return err
		}
		group.Go(func() error { return one.server.Serve(listener) })
		group.Go(func() error {
			<-ctx.Done()
			one.server.Stop()
			return nil
		})
	}
	group.Go(func() error {
		select {
		case err := <-r.refused:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// listen opens a socket; one of an earlier process is replaced.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	return l, nil
}
