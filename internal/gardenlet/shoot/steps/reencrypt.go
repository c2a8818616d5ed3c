package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/secretsmanager"
)

// rewriteBatch bounds the objects that one pass writes again; the next pass continues. At the request rate to a Shoot's
// API server a batch takes about four seconds.
const rewriteBatch = 200

// EtcdAccess has what is needed to connect to the etcd of a control plane.
type EtcdAccess struct {
	Endpoint               string
	CAPEM, CertPEM, KeyPEM []byte
}

// access is the gardenlet's own, with the certificate of the API server.
func (etcds Etcds) access() (EtcdAccess, error) {
	ca, err := etcds.secrets.Bundle(nameCAEtcd)
	if err != nil {
		return EtcdAccess{}, err
	}
	cert, err := etcds.secrets.Get(nameEtcdClient)
	if err != nil {
		return EtcdAccess{}, err
	}
	return EtcdAccess{
		Endpoint: etcd.URL(etcds.secrets.namespace), CAPEM: ca.Data[secretsmanager.DataBundle],
		CertPEM: cert.Data[secretsmanager.DataCert], KeyPEM: cert.Data[secretsmanager.DataKey],
	}, nil
}

// rewrite looks in etcd for objects that are not stored as the configuration says, and makes the API server write them
// again. It returns how many it has found, at most rewriteBatch; 0 proves that there is none.
func rewrite(ctx context.Context, cluster *ShootCluster, etcds Etcds, c encryption.Config) (int, error) {
	access, err := etcds.access()
	if err != nil {
		return 0, err
	}
	shoot, err := cluster.client()
	if err != nil {
		return 0, err
	}
	found := 0
	for _, resource := range slices.Sorted(maps.Keys(c.Providers)) {
		prefix, writer, stored := encryption.StoragePrefix(resource), c.Of(resource)[0], 0
		var stale []string
		err := etcds.Stored(ctx, access, prefix, func(key string, value []byte) bool {
			stored++
			if !writer.Stores(value) {
				stale = append(stale, key)
			}
			return found+len(stale) < rewriteBatch
		})
		if err != nil {
			return found, fmt.Errorf("read %s in etcd: %w", resource, err)
		}
		found += len(stale)
		if err := rewriteObjects(ctx, shoot, resource, prefix, stale, stored); err != nil {
			return found, err
		}
		if found >= rewriteBatch {
			break
		}
	}
	return found, nil
}

// rewriteObjects writes objects again, by their keys in etcd. stored is how many there are.
func rewriteObjects(
	ctx context.Context, shoot client.Client, resource, prefix string, keys []string, stored int,
) error {
	gvk, err := shoot.RESTMapper().KindFor(schema.ParseGroupResource(resource).WithVersion(""))
	if meta.IsNoMatchError(err) && len(keys) == 0 {
		return nil // A custom resource that does not exist (yet).
	}
	if err != nil {
		return fmt.Errorf("find the kind of %s, of which %d objects have to be written again: %w", resource, len(keys), err)
	}
	if stored == 0 {
		return checkNone(ctx, shoot, gvk, prefix)
	}
	mapping, err := shoot.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return fmt.Errorf("find the kind of %s: %w", resource, err)
	}
	for _, key := range keys {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(gvk)
		namespace, name, err := encryption.ObjectName(prefix, key, mapping.Scope.Name() == meta.RESTScopeNameNamespace)
		if err != nil {
			return err
		}
		o.SetNamespace(namespace)
		o.SetName(name)
		// A server writes even an unchanged object if it would store it differently now.
		if err := client.IgnoreNotFound(shoot.Patch(ctx, o,
			client.RawPatch(types.MergePatchType, []byte("{}")))); err != nil {
			return fmt.Errorf("write %s %s again: %w", gvk.Kind, client.ObjectKeyFromObject(o), err)
		}
	}
	if len(keys) > 0 {
		log.FromContext(ctx).Info("Wrote objects of the Shoot to etcd with the new encryption", "resource", resource,
			"objects", len(keys))
	}
	return nil
}

// checkNone makes sure that there is nothing in etcd because there are no objects, not because they are elsewhere.
func checkNone(ctx context.Context, shoot client.Client, gvk schema.GroupVersionKind, prefix string) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := shoot.List(ctx, list, client.Limit(1)); err != nil {
		return fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("%s %s is not in etcd under %s: its encryption can't be proven",
			gvk.Kind, client.ObjectKeyFromObject(&list.Items[0]), prefix)
	}
	return nil
}
