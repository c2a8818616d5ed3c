package steps

import (
	"hortus.dev/hortus/internal/flow"
)

// Reconcile is the flow that creates, updates, hibernates and wakes up a Shoot.
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
		MachineController, Worker, ExtensionsAfterWorker,
		SystemComponentsReady, Tunnel, NodesUpdated,
		RenewAccess, EncryptionAtRest, RestorableFrom, RestartControlPlane, RestartCoreAddons, Hibernate, Isolated,
	)
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
		Beside(flow.New(ShootSystem, MachineController).SkipAll(when(notClean, withoutWorkerObject)))
	cleanUp := flow.New(CleanWebhooks, CleanExtendedAPIs, CleanKubernetesResources).SkipAll(when(notClean))
	leaveNodes := flow.Reverse(nil, OperatingSystemConfig, Network, ShootResources, MachineController, Worker, Bastions)
	leaveCluster := leaveNodes.
		Then(flow.Reverse(nil, ManagedResources, ControlPlane, ExtensionsAfterKubeAPIServer, ContainerRuntimes)).
		Beside(flow.Reverse(nil, DNSExternal))
	tearDown := flow.Reverse(nil, KubeAPIServerService, Route, DNSInternal, Etcd, ExtensionsBeforeKubeAPIServer,
		KubeAPIServer).
		Beside(flow.Reverse(nil, Infrastructure))
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
