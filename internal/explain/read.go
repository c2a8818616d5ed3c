package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

// newScheme has the types of all facts.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), corev1beta1.AddToScheme(s), extensionsv1alpha1.AddToScheme(s),
		resourcesv1alpha1.AddToScheme(s), machinev1alpha1.AddToScheme(s), seedmanagementv1alpha1.AddToScheme(s))
}

// readShootInGarden returns the facts about a Shoot that the garden has.
func readShootInGarden(ctx context.Context, garden client.Reader, namespace, name string) (*ShootFacts, error) {
	f := &ShootFacts{Shoot: &corev1beta1.Shoot{}}
	if err := garden.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, f.Shoot); err != nil {
		return nil, fmt.Errorf("read Shoot %s/%s: %w", namespace, name, err)
	}
	if seed := ptr.Deref(f.Shoot.Spec.SeedName, ""); seed != "" {
		f.Seed = &corev1beta1.Seed{}
		if err := garden.Get(ctx, client.ObjectKey{Name: seed}, f.Seed); err != nil {
			f.Seed = nil
			f.Unread = append(f.Unread, fmt.Sprintf("Seed %s: %v", seed, err))
		}
	}
	return f, nil
}

// readSeedInGarden returns the facts about a Seed that the garden has.
func readSeedInGarden(ctx context.Context, garden client.Reader, name string) (*SeedFacts, error) {
	f := &SeedFacts{Seed: &corev1beta1.Seed{}}
	if err := garden.Get(ctx, client.ObjectKey{Name: name}, f.Seed); err != nil {
		return nil, fmt.Errorf("read Seed %s: %w", name, err)
	}
	note := func(what string, err error) {
		if err != nil {
			f.Unread = append(f.Unread, fmt.Sprintf("%s: %v", what, err))
		}
	}
	var (
		installations corev1beta1.ControllerInstallationList
		backups       corev1beta1.BackupBucketList
	)
	ofSeed := func(field string) client.MatchingFields { return client.MatchingFields{field: name} }
	note("ControllerInstallations of the Seed", garden.List(ctx, &installations, ofSeed("spec.seedRef.name")))
	note("BackupBuckets of the Seed", garden.List(ctx, &backups, ofSeed("spec.seedName")))
	f.Installations, f.Buckets = installations.Items, backups.Items
	key := client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: name}
	managed, updating := &seedmanagementv1alpha1.ManagedSeed{}, &seedmanagementv1alpha1.Gardenlet{}
	err := garden.Get(ctx, key, managed)
	if note("ManagedSeed "+name, client.IgnoreNotFound(err)); err == nil {
		f.ManagedSeed = managed
	}
	err = garden.Get(ctx, key, updating)
	if note("Gardenlet "+name, client.IgnoreNotFound(err)); err == nil {
		f.Gardenlet = updating
	}
	return f, nil
}

// isSeed reports whether a cluster is that of a Seed.
func isSeed(ctx context.Context, cluster client.Reader, seed *corev1beta1.Seed) (bool, error) {
	ns := &corev1.Namespace{}
	if err := cluster.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns); err != nil {
		return false, fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID) == ptr.Deref(seed.Status.ClusterIdentity, ""), nil
}

// readSeedCluster reads the cluster of a Seed, on which extensions are installed.
func readSeedCluster(
	ctx context.Context, cluster client.Reader, installations []corev1beta1.ControllerInstallation,
) (*SeedCluster, error) {
	var (
		nodes     corev1.NodeList
		resources resourcesv1alpha1.ManagedResourceList
	)
	err := cluster.List(ctx, &resources, client.InNamespace(corev1beta1.GardenNamespace))
	if meta.IsNoMatchError(err) { // The gardenlet has not defined the kind yet.
		err = nil
	}
	if err := errors.Join(err, cluster.List(ctx, &nodes)); err != nil {
		return nil, err
	}
	s := &SeedCluster{Nodes: nodes.Items, Resources: resources.Items, Namespaces: map[string]Workloads{}}
	namespaces := []string{corev1beta1.GardenNamespace, gateway.Namespace}
	for i := range installations {
		namespaces = append(namespaces, corev1beta1.ExtensionNamespacePrefix+installations[i].Name)
	}
	for _, namespace := range namespaces {
		if s.Namespaces[namespace], err = readWorkloads(ctx, cluster, namespace); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// hasControlPlane reports whether a cluster has the control plane of a Shoot. Names do not suffice: Shoots of different
// gardens may have the same.
func hasControlPlane(ctx context.Context, seed client.Reader, shoot *corev1beta1.Shoot) (bool, error) {
	cluster := &extensionsv1alpha1.Cluster{}
	if err := seed.Get(ctx, client.ObjectKey{Name: shoot.Status.TechnicalID}, cluster); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	var copied metav1.PartialObjectMetadata
	if err := json.Unmarshal(cluster.Spec.Shoot.Raw, &copied); err != nil {
		return false, fmt.Errorf("read Cluster %s: %w", cluster.Name, err)
	}
	return copied.UID == shoot.UID, nil
}

// readControlPlane reads the Shoot's namespace in the Seed.
func readControlPlane(ctx context.Context, seed client.Reader, namespace string) (*ControlPlane, error) {
	p := &ControlPlane{}
	var resources resourcesv1alpha1.ManagedResourceList
	var machines machinev1alpha1.MachineList
	err := errors.Join(seed.List(ctx, &resources, client.InNamespace(namespace)),
		seed.List(ctx, &machines, client.InNamespace(namespace)))
	if err != nil {
		return nil, err
	}
	p.Resources, p.Machines = resources.Items, machines.Items
	if p.Extensions, err = extensionobject.List(ctx, seed, namespace, extensionobject.Kinds...); err != nil {
		return nil, err
	}
	p.Workloads, err = readWorkloads(ctx, seed, namespace)
	return p, err
}

// readCluster reads the Shoot itself.
func readCluster(ctx context.Context, shoot client.Reader) (*Cluster, error) {
	var list corev1.NodeList
	if err := shoot.List(ctx, &list); err != nil {
		return nil, err
	}
	w, err := readWorkloads(ctx, shoot, metav1.NamespaceSystem)
	return &Cluster{Nodes: list.Items, Workloads: w}, err
}

func readWorkloads(ctx context.Context, c client.Reader, namespace string) (Workloads, error) {
	var (
		w            Workloads
		pods         corev1.PodList
		events       corev1.EventList
		deployments  appsv1.DeploymentList
		statefulSets appsv1.StatefulSetList
		daemonSets   appsv1.DaemonSetList
	)
	in := client.InNamespace(namespace)
	if err := errors.Join(c.List(ctx, &pods, in), c.List(ctx, &deployments, in), c.List(ctx, &statefulSets, in),
		c.List(ctx, &daemonSets, in), c.List(ctx, &events, in, client.MatchingFields{"type": corev1.EventTypeWarning}),
	); err != nil {
		return w, err
	}
	w.Pods, w.Warnings = pods.Items, events.Items
	for i := range deployments.Items {
		d := &deployments.Items[i]
		each := Workload{"Deployment", namespace, d.Name, ptr.Deref(d.Spec.Replicas, 1), d.Status.ReadyReplicas, ""}
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				each.Failure = c.Message
			}
		}
		w.List = append(w.List, each)
	}
	for i := range statefulSets.Items {
		s := &statefulSets.Items[i]
		w.List = append(w.List, Workload{
			"StatefulSet", namespace, s.Name, ptr.Deref(s.Spec.Replicas, 1), s.Status.ReadyReplicas, "",
		})
	}
	for i := range daemonSets.Items {
		s := &daemonSets.Items[i]
		w.List = append(w.List, Workload{
			"DaemonSet", namespace, s.Name, s.Status.DesiredNumberScheduled, s.Status.NumberReady, "",
		})
	}
	return w, nil
}
