package reconnect

import (
	"context"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// dialTimeout bounds an attempt to connect. Linux repeats a lost SYN after 1, 3 and 7 s: an attempt that begins during
	// an outage would use the next chance after it later than another attempt does. The default is 30 s.
	dialTimeout = 5 * time.Second
	// keepAlive is the default of client-go.
	keepAlive = 30 * time.Second

	// waitTimeout bounds one request of Wait: the time to connect, the TLS handshake, and the answer.
	waitTimeout = 10 * time.Second
	// waitPause is the time between two requests of Wait: nothing announces that an API server is available.
	waitPause = 2 * time.Second
)

// Bound limits how long clients with this configuration wait for a connection. Each client gets connections of its own,
// so it is for configurations from which one transport is made.
func Bound(config *rest.Config) {
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext
}

// Wait waits until the API server answers the path, such as /version, without a time limit: a container that ends is
// restarted with an increasing back-off, so waiting is faster. It logs why it waits, whenever the reason changes. It
// returns an error if the server rejects the credentials, which are read only at the start of a process.
func Wait(ctx context.Context, config *rest.Config, path string) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make client of %s: %w", config.Host, err)
	}
	for reason := ""; ; {
		err := answers(ctx, client.RESTClient(), path)
		if err == nil {
			return nil
		}
		if apierrors.IsUnauthorized(err) {
			return fmt.Errorf("wait for %s%s: %w", config.Host, path, err)
		}
		if err.Error() != reason && ctx.Err() == nil {
			reason = err.Error()
			ctrl.LoggerFrom(ctx).Error(err, "Waiting for an API server", "server", config.Host, "path", path)
		}
		if !pause(ctx, waitPause) {
			return fmt.Errorf("wait for %s%s: %w", config.Host, path, err)
		}
	}
}

func answers(ctx context.Context, client rest.Interface, path string) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	return client.Get().AbsPath(path).MaxRetries(0).Do(ctx).Error()
}

// pause waits for d or until ctx ends, and reports whether it waited in full.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
