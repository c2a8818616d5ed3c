package restore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// ErrBroken means that etcd was tried with a data directory and cannot start with it.
var ErrBroken = errors.New("etcd cannot start with the data directory")

// MeasureHere starts etcd within this process on a data directory of a cluster with one member, and returns the
// revision with its log applied. Etcd ends the process when it finds the log damaged, so call it in a process of its
// own.
func MeasureHere(ctx context.Context, o Options) (revision int64, err error) {
	dir, err := os.MkdirTemp("", "etcd-measure-")
	if err != nil {
		return 0, fmt.Errorf("start etcd: %w", err)
	}
	defer os.RemoveAll(dir)
	peers, err := types.NewURLs(o.InitialAdvertisePeerURLs)
	if err != nil {
		return 0, fmt.Errorf("--initial-advertise-peer-urls: invalid value: %w", err)
	}
	config := embed.NewConfig()
	config.Name, config.Dir = o.Name, o.DataDir
	config.InitialCluster, config.InitialClusterToken, config.ClusterState = o.InitialCluster, o.InitialClusterToken,
		embed.ClusterStateFlagExisting
	config.AdvertisePeerUrls = peers
	// Sockets in a folder of our own: no client can connect by accident.
	config.ListenPeerUrls = []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "peer")}}
	config.ListenClientUrls = []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "client")}}
	config.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "localhost:1"}} // Not published anywhere.
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	// Wrong settings say nothing about the data.
	if err := config.Validate(); err != nil {
		return 0, fmt.Errorf("start etcd: %w", err)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrBroken, r)
		}
	}()
	e, err := embed.StartEtcd(config)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify(): // It has been elected, and so has applied its whole log.
		return e.Server.KV().Rev(), nil
	case err := <-e.Err():
		return 0, fmt.Errorf("%w: %w", ErrBroken, err)
	case <-ctx.Done():
		return 0, fmt.Errorf("start etcd: %w", ctx.Err())
	}
}
