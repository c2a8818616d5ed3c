package shoot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
)

// storedPage bounds the objects that one request to etcd returns: an object has up to 1.5 MiB, few have more than 10
// KiB.
const storedPage = 100

// Stored calls visit for each key that an etcd stores under a prefix, in the order of the keys, until visit returns
// false. It opens a connection per call: reading etcd is rare.
func (c *Connector) Stored(
	ctx context.Context, access steps.EtcdAccess, prefix string, visit func(key string, value []byte) bool,
) error {
	config, err := c.etcdTLS(access)
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{access.Endpoint}, DialTimeout: requestTimeout, Logger: zap.NewNop(), TLS: config,
	})
	if err != nil {
		return fmt.Errorf("connect to etcd at %s: %w", access.Endpoint, err)
	}
	defer client.Close()
	return VisitStored(ctx, client, prefix, visit)
}

// etcdTLS authenticates the gardenlet to an etcd, and the etcd to the gardenlet.
func (c *Connector) etcdTLS(access steps.EtcdAccess) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(access.CertPEM, access.KeyPEM)
	if err != nil {
		return nil, fmt.Errorf("load the client certificate for etcd: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(access.CAPEM) {
		return nil, fmt.Errorf("load the CA of etcd: it has no certificate")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: pool, Time: c.Now,
	}, nil
}

// backupStatusTimeout bounds a request for the status of backups, which is answered from memory.
const backupStatusTimeout = 5 * time.Second

// saveTimeout bounds the wait for a delta, which has 10 MiB at most.
const saveTimeout = 20 * time.Second

// SaveBackup waits until everything that etcd stores is in the backups, and returns the last revision in them. The
// endpoint is that of the backup service.
func (c *Connector) SaveBackup(ctx context.Context, access steps.EtcdAccess) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	config, err := c.etcdTLS(access)
	if err != nil {
		return 0, err
	}
	client := etcdbackup.NewClient(access.Endpoint, config)
	defer client.Close()
	saved, err := client.Snapshot(ctx, chain.Delta)
	return saved.Revision, err
}

// TakeBackup takes a full snapshot and waits until it is stored. The endpoint is that of the backup service; ctx limits
// the wait.
func (c *Connector) TakeBackup(ctx context.Context, access steps.EtcdAccess) (etcdbackup.Snapshot, error) {
	config, err := c.etcdTLS(access)
	if err != nil {
		return etcdbackup.Snapshot{}, err
	}
	client := etcdbackup.NewClient(access.Endpoint, config)
	defer client.Close()
	return client.Snapshot(ctx, chain.Full)
}

// callEtcd calls the process that runs an etcd. The connection lasts for the call.
func (c *Connector) callEtcd(
	ctx context.Context, access steps.EtcdAccess, call func(context.Context, *etcdbackup.Client) error,
) error {
	config, err := c.etcdTLS(access)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, backupStatusTimeout)
	defer cancel()
	client := etcdbackup.NewClient(access.Endpoint, config)
	defer client.Close()
	return call(ctx, client)
}

// BackupStatus queries the status of the process that takes the backups of an etcd.
func (c *Connector) BackupStatus(ctx context.Context, access steps.EtcdAccess) (status etcdbackup.Status, err error) {
	err = c.callEtcd(ctx, access, func(ctx context.Context, client *etcdbackup.Client) error {
		status, err = client.Status(ctx)
		return err
	})
	return status, err
}

// ConfirmOwner sends the process that runs an etcd the epoch that the garden has for the control plane.
func (c *Connector) ConfirmOwner(ctx context.Context, access steps.EtcdAccess, epoch int64) error {
	return c.callEtcd(ctx, access, func(ctx context.Context,
		client *etcdbackup.Client) error {
		return client.Confirm(ctx, epoch)
	})
}

// EtcdStatus queries the status of the process that runs an etcd.
func (c *Connector) EtcdStatus(ctx context.Context, access steps.EtcdAccess) (etcdbackup.Status, error) {
	return c.BackupStatus(ctx, access)
}

// ActivateEtcd makes an etcd on standby start.
func (c *Connector) ActivateEtcd(ctx context.Context, access steps.EtcdAccess, epoch int64, holder string) error {
	return c.callEtcd(ctx, access, func(ctx context.Context,
		client *etcdbackup.Client) error {
		return client.Activate(ctx, epoch, holder)
	})
}

// VisitStored is Stored for a connection: it reads page by page, all at the same revision.
func VisitStored(
	ctx context.Context, client clientv3.KV, prefix string, visit func(key string, value []byte) bool,
) error {
	options := []clientv3.OpOption{
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(storedPage),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend),
	}
	for key := prefix; ; {
		page, err := get(ctx, client, key, options)
		if err != nil {
			return fmt.Errorf("read keys from %s: %w", key, err)
		}
		for _, kv := range page.Kvs {
			if !visit(string(kv.Key), kv.Value) {
				return nil
			}
			key = string(kv.Key) + "\x00"
		}
		if !page.More {
			return nil
		}
		if len(options) == 3 {
			options = append(options, clientv3.WithRev(page.Header.Revision))
		}
	}
}

func get(
	ctx context.Context, client clientv3.KV, key string, options []clientv3.OpOption,
) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return client.Get(ctx, key, options...)
}
