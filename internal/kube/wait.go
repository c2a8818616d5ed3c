package kube

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	// startLimit bounds how long a process waits at its start for an API; then it ends, and whoever runs it tries again.
	startLimit = 2 * time.Minute
	// startPause is between tries: nothing announces that an API server has come up.
	startPause = 200 * time.Millisecond
)

// WaitForAPI waits until the server answers all the paths, such as /readyz or /api/v1/nodes?limit=1. Parts of a cluster
// start side by side; to end and be started again costs a growing pause each time, waiting costs nothing.
func WaitForAPI(ctx context.Context, config *rest.Config, paths ...string) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make client of %s: %w", config.Host, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, path := range paths {
		for {
			err := client.RESTClient().Get().RequestURI(path).Do(ctx).Error()
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for %s%s: %w", config.Host, path, err)
			case <-time.After(startPause):
			}
		}
	}
	return nil
}
