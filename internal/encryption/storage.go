package encryption

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// registry is the prefix of everything that a kube-apiserver stores (its flag --etcd-prefix).
const registry = "/registry/"

// unusual are the resources that kube-apiserver stores under another name than their own
// (https://github.com/kubernetes/kubernetes, pkg/kubeapiserver/default_storage_factory_builder.go).
var unusual = map[string]string{
	"replicationcontrollers":      "controllers",
	"endpoints":                   "services/endpoints",
	"nodes":                       "minions",
	"services":                    "services/specs",
	"ingresses.networking.k8s.io": "ingress",
}

// StoragePrefix is what the keys of a resource, such as secrets or deployments.apps, begin with in etcd. Objects of
// custom resources are stored by group, those that a kube-apiserver knows itself are not.
func StoragePrefix(resource string) string {
	if name, ok := unusual[resource]; ok {
		return registry + name + "/"
	}
	r := schema.ParseGroupResource(resource)
	if scheme.Scheme.IsGroupRegistered(r.Group) {
		return registry + r.Resource + "/"
	}
	return registry + r.Group + "/" + r.Resource + "/"
}

// ObjectName reads namespace and name from a key. The namespace is empty for a resource without namespaces.
func ObjectName(prefix, key string, namespaced bool) (namespace, name string, err error) {
	rest, ok := strings.CutPrefix(key, prefix)
	if ok && namespaced {
		namespace, rest, ok = strings.Cut(rest, "/")
	}
	if !ok || rest == "" || strings.Contains(rest, "/") {
		return "", "", fmt.Errorf("etcd key %q: not the key of an object under %s", key, prefix)
	}
	return namespace, rest, nil
}
