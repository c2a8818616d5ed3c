package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// maxVersions bounds the versions of a group in which a resource is looked for, each with a request of its own: owners
// of Shoots make groups with as many versions as they like. A resource that only later versions serve counts as not
// served: while objects of it have to be encrypted anew, the rotation of the key fails and names it.
const maxVersions = 10

// known is a kind that every API server has, or would have under this name.
type known struct {
	schema.GroupVersionKind
	resource   string
	namespaced bool
}

func clusterScoped(group, version, kind, resource string) known {
	return known{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, resource, false}
}

func namespaced(group, version, kind, resource string) known {
	return known{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, resource, true}
}

// table has what checks read, what steps and clean-ups delete, and Secrets, which are always encrypted.
var table = []known{
	clusterScoped("", "v1", "Node", "nodes"),
	namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
	namespaced("", "v1", "Pod", "pods"),
	namespaced("", "v1", "ReplicationController", "replicationcontrollers"),
	namespaced("", "v1", "Secret", "secrets"),
	namespaced("", "v1", "Service", "services"),
	clusterScoped("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
	clusterScoped("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration",
		"validatingwebhookconfigurations"),
	clusterScoped("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
	clusterScoped("apiregistration.k8s.io", "v1", "APIService", "apiservices"),
	namespaced("apps", "v1", "DaemonSet", "daemonsets"),
	namespaced("apps", "v1", "Deployment", "deployments"),
	namespaced("apps", "v1", "ReplicaSet", "replicasets"),
	namespaced("apps", "v1", "StatefulSet", "statefulsets"),
	namespaced("batch", "v1", "CronJob", "cronjobs"),
	namespaced("batch", "v1", "Job", "jobs"),
	namespaced("coordination.k8s.io", "v1", "Lease", "leases"),
	namespaced("networking.k8s.io", "v1", "Ingress", "ingresses"),
	namespaced("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots"),
	clusterScoped("snapshot.storage.k8s.io", "v1", "VolumeSnapshotContent", "volumesnapshotcontents"),
}

// mapper answers RESTMapping and KindFor, which the client and the gardenlet use, for all kinds; the other methods only
// know those of the table.
type mapper struct {
	meta.RESTMapper // Of the table.
	server          discovery.DiscoveryInterface
}

// NewMapper returns a mapper that discovers groups whose kinds are not known. It caches no answers; clients do.
func NewMapper(server discovery.DiscoveryInterface) meta.RESTMapper {
	var versions []schema.GroupVersion
	for _, k := range table {
		versions = append(versions, k.GroupVersion())
	}
	static := meta.NewDefaultRESTMapper(versions)
	for _, k := range table {
		singular := k.GroupVersion().WithResource(strings.ToLower(k.Kind))
		static.AddSpecific(k.GroupVersionKind, k.GroupVersion().WithResource(k.resource), singular, scope(k.namespaced))
	}
	return mapper{static, server}
}

func scope(namespaced bool) meta.RESTScope {
	if namespaced {
		return meta.RESTScopeNamespace
	}
	return meta.RESTScopeRoot
}

// RESTMapping returns the resource of a kind. Without a version, it is that of the server's preferred version, if that
// version has the kind.
func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if mapping, err := m.RESTMapper.RESTMapping(gk, versions...); err == nil {
		return mapping, nil
	}
	found, err := m.find(gk.Group, versions, func(r metav1.APIResource) bool { return r.Kind == gk.Kind })
	if err != nil {
		return nil, fmt.Errorf("find the resource of kind %s: %w", gk, err)
	}
	if found == nil {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	version := schema.GroupVersion{Group: gk.Group, Version: found.Version}
	return &meta.RESTMapping{
		Resource: version.WithResource(found.Name), GroupVersionKind: version.WithKind(found.Kind),
		Scope: scope(found.Namespaced),
	}, nil
}

// KindFor returns the kind of a resource. An empty group is the core group, as in the configuration of encryption.
func (m mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	for _, k := range table {
		if k.Group == resource.Group && k.resource == resource.Resource &&
			(resource.Version == "" || resource.Version == k.Version) {
			return k.GroupVersionKind, nil
		}
	}
	named := func(r metav1.APIResource) bool { return r.Name == resource.Resource }
	found, err := m.find(resource.Group, []string{resource.Version}, named)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("find the kind of resource %s: %w", resource.GroupResource(), err)
	}
	if found == nil {
		return schema.GroupVersionKind{}, &meta.NoResourceMatchError{PartialResource: resource}
	}
	return schema.GroupVersionKind{Group: resource.Group, Version: found.Version, Kind: found.Kind}, nil
}

// find requests from the server the first resource in one of the versions of a group that matches; nil if there is
// none. No versions, and empty ones, stand for all that the group has.
func (m mapper) find(
	group string, versions []string, match func(metav1.APIResource) bool,
) (*metav1.APIResource, error) {
	versions = slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return v == "" })
	if len(versions) == 0 {
		var err error
		if versions, err = m.versions(group); err != nil {
			return nil, err
		}
	}
	for _, version := range versions[:min(len(versions), maxVersions)] {
		list, err := m.server.ServerResourcesForGroupVersion(schema.GroupVersion{Group: group, Version: version}.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Subresources are skipped: their kind is their own or that of their resource.
		is := func(r metav1.APIResource) bool { return !strings.Contains(r.Name, "/") && match(r) }
		if i := slices.IndexFunc(list.APIResources, is); i >= 0 {
			found := list.APIResources[i]
			found.Version = version
			return &found, nil
		}
	}
	return nil, nil
}

// versions lists those that the server has of a group, its preferred one first; none if there is no such group.
func (m mapper) versions(group string) ([]string, error) {
	if group == "" {
		return []string{"v1"}, nil
	}
	answer := &metav1.APIGroup{}
	// A RESTMapper gets no context; the timeout of the client bounds the request.
	err := m.server.RESTClient().Get().AbsPath("/apis", group).Do(context.Background()).Into(answer)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	versions := []string{answer.PreferredVersion.Version}
	for _, v := range answer.Versions {
		if v.Version != versions[0] {
			versions = append(versions, v.Version)
		}
	}
	return versions, nil
}
