package env

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const etcdTimeout = 10 * time.Second

// Stored returns the content of etcd below a prefix, by key, as an attacker with access to the disk would see it.
func (e *Environment) Stored(ctx context.Context, prefix string) (map[string][]byte, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{e.plane.ControlPlane.Etcd.URL.String()}, DialTimeout: etcdTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	defer client.Close()
	answer, err := client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read %s from etcd: %w", prefix, err)
	}
	stored := map[string][]byte{}
	for _, kv := range answer.Kvs {
		stored[string(kv.Key)] = kv.Value
	}
	return stored, nil
}
