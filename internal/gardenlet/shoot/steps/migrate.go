package steps

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/ownership"
)

// Migrate is the flow by which the source hands over a control plane. Everything that takes long happens while the API
// server still serves: extensions stop acting, and the destination prepares. Only the end of the server and the last
// delta of etcd remain for the time without an API. After the flow nothing on this seed writes any more, and the status
// of the Shoot names the destination.
func Migrate() *flow.Graph[*Scope] {
	return flow.New(
		EtcdSaved, BastionsRemoved, MachineControllerManagerStopped, WorkerMigrated, OthersMigrated, InfrastructureMigrated,
		StateSaved, BackupEntryHandedOver, DestinationPrepared, KubeAPIServerStopped, LateExtensionsMigrated, LateStateSaved,
		LastDeltaSaved,
	)
}

var (
	// EtcdSaved keeps the last delta small, and checks that backups work before anything is stopped.
	EtcdSaved = &flow.Step[*Scope]{
		Name:    "etcd-saved",
		SkipIf:  when(destinationCalled),
		Ensure:  use2(ensureEtcdSaved),
		Recheck: recheckPods,
	}
	// MachineControllerManagerStopped: from here on no machine is created or deleted until the destination runs its own
	// controller.
	MachineControllerManagerStopped = &flow.Step[*Scope]{
		Name:    "machine-controller-manager-stopped",
		After:   []*flow.Step[*Scope]{EtcdSaved},
		Ensure:  use1(ensureMachineControllerManagerStopped),
		Recheck: recheckPods,
	}
	// WorkerMigrated: the extension of the Worker has stopped acting; the machines remain as they are.
	WorkerMigrated = &flow.Step[*Scope]{
		Name:   "worker-migrated",
		After:  []*flow.Step[*Scope]{MachineControllerManagerStopped},
		Ensure: use2(migrate(only(extensionsv1alpha1.WorkerKind))),
	}
	// OthersMigrated: the other extensions that the API server does not need have stopped acting, too.
	OthersMigrated = &flow.Step[*Scope]{
		Name:   "extensions-migrated",
		After:  []*flow.Step[*Scope]{WorkerMigrated},
		Ensure: use2(migrate(except(extensionsv1alpha1.WorkerKind, extensionsv1alpha1.InfrastructureKind))),
	}
	// InfrastructureMigrated comes after everything that depends on the infrastructure.
	InfrastructureMigrated = &flow.Step[*Scope]{
		Name:   "infrastructure-migrated",
		After:  []*flow.Step[*Scope]{OthersMigrated, BastionsRemoved},
		Ensure: use2(migrate(only(extensionsv1alpha1.InfrastructureKind))),
	}
	// StateSaved saves in the garden the state from which the destination prepares.
	StateSaved = &flow.Step[*Scope]{
		Name:    "state-saved",
		After:   []*flow.Step[*Scope]{InfrastructureMigrated},
		SkipIf:  when(destinationCalled, notSettled),
		Ensure:  use2(ensureStateSaved),
		Recheck: recheckPods,
	}
	// BackupEntryHandedOver gives the destination access to the backups. Etcd keeps its access here.
	BackupEntryHandedOver = &flow.Step[*Scope]{
		Name:   "backup-entry-handed-over",
		After:  []*flow.Step[*Scope]{StateSaved},
		Ensure: use2(ensureBackupEntryHandedOver),
	}
	// DestinationPrepared requests the preparation from the destination and waits until it is done.
	DestinationPrepared = &flow.Step[*Scope]{
		Name:    "destination-prepared",
		After:   []*flow.Step[*Scope]{BackupEntryHandedOver},
		Ensure:  use2(ensureDestinationPrepared),
		Recheck: 200 * time.Millisecond, // The answer is in the garden, and cannot be watched.
		Limit:   15 * time.Minute,       // The destination may have to create a network.
	}
	// KubeAPIServerStopped stops everything that writes to etcd.
	KubeAPIServerStopped = &flow.Step[*Scope]{
		Name:    "kube-apiserver-stopped",
		After:   []*flow.Step[*Scope]{DestinationPrepared},
		Ensure:  use1(ensureKubeAPIServerStopped),
		Recheck: 100 * time.Millisecond,
	}
	// LateExtensionsMigrated are the extensions that the API server needs, as specified in their registration.
	LateExtensionsMigrated = &flow.Step[*Scope]{
		Name:   "late-extensions-migrated",
		After:  []*flow.Step[*Scope]{KubeAPIServerStopped},
		SkipIf: when(withoutLateExtensions),
		Ensure: use2(migrateLate),
	}
	// LateStateSaved saves the state of these extensions in the garden.
	LateStateSaved = &flow.Step[*Scope]{
		Name:    "late-state-saved",
		After:   []*flow.Step[*Scope]{LateExtensionsMigrated},
		SkipIf:  when(withoutLateExtensions, notSettled),
		Ensure:  use2(ensureLateStateSaved),
		Recheck: recheckPods,
	}
	// LastDeltaSaved saves every acknowledged write to the backups.
	LastDeltaSaved = &flow.Step[*Scope]{
		Name:    "last-delta-saved",
		After:   []*flow.Step[*Scope]{KubeAPIServerStopped},
		Ensure:  use2(ensureEtcdSaved),
		Recheck: 100 * time.Millisecond,
	}
)

// destinationCalled: the state that the destination needs to prepare has been saved.
func destinationCalled(s *Values) string {
	called := s.Claim.Called != "" && s.Claim.Called == ptr.Deref(s.Shoot.Spec.SeedName, "")
	return reasonIf(called, "the destination was requested to prepare")
}

// notSettled: what another seed has saved is all there is of the control plane.
func notSettled(s *Values) string {
	return reasonIf(!s.Claim.Settled, "the control plane has never run completely here")
}

// ensureEtcdSaved is done as well where etcd does not run: what it held was saved when it was stopped.
func ensureEtcdSaved(ctx context.Context, seed *SeedNamespace, etcds Etcds) (flow.Outcome, error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: etcd.Name, Namespace: seed.namespace}}
	found, err := kube.Exists(ctx, seed, set)
	if err != nil || !found || ptr.Deref(set.Spec.Replicas, 1) == 0 {
		return flow.Done(), err
	}
	access, ok, err := BackupAccess(ctx, seed, set)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !ok {
		return flow.Outcome{}, fmt.Errorf("etcd of namespace %q has no backups, from which another seed could restore it",
			seed.namespace)
	}
	if _, err := etcds.SaveBackup(ctx, access); err != nil {
		return flow.Waiting(waitBackup, fmt.Sprintf("Waiting for the final backup of etcd: %v", err)), nil
	}
	return flow.Done(), nil
}

func ensureMachineControllerManagerStopped(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	if err := seed.scaleDeployment(ctx, machinecontrollermanager.Name, 0); err != nil {
		return flow.Outcome{}, err
	}
	if ended, err := seed.endPods(ctx, machinecontrollermanager.Name); err != nil || !ended {
		return waitingOr(waitDeployment, "The machine controller is being stopped", err)
	}
	return flow.Done(), nil
}

func ensureKubeAPIServerStopped(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	if ended, err := stopKubeAPIServer(ctx, seed, stoppedWithAPIServer()...); err != nil || !ended {
		return waitingOr(waitAPIServer, "The API server is being stopped", err)
	}
	return flow.Done(), nil
}

const savingState = "The state of the control plane is being saved in the garden"

func ensureStateSaved(ctx context.Context, s *Values, garden *GardenNamespace) (flow.Outcome, error) {
	if saved, err := garden.states.Seal(ctx, s.Shoot); err != nil || !saved {
		return waitingOr(waitState, savingState, err)
	}
	return flow.Done(), nil
}

func ensureLateStateSaved(ctx context.Context, s *Values, garden *GardenNamespace) (flow.Outcome, error) {
	if saved, err := garden.states.SealLast(ctx, s.Shoot); err != nil || !saved {
		return waitingOr(waitState, savingState, err)
	}
	return flow.Done(), nil
}

func ensureBackupEntryHandedOver(ctx context.Context, s *Values, garden *GardenNamespace) (flow.Outcome, error) {
	entry := backupEntry(s)
	found, err := kube.Exists(ctx, garden, entry)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		return flow.Outcome{}, fmt.Errorf("BackupEntry %q does not exist, from which another seed could restore etcd",
			entry.Name)
	}
	if ptr.Equal(entry.Spec.SeedName, s.Shoot.Spec.SeedName) {
		return flow.Done(), nil
	}
	before := entry.DeepCopy()
	entry.Spec.SeedName = s.Shoot.Spec.SeedName
	if err := garden.Patch(ctx, entry,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return flow.Outcome{}, fmt.Errorf("hand BackupEntry %q over: %w", entry.Name, err)
	}
	log.FromContext(ctx).Info("Handed BackupEntry over to the Seed that the control plane moves to",
		"BackupEntry", klog.KObj(entry), "Seed", ptr.Deref(entry.Spec.SeedName, ""))
	return flow.Done(), nil
}

func ensureDestinationPrepared(ctx context.Context, s *Values, garden *GardenNamespace) (flow.Outcome, error) {
	destination := ptr.Deref(s.Shoot.Spec.SeedName, "")
	claim, err := ownership.Change(ctx, garden, s.Shoot, garden.clock.Now(), func(c ownership.Claim) ownership.Claim {
		return c.Call(destination)
	})
	if err != nil {
		return flow.Outcome{}, err
	}
	switch {
	case claim.Prepared == destination:
		return flow.Done(), nil
	case claim.Progress != "":
		return flow.Waiting(waitSeed, fmt.Sprintf("Seed %s is preparing: %s", destination, claim.Progress)), nil
	}
	return flow.Waiting(waitSeed, fmt.Sprintf("Seed %s is preparing", destination)), nil
}

// only and except select from the kinds of extension objects.
func only(name string) []extensionobject.Kind {
	return slices.DeleteFunc(slices.Clone(extensionobject.Kinds),
		func(k extensionobject.Kind) bool { return k.Name != name })
}

func except(names ...string) []extensionobject.Kind {
	return slices.DeleteFunc(slices.Clone(extensionobject.Kinds),
		func(k extensionobject.Kind) bool { return slices.Contains(names, k.Name) })
}

// migrate requests that the extensions of all objects of the kinds stop acting, except those that are to be migrated
// after the API server has ended.
func migrate(kinds []extensionobject.Kind) func(context.Context, *Values, *Extensions) (flow.Outcome, error) {
	return func(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
		objects, err := extensionobject.List(ctx, extensions.seed, s.Namespace, kinds...)
		if err != nil {
			return flow.Outcome{}, err
		}
		return every(ctx, slices.DeleteFunc(objects, isLate(s.Registered)), extensions.migrate)
	}
}

func migrateLate(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
	objects, err := extensionobject.List(ctx, extensions.seed, s.Namespace, only(extensionsv1alpha1.ExtensionKind)...)
	if err != nil {
		return flow.Outcome{}, err
	}
	late := isLate(s.Registered)
	objects = slices.DeleteFunc(objects, func(o extensionsv1alpha1.Object) bool { return !late(o) })
	return every(ctx, objects, extensions.migrate)
}

// isLate reports whether an object is an extension that is to be migrated after the API server has ended.
func isLate(registrations []corev1beta1.ControllerRegistration) func(extensionsv1alpha1.Object) bool {
	late := lateTypes(registrations)
	return func(o extensionsv1alpha1.Object) bool {
		e, ok := o.(*extensionsv1alpha1.Extension)
		return ok && slices.Contains(late, e.Spec.Type)
	}
}

// lateTypes are the types of extensions that are to be migrated after the API server has ended.
func lateTypes(registrations []corev1beta1.ControllerRegistration) []string {
	var out []string
	for _, r := range registrations {
		for _, resource := range r.Spec.Resources {
			if l := resource.Lifecycle; resource.Kind == extensionsv1alpha1.ExtensionKind && l != nil &&
				ptr.Deref(l.Migrate, corev1beta1.BeforeKubeAPIServer) == corev1beta1.AfterKubeAPIServer {
				out = append(out, resource.Type)
			}
		}
	}
	return out
}

func withoutLateExtensions(s *Values) string {
	return reasonIf(len(lateTypes(s.Registered)) == 0, "no extensions")
}

// migrate requests that an extension stops acting, and reports how far it is. The object itself stays: what
// it says is needed if the control plane stays here after all.
func (extensions *Extensions) migrate(ctx context.Context, o extensionsv1alpha1.Object) (flow.Outcome, error) {
	kind := extensionobject.KindOf(o)
	if o.GetDeletionTimestamp() != nil {
		return waitingFor(o, " is being deleted"), nil
	}
	requested := o.GetAnnotations()[extensionsv1alpha1.AnnotationOperation] == extensionsv1alpha1.OperationMigrate
	op := o.GetDefaultStatus().LastOperation
	migrating := op != nil && op.Type == corev1beta1.LastOperationTypeMigrate
	if migrating && op.State == corev1beta1.LastOperationStateSucceeded && !requested {
		return flow.Done(), nil
	}
	if !requested && (!migrating || op.State == corev1beta1.LastOperationStateError) {
		request := extensionobject.Request{
			Operation: extensionsv1alpha1.OperationMigrate, Reason: "the control plane moves to another seed",
			At: extensions.seed.clock.Now(),
		}
		return waitingFor(o, " is being migrated"), request.Send(ctx, extensions.seed, o)
	}
	if e := o.GetDefaultStatus().LastError; migrating && e != nil {
		err := flow.WithCodes(fmt.Errorf("migrate %s %s: %s", kind, o.GetName(), e.Description), codeStrings(e.Codes)...)
		if len(e.Codes) > 0 {
			return flow.Outcome{}, err
		}
		return flow.WaitingWithCodes(flow.Kind(kind), err.Error(), codeStrings(e.Codes)...), nil
	}
	return waitingFor(o, " is being migrated"), nil
}
