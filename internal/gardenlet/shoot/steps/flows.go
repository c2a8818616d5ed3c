package steps

import (
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/kubecontrollermanager"
	"hortus.dev/hortus/internal/component/kubescheduler"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/component/vpnseedserver"
	"hortus.dev/hortus/internal/flow"
)

// Deployment is one of the Deployments that steps create in the namespace of a control plane.
type Deployment struct {
	Name string
	// Workers: only the control planes of Shoots with workers have it.
	Workers bool
	// User of its client certificate for the Shoot's API, and the user's Groups; "" if it has none. The credential has the
	// name of the Deployment.
	User   string
	Groups []string
	// StopsWithAPIServer: it is of no use without the API server, and is scaled to zero with it when the control plane
	// moves or is deleted.
	StopsWithAPIServer bool
}

// Deployments are all of them. The API server comes first: whether the others are healthy depends on it. Hibernation
// stops them in the opposite order, so that nothing acts on an API server that is gone.
var Deployments = []Deployment{
	{Name: kubeapiserver.Name},
	{Name: kubecontrollermanager.Name, User: kubecontrollermanager.CommonName, StopsWithAPIServer: true},
	{
		Name: resourcemanager.Name, User: resourcemanager.CommonName, Groups: []string{"system:masters"},
		StopsWithAPIServer: true,
	},
	// Nodes look for the tunnel server of the destination as soon as this one has stopped.
	{Name: vpnseedserver.Name, StopsWithAPIServer: true},
	{Name: kubescheduler.Name, Workers: true, User: kubescheduler.CommonName, StopsWithAPIServer: true},
	// A move stops it long before the API server, a deletion removes it with the machines.
	{Name: machinecontrollermanager.Name, Workers: true, User: machinecontrollermanager.CommonName},
}

// Reconcile is the flow that creates, updates, hibernates and wakes up a Shoot. Its last steps come after all others,
// except those that stand aside.
func Reconcile() *flow.Graph[*Scope] {
	return flow.New(
		RequiredExtensions, Namespace, BackupEntry, ClusterIdentity, CloudCredentials, Credentials, GardenObjects, References,
		Infrastructure, Bastions,
		KubeAPIServerService, GatewayAddress, AdvertisedAddresses, DNSInternal, DNSExternal, Route,
		Etcd, EtcdActivated, RestoreBackup, EtcdReady, FormerOwnerFenced, VPNSeedServer,
		ExtensionsBeforeKubeAPIServer, KubeAPIServer, KubeAPIServerReady, Connection,
		ResourceManager, ManagedResources, ControlPlane, KubeControllerManager, KubeScheduler,
		ShootNamespaces, ShootSystem, CoreDNS, KubeProxy, APIServerProxy, VPNShoot,
		ExtensionsAfterKubeAPIServer, StaleExtensions, ContainerRuntimes, StaleContainerRuntimes,
		OperatingSystemConfig, Network, NodeAgent, ShootResources,
		MachineControllerManager, Worker, ExtensionsAfterWorker,
		SystemComponentsReady, Tunnel, NodesUpdated,
		RenewAccess, ServiceAccountTokens, EncryptionAtRest, RestartControlPlane, RestartCoreAddons,
	).Then(flow.New(RestorableFrom, NodesGone, Hibernate, Isolated, StaleReferences))
}

// Delete is the flow that deletes a Shoot: it brings up the control plane once more, so that the users' objects in the
// cluster can be cleaned up, and then deletes everything in the reverse order of its creation.
func Delete() *flow.Graph[*Scope] {
	prepare := flow.New(Namespace, CloudCredentials, Credentials, References).SkipAll(when(notLive))
	bringUp := flow.New(
		KubeAPIServerService, GatewayAddress, DNSInternal, Route,
		Etcd, EtcdActivated, EtcdReady, KubeAPIServer, KubeAPIServerReady, Connection, ResourceManager, KubeControllerManager,
	).SkipAll(when(notClean))
	providers := flow.New(ControlPlane).SkipAll(when(notClean, controlPlaneNotNeeded)).
		Union(flow.New(ShootSystem, MachineControllerManager).SkipAll(when(notClean, withoutWorkerObject)))
	cleanUp := flow.New(CleanWebhooks, CleanExtendedAPIs, CleanKubernetesResources).SkipAll(when(notClean))
	leaveNodes := flow.Reverse(nil,
		OperatingSystemConfig, Network, ShootResources, MachineControllerManager, Worker, Bastions)
	cleanVolumes := flow.New(CleanVolumeAttachments).SkipAll(when(notClean, workerless))
	leaveCluster := leaveNodes.Then(cleanVolumes).
		Then(flow.Reverse(nil, ManagedResources, ControlPlane, ExtensionsAfterKubeAPIServer, ContainerRuntimes)).
		Union(flow.Reverse(nil, DNSExternal))
	tearDown := flow.Reverse(nil, KubeAPIServerService, Route, DNSInternal, Etcd, ExtensionsBeforeKubeAPIServer,
		KubeAPIServer).
		Union(flow.Reverse(nil, Infrastructure))
	return prepare.Then(bringUp).Then(providers).Then(cleanUp).Then(leaveCluster).Then(tearDown).
		Then(flow.Reverse(nil, Namespace)).Then(flow.Reverse(nil, BackupEntry))
}

// notLive: there is no control plane namespace that anything could be put into.
func notLive(s *Values) string { return reasonIf(!s.Facts.Live, "no control plane namespace") }

// notClean: the Shoot's API is gone already, or never was, so nothing in it can be cleaned up.
func notClean(s *Values) string {
	switch {
	case !s.Facts.Live:
		return "no control plane namespace"
	case !s.Facts.APIServer:
		return "no API server"
	case !s.Facts.Infrastructure && !s.Workerless():
		return "no infrastructure"
	}
	return ""
}

func controlPlaneNotNeeded(s *Values) string {
	return reasonIf(!s.Facts.ControlPlane || !s.Facts.InfrastructureStatus, "not needed any more")
}

func withoutWorkerObject(s *Values) string { return reasonIf(!s.Facts.Worker, "no machines left") }
