package steps

import (
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

// Kinds of things that steps wait for, as labels of metrics, besides those of extension objects.
const (
	waitAPIServer       flow.Kind = "APIServer"
	waitBackup          flow.Kind = "Backup"
	waitBackupEntry     flow.Kind = "BackupEntry"
	waitDeployment      flow.Kind = "Deployment"
	waitEncryption      flow.Kind = "Encryption"
	waitEtcd            flow.Kind = "Etcd"
	waitExtension       flow.Kind = "Extension"
	waitGateway         flow.Kind = "Gateway"
	waitImage           flow.Kind = "Image"
	waitMachine         flow.Kind = "Machine"
	waitManagedResource flow.Kind = "ManagedResource"
	waitNamespace       flow.Kind = "Namespace"
	waitNode            flow.Kind = "Node"
	waitObject          flow.Kind = "Object" // Of the user's cluster, or of the remains of a control plane.
	waitPod             flow.Kind = "Pod"
	waitSecret          flow.Kind = "Secret"
	waitSeed            flow.Kind = "Seed"  // The other seed, in a move.
	waitState           flow.Kind = "State" // The ShootState.
	waitStatefulSet     flow.Kind = "StatefulSet"
	waitToken           flow.Kind = "Token"
	waitTunnel          flow.Kind = "Tunnel"
	waitWorker          flow.Kind = "Worker"
)

// waitingOr returns an error, or else a wait.
func waitingOr(kind flow.Kind, reason string, err error) (flow.Outcome, error) {
	if err != nil {
		return flow.Outcome{}, err
	}
	return flow.Waiting(kind, reason), nil
}

// waitingFor is a wait for an extension object. The text comes after its name.
func waitingFor(o extensionsv1alpha1.Object, text string) flow.Outcome {
	kind := extensionobject.KindOf(o)
	return flow.Waiting(flow.Kind(kind), kind+" "+o.GetName()+text).About(o.GetName())
}
