package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"hortus.dev/hortus/local/provider/csi"
)

// table simulates the kernel's mounts.
type table map[string]string

func (m table) Mounted(path string) (bool, error) { _, ok := m[path]; return ok, nil }
func (m table) Stats(string) (Stats, error) {
	return Stats{TotalBytes: 3, FreeBytes: 1, UsedBytes: 2}, nil
}
func (m table) Unmount(path string) error { delete(m, path); return nil }

func (m table) Bind(source, target string, readOnly bool) error {
	if readOnly {
		source += " (ro)"
	}
	m[target] = source
	return nil
}

func publish(id, target string) *csispec.NodePublishVolumeRequest {
	return &csispec.NodePublishVolumeRequest{VolumeId: id, TargetPath: target, VolumeCapability: &csispec.VolumeCapability{
		AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
	}}
}

func TestPublishAndUnpublish(t *testing.T) {
	mounts := table{"/volumes/vol-1": "host"}
	s := &Server{VolumesDir: "/volumes", Mounts: mounts, InstanceID: "i-1"}
	target := filepath.Join(t.TempDir(), "pods", "mount")
	for range 2 { // The second call changes nothing.
		if _, err := s.NodePublishVolume(t.Context(), publish("vol-1", target)); err != nil {
			t.Fatal(err)
		}
		if mounts[target] != "/volumes/vol-1" {
			t.Fatalf("mounts are %v, want the volume at %s", mounts, target)
		}
	}
	stats, err := s.NodeGetVolumeStats(t.Context(),
		&csispec.NodeGetVolumeStatsRequest{VolumeId: "vol-1", VolumePath: target})
	if err != nil || len(stats.Usage) != 2 || stats.Usage[0].Used != 2 {
		t.Errorf("NodeGetVolumeStats() = %v, %v", stats, err)
	}
	for range 2 {
		in := &csispec.NodeUnpublishVolumeRequest{VolumeId: "vol-1", TargetPath: target}
		if _, err := s.NodeUnpublishVolume(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(target); len(mounts) != 1 || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("mounts are %v and the mount point is %v, want neither", mounts, err)
		}
	}
	readOnly := publish("vol-1", target)
	readOnly.Readonly = true
	if _, err := s.NodePublishVolume(t.Context(), readOnly); err != nil || mounts[target] != "/volumes/vol-1 (ro)" {
		t.Errorf("mounts are %v (%v), want a read-only one", mounts, err)
	}
}

func TestRefusedRequests(t *testing.T) {
	s := &Server{VolumesDir: "/volumes", Mounts: table{"/volumes/vol-1": "host"}}
	block := publish("vol-1", "/t")
	block.VolumeCapability = &csispec.VolumeCapability{AccessType: &csispec.VolumeCapability_Block{}}
	for name, tc := range map[string]struct {
		request *csispec.NodePublishVolumeRequest
		want    codes.Code
	}{
		"a volume that is not attached": {publish("vol-2", "/t"), codes.FailedPrecondition},
		"a path instead of an ID":       {publish("vol-1/../../etc", "/t"), codes.InvalidArgument},
		"a relative target":             {publish("vol-1", "t"), codes.InvalidArgument},
		"a raw device":                  {block, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.NodePublishVolume(t.Context(), tc.request); status.Code(err) != tc.want {
				t.Errorf("NodePublishVolume() = %v, want %s", err, tc.want)
			}
		})
	}
}

// TestKubeletFindsTheDriver does what the kubelet does: it finds a socket, gets the path of the other one, and calls
// the driver there.
func TestKubeletFindsTheDriver(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi") // Names of sockets are short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	old := filepath.Join(dir, csi.Driver+"-reg.sock")
	if err := os.WriteFile(old, nil, 0o600); err != nil { // An earlier process has been killed.
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(t.Context(), &Server{InstanceID: "i-1", Zone: "z", Version: "v", Mounts: table{}}, dir, dir)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wait := grpc.WaitForReady(true)
	introduction := registration.NewRegistrationClient(dial(t, old))
	info, err := introduction.GetInfo(ctx, &registration.InfoRequest{}, wait)
	if err != nil || info.Type != registration.CSIPlugin || info.Name != csi.Driver ||
		!slices.Contains(info.SupportedVersions, "1.0.0") {
		t.Fatalf("GetInfo() = %v, %v", info, err)
	}
	connection := dial(t, info.Endpoint)
	if got, err := csispec.NewIdentityClient(connection).GetPluginInfo(ctx, &csispec.GetPluginInfoRequest{},
		wait); err != nil || got.Name != csi.Driver {
		t.Errorf("GetPluginInfo() = %v, %v", got, err)
	}
	got, err := csispec.NewNodeClient(connection).NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{}, wait)
	if err != nil || got.NodeId != "i-1" || got.AccessibleTopology.Segments["topology.kubernetes.io/zone"] != "z" {
		t.Errorf("NodeGetInfo() = %v, %v", got, err)
	}
	if _, err := introduction.NotifyRegistrationStatus(ctx,
		&registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the driver has ended: %v", err)
	default:
	}
	// It may end before it responds.
	_, _ = introduction.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{Error: "no"})
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a rejected driver ends without an error")
		}
	case <-ctx.Done():
		t.Error("a rejected driver continues")
	}
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
