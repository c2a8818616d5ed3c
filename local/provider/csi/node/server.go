package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	corev1 "k8s.io/api/core/v1"

	"hortus.dev/hortus/local/provider/csi"
)

// Server is the driver on one node.
type Server struct {
	csispec.UnimplementedIdentityServer
	csispec.UnimplementedNodeServer

	// Version is this program's.
	Version string
	// InstanceID and Zone are the node's.
	InstanceID, Zone string
	// VolumesDir is the directory in which attached volumes appear.
	VolumesDir string
	// Mounts is the kernel.
	Mounts Mounts
}

// Mounts makes and removes mounts.
type Mounts interface {
	// Mounted reports whether path is a mount point.
	Mounted(path string) (bool, error)
	// Bind makes source appear at target, which is a directory.
	Bind(source, target string, readOnly bool) error
	// Unmount removes the topmost mount at a path.
	Unmount(path string) error
	// Stats returns the size and use of the file system that a path is on.
	Stats(path string) (Stats, error)
}

// Stats are the size and use of a file system.
type Stats struct {
	TotalBytes, FreeBytes, UsedBytes    int64
	TotalInodes, FreeInodes, UsedInodes int64
}

// volumeID matches the cloud's IDs of volumes; an ID becomes part of a path.
var volumeID = regexp.MustCompile(`^vol-[0-9a-f]+$`)

// GetPluginInfo names the driver.
func (s *Server) GetPluginInfo(context.Context, *csispec.GetPluginInfoRequest) (*csispec.GetPluginInfoResponse, error) {
	return &csispec.GetPluginInfoResponse{Name: csi.Driver, VendorVersion: s.Version}, nil
}

// GetPluginCapabilities says that volumes are in zones.
func (s *Server) GetPluginCapabilities(
	context.Context, *csispec.GetPluginCapabilitiesRequest,
) (*csispec.GetPluginCapabilitiesResponse, error) {
	return &csispec.GetPluginCapabilitiesResponse{Capabilities: []*csispec.PluginCapability{{
		Type: &csispec.PluginCapability_Service_{Service: &csispec.PluginCapability_Service{
			Type: csispec.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
		}},
	}}}, nil
}

// Probe answers that the driver is ready.
func (s *Server) Probe(context.Context, *csispec.ProbeRequest) (*csispec.ProbeResponse, error) {
	return &csispec.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// NodeGetCapabilities says that volumes have statistics.
func (s *Server) NodeGetCapabilities(
	context.Context, *csispec.NodeGetCapabilitiesRequest,
) (*csispec.NodeGetCapabilitiesResponse, error) {
	return &csispec.NodeGetCapabilitiesResponse{Capabilities: []*csispec.NodeServiceCapability{{
		Type: &csispec.NodeServiceCapability_Rpc{Rpc: &csispec.NodeServiceCapability_RPC{
			Type: csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		}},
	}}}, nil
}

// NodeGetInfo names the instance and its zone.
func (s *Server) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return &csispec.NodeGetInfoResponse{
		NodeId:             s.InstanceID,
		AccessibleTopology: &csispec.Topology{Segments: map[string]string{corev1.LabelTopologyZone: s.Zone}},
	}, nil
}

// NodePublishVolume mounts an attached volume for a pod.
func (s *Server) NodePublishVolume(
	_ context.Context, in *csispec.NodePublishVolumeRequest,
) (*csispec.NodePublishVolumeResponse, error) {
	target := in.GetTargetPath()
	if err := checkPaths(in.GetVolumeId(), target); err != nil {
		return nil, err
	}
	if in.GetVolumeCapability().GetMount() == nil {
		return nil, status.Error(codes.InvalidArgument, "volume capability: only mounts are supported")
	}
	source := filepath.Join(s.VolumesDir, in.GetVolumeId())
	attached, err := s.Mounts.Mounted(source)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "find volume %q: %v", in.GetVolumeId(), err)
	}
	if !attached {
		return nil, status.Errorf(codes.FailedPrecondition,
			"volume %q is not visible on this machine (%s). A machine that is older than its volumes' driver must be replaced or restarted",
			in.GetVolumeId(), s.InstanceID)
	}
	mounted, err := s.Mounts.Mounted(target)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "stat %s: %v", target, err)
	}
	if mounted {
		return &csispec.NodePublishVolumeResponse{}, nil
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, status.Errorf(codes.Internal, "make mount point: %v", err)
	}
	if err := s.Mounts.Bind(source, target, in.GetReadonly()); err != nil {
		return nil, status.Errorf(codes.Internal, "mount volume %q: %v", in.GetVolumeId(), err)
	}
	return &csispec.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume removes the mount of a pod, and its mount point unless something is in it.
func (s *Server) NodeUnpublishVolume(
	_ context.Context, in *csispec.NodeUnpublishVolumeRequest,
) (*csispec.NodeUnpublishVolumeResponse, error) {
	target := in.GetTargetPath()
	if err := checkPaths(in.GetVolumeId(), target); err != nil {
		return nil, err
	}
	for {
		mounted, err := s.Mounts.Mounted(target)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "stat %s: %v", target, err)
		}
		if !mounted {
			break
		}
		if err := s.Mounts.Unmount(target); err != nil {
			return nil, status.Errorf(codes.Internal, "unmount volume %q: %v", in.GetVolumeId(), err)
		}
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, status.Errorf(codes.Internal, "remove mount point: %v", err)
	}
	return &csispec.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats returns the use of the disk below a volume: the cloud counts sizes but does not enforce them.
func (s *Server) NodeGetVolumeStats(
	_ context.Context, in *csispec.NodeGetVolumeStatsRequest,
) (*csispec.NodeGetVolumeStatsResponse, error) {
	path := in.GetVolumePath()
	if err := checkPaths(in.GetVolumeId(), path); err != nil {
		return nil, err
	}
	mounted, err := s.Mounts.Mounted(path)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "stat %s: %v", path, err)
	}
	if !mounted {
		return nil, status.Errorf(codes.NotFound, "volume %q is not mounted at %s", in.GetVolumeId(), path)
	}
	is, err := s.Mounts.Stats(path)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "stat %s: %v", path, err)
	}
	return &csispec.NodeGetVolumeStatsResponse{Usage: []*csispec.VolumeUsage{
		{Unit: csispec.VolumeUsage_BYTES, Total: is.TotalBytes, Available: is.FreeBytes, Used: is.UsedBytes},
		{Unit: csispec.VolumeUsage_INODES, Total: is.TotalInodes, Available: is.FreeInodes, Used: is.UsedInodes},
	}}, nil
}

func checkPaths(id, path string) error {
	if !volumeID.MatchString(id) {
		return status.Errorf(codes.InvalidArgument, "volume ID: invalid value: %q", id)
	}
	if !filepath.IsAbs(path) {
		return status.Errorf(codes.InvalidArgument, "path: must be absolute: %q", path)
	}
	return nil
}
