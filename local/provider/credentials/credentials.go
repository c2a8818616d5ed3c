// Package credentials reads credentials of the local cloud from the Secret cloudprovider, or from the directory where
// that is mounted.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/local/cloud"
)

// Keys of the Secret.
const (
	KeyEndpoint  = "endpoint"  // Base URL of the cloud's API.
	KeyAccessKey = "accessKey" // Public part of the credentials.
	KeySecretKey = "secretKey" // Secret part of the credentials.
	KeyCA        = "ca.crt"    // PEM encoded certificate authority of the endpoint; may be missing.
)

// errMissing has the wording by which error classification finds that credentials are at fault.
var errMissing = errors.New("authentication failed: credentials are incomplete")

// FromData reads credentials from the data of a Secret, which may also have the keys that users of S3 expect.
func FromData(data map[string][]byte) (cloud.Config, error) {
	cfg := cloud.Config{
		Endpoint:  string(data[KeyEndpoint]),
		AccessKey: string(data[KeyAccessKey]),
		SecretKey: string(data[KeySecretKey]),
		CA:        string(data[KeyCA]),
	}
	if IsS3(data) {
		cfg.AccessKey, cfg.SecretKey = string(data[KeyS3AccessKey]), string(data[KeyS3SecretKey])
		cfg.CA = string(data[KeyS3CA])
	}
	for key, value := range map[string]string{
		KeyEndpoint: cfg.Endpoint, KeyAccessKey: cfg.AccessKey, KeySecretKey: cfg.SecretKey,
	} {
		if value == "" {
			return cloud.Config{}, fmt.Errorf("%w: key %q is missing or empty", errMissing, key)
		}
	}
	return cfg, nil
}

// FromDir reads credentials from a directory with one file per key, such as a mounted Secret.
func FromDir(dir string) (cloud.Config, error) {
	data := map[string][]byte{}
	for _, key := range []string{KeyEndpoint, KeyAccessKey, KeySecretKey, KeyCA} {
		value, err := os.ReadFile(filepath.Join(dir, key))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return cloud.Config{}, fmt.Errorf("read credentials: %w", err)
		}
		data[key] = value
	}
	cfg, err := FromData(data)
	if err != nil {
		return cfg, fmt.Errorf("directory %s: %w", dir, err)
	}
	return cfg, nil
}

// FromSecret reads the Secret ref names. The Secret itself is returned too, for callers that protect it.
func FromSecret(
	ctx context.Context, c client.Reader, ref corev1.SecretReference,
) (cloud.Config, *corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		return cloud.Config{}, nil, fmt.Errorf("read credentials secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	cfg, err := FromData(secret.Data)
	if err != nil {
		return cfg, secret, fmt.Errorf("secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return cfg, secret, nil
}

// Clients makes clients of the cloud and keeps them, since each one has connections of its own. It is safe for
// concurrent use; the zero value is ready.
type Clients struct {
	mu     sync.Mutex
	byAuth map[cloud.Config]*cloud.Client
}

// maxClients bounds the kept clients, and so the memory, of a long-lived process while credentials are rotated; at the
// limit all are dropped.
const maxClients = 1000

// For returns the client for the credentials in a Secret.
func (c *Clients) For(ctx context.Context, reader client.Reader, ref corev1.SecretReference) (*cloud.Client, error) {
	cfg, _, err := FromSecret(ctx, reader, ref)
	if err != nil {
		return nil, err
	}
	return c.Get(cfg)
}

// Get returns the client for credentials.
func (c *Clients) Get(cfg cloud.Config) (*cloud.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.byAuth[cfg]; ok {
		return found, nil
	}
	made, err := cloud.New(cfg)
	if err != nil {
		return nil, err
	}
	if c.byAuth == nil || len(c.byAuth) >= maxClients {
		c.byAuth = map[cloud.Config]*cloud.Client{}
	}
	c.byAuth[cfg] = made
	return made, nil
}
