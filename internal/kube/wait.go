package kube

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	// startLimit is how long a process waits for an API at its start. Then it ends, to be restarted.
	startLimit = 2 * time.Minute
	// startPause is the time between two attempts: nothing announces that an API server is available.
	startPause = 200 * time.Millisecond
)

// WaitForAPI waits until the server answers all the paths, such as /readyz or /api/v1/nodes?limit=1, for at most two
// minutes. The parts of a cluster start concurrently; a container that ends is restarted with an increasing back-off,
// so waiting is faster.
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
