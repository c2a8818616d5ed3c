package steps

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/poolhash"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/kube"
)

// Versions of the hash in the key of a pool's configuration.
const (
	hashV1 = 1 // The original hash.
	hashV2 = 2 // The hash of the feature gate NewWorkerPoolHash.
)

// poolKeysSecret and poolKeysData are where the keys of the pools are kept. The Secret goes into the ShootState: a seed
// that takes the Shoot over must not replace its machines.
const (
	poolKeysSecret = "worker-pools-operatingsystemconfig-hashes"
	poolKeysData   = "pools"
)

// poolKeys are the keys of the configuration of one pool.
type poolKeys struct {
	Name string `json:"name"`
	// CurrentVersion is the version of the hash with which the machines of the pool were created.
	CurrentVersion int `json:"currentVersion"`
	// Keys by version of the hash, as of the last reconciliation.
	Keys map[int]string `json:"hashVersionToOSCKey"`
}

// key is the one that the machines of the pool have.
func (k *poolKeys) key() string { return k.Keys[k.CurrentVersion] }

// decidePoolKeys says which keys the pools of a Shoot have from now on. A pool keeps the version of its hash until
// something happens that replaces its machines anyway; then it gets the latest version, as a new pool does. So to
// switch the version replaces nothing.
func decidePoolKeys(pools []poolhash.Pool, stored []poolKeys, latest int) ([]poolKeys, error) {
	var out []poolKeys
	for _, pool := range pools {
		decided := poolKeys{Name: pool.Name, CurrentVersion: latest, Keys: map[int]string{}}
		if i := slices.IndexFunc(stored, func(k poolKeys) bool { return k.Name == pool.Name }); i >= 0 {
			replaced, err := changed(pool, stored[i].Keys)
			if err != nil {
				return nil, err
			}
			if !replaced {
				decided.CurrentVersion = stored[i].CurrentVersion
			}
		}
		for _, version := range []int{decided.CurrentVersion, latest} {
			key, err := keyOf(pool, version)
			if err != nil {
				return nil, err
			}
			decided.Keys[version] = key
		}
		out = append(out, decided)
	}
	return out, nil
}

// changed reports whether the key of any version has changed.
func changed(pool poolhash.Pool, keys map[int]string) (bool, error) {
	for version, before := range keys {
		now, err := keyOf(pool, version)
		if err != nil {
			return false, err
		}
		if now != before {
			return true, nil
		}
	}
	return false, nil
}

func keyOf(pool poolhash.Pool, version int) (string, error) {
	switch version {
	case hashV1:
		return poolhash.KeyV1(pool)
	case hashV2:
		return poolhash.KeyV2(pool)
	}
	return "", fmt.Errorf("worker pool %q: unknown version of the hash: %d (available: %d, %d)", pool.Name, version,
		hashV1, hashV2)
}

// rolledPools are the inputs of the pools whose machines are replaced, not updated in place.
func rolledPools(shoot *corev1beta1.Shoot) []poolhash.Pool {
	var out []poolhash.Pool
	for i := range shoot.Spec.Provider.Workers {
		if w := &shoot.Spec.Provider.Workers[i]; !inPlace(w) {
			out = append(out, poolhash.FromShoot(shoot, w))
		}
	}
	return out
}

// ensurePoolKeys decides and stores the keys of all pools.
func ensurePoolKeys(ctx context.Context, s *Values, seed *SeedNamespace) error {
	stored, found, err := readPoolKeys(ctx, seed, s.Namespace)
	if err != nil {
		return err
	}
	if !found {
		if stored, err = adoptPoolKeys(ctx, s, seed); err != nil {
			return err
		}
	}
	latest := hashV1
	if s.NewWorkerPoolHash {
		latest = hashV2
	}
	decided, err := decidePoolKeys(rolledPools(s.Shoot), stored, latest)
	if err != nil {
		return err
	}
	secret, err := renderPoolKeys(s.Namespace, decided)
	if err != nil {
		return err
	}
	return seed.apply(ctx, secret)
}

// adoptPoolKeys are those of a control plane from before they were stored: its Worker records which version each pool
// has. What has changed since is not known, so no pool gets another version.
func adoptPoolKeys(ctx context.Context, s *Values, seed *SeedNamespace) ([]poolKeys, error) {
	worker := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Shoot.Name}}
	if _, err := kube.Exists(ctx, seed, worker); err != nil {
		return nil, err
	}
	var out []poolKeys
	for _, pool := range worker.Spec.Pools {
		version := hashV1
		if pool.NodeAgentSecretName != nil {
			version = hashV2
		}
		out = append(out, poolKeys{Name: pool.Name, CurrentVersion: version})
	}
	return out, nil
}

func renderPoolKeys(namespace string, keys []poolKeys) (*corev1.Secret, error) {
	content, err := yaml.Marshal(keys)
	if err != nil {
		return nil, fmt.Errorf("encode keys of worker pools: %w", err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: poolKeysSecret, Labels: map[string]string{component.LabelPersist: "true"},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{poolKeysData: content},
	}, nil
}

func readPoolKeys(ctx context.Context, seed client.Reader, namespace string) (keys []poolKeys, found bool, err error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: poolKeysSecret}}
	if found, err = kube.Exists(ctx, seed, secret); err != nil || !found {
		return nil, false, err
	}
	if err := yaml.Unmarshal(secret.Data[poolKeysData], &keys); err != nil {
		return nil, false, fmt.Errorf("decode Secret %q: %w", poolKeysSecret, err)
	}
	return keys, true, nil
}

// poolKey names the configuration of a pool.
type poolKey struct {
	name string
	// version of the hash in the name; 0 for pools that are updated in place, whose name never changes.
	version int
}

// readKeys are the keys by name of the pool, as they were stored last. A pool without keys is omitted.
func readKeys(
	ctx context.Context, seed client.Reader, shoot *corev1beta1.Shoot, namespace string,
) (map[string]poolKey, error) {
	stored, _, err := readPoolKeys(ctx, seed, namespace)
	if err != nil {
		return nil, err
	}
	out := map[string]poolKey{}
	for i := range shoot.Spec.Provider.Workers {
		w := &shoot.Spec.Provider.Workers[i]
		if inPlace(w) {
			out[w.Name] = poolKey{name: poolhash.KeyInPlace(poolhash.FromShoot(shoot, w))}
			continue
		}
		if at := slices.IndexFunc(stored, func(k poolKeys) bool { return k.Name == w.Name }); at >= 0 {
			out[w.Name] = poolKey{name: stored[at].key(), version: stored[at].CurrentVersion}
		}
	}
	return out, nil
}
