package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
)

const (
	// recheck is the interval at which machines are checked without an event.
	recheck = 30 * time.Second
	// recheckPreparation is the interval at which a [Preparer] is called again.
	recheckPreparation = 10 * time.Second
	// recheckSecrets is the interval of checks once only classes and Secrets are left: the machine controller releases
	// them within milliseconds, and Secrets are not watched.
	recheckSecrets = time.Second

	mcmName             = "machine-controller-manager"
	labelForceDeletion  = "force-deletion"
	valueForceDeletion  = "True"
	finalizerMCM        = "machine.sapcloud.io/machine-controller"
	finalizerMCMManager = "machine.sapcloud.io/machine-controller-manager"
)

// Actuator is the [extension.Actuator] for Workers.
type Actuator struct {
	Client   client.Client // For the seed: cached reads, direct writes.
	Clock    clock.PassiveClock
	Provider Provider
}

var (
	_ extension.Actuator[*extensionsv1alpha1.Worker]  = &Actuator{}
	_ extension.Validator[*extensionsv1alpha1.Worker] = &Actuator{}
	_ extension.Follower[*extensionsv1alpha1.Worker]  = &Actuator{}
)

// Watch adds the watches that call the Actuator while an operation is unfinished: on all objects that describe
// machines.
func (a *Actuator) Watch(b *builder.Builder) *builder.Builder {
	toWorkers := handler.EnqueueRequestsFromMapFunc(a.workersInNamespace)
	return b.Watches(&machinev1alpha1.MachineDeployment{}, toWorkers).
		Watches(&machinev1alpha1.MachineSet{}, toWorkers).
		Watches(&machinev1alpha1.Machine{}, toWorkers).
		Watches(&machinev1alpha1.MachineClass{}, toWorkers)
}

func (a *Actuator) workersInNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	list := &extensionsv1alpha1.WorkerList{}
	if err := a.Client.List(ctx, list, client.InNamespace(obj.GetNamespace())); err != nil {
		return nil // The cache fails only before it has started.
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// Validate checks what the schema cannot.
func (a *Actuator) Validate(_ context.Context, w *extensionsv1alpha1.Worker, _ *extension.Cluster) field.ErrorList {
	var out field.ErrorList
	for i := range w.Spec.Pools {
		path, pool := field.NewPath("spec", "pools").Index(i), &w.Spec.Pools[i]
		if pool.MachineImage.Name == "" || pool.MachineImage.Version == "" {
			out = append(out, field.Required(path.Child("machineImage"), "name and version must be set"))
		}
		if pool.Minimum > pool.Maximum {
			out = append(out, field.Invalid(path.Child("minimum"), pool.Minimum, "must not be above maximum"))
		}
		if pool.UserDataSecretRef.Name == "" {
			out = append(out, field.Required(path.Child("userDataSecretRef", "name"), "the user data must be known"))
		}
	}
	return out
}

// Reconcile implements [extension.Actuator].
func (a *Actuator) Reconcile(
	ctx context.Context, w *extensionsv1alpha1.Worker, cluster *extension.Cluster,
) (extension.Result, error) {
	want, err := a.wanted(ctx, w, cluster)
	if err != nil {
		return extension.Result{}, err
	}
	preparing, err := a.prepare(ctx, w, cluster, want)
	if err != nil {
		return extension.Result{}, err
	}
	if err := a.applyClasses(ctx, w, want); err != nil {
		return extension.Result{}, err
	}
	have, err := a.observe(ctx, w.Namespace)
	if err != nil {
		return extension.Result{}, err
	}
	if err := a.applyDeployments(ctx, want, &have, cluster.Hibernated(), nil); err != nil {
		return extension.Result{}, err
	}
	a.setDeployments(w, want)
	if cluster.Hibernated() {
		if err := a.forceDeletion(ctx, have.machines); err != nil {
			return extension.Result{}, err
		}
	}
	reason, err := progress(want, have, cluster.Hibernated())
	if err != nil {
		return extension.Result{}, err
	}
	switch {
	case preparing:
		return extension.Waiting(reason, recheckPreparation), nil
	case reason != "":
		return extension.Waiting(reason, recheck), nil
	}
	setInPlaceHashes(w, want, have)
	return a.finish(ctx, w, want, &have, cluster)
}

// finish removes what is not wanted any more, and machines' controller when the Shoot sleeps.
func (a *Actuator) finish(
	ctx context.Context, w *extensionsv1alpha1.Worker, want []Wanted, have *observed, cluster *extension.Cluster,
) (extension.Result, error) {
	left, after, err := a.removeUnwanted(ctx, w.Namespace, want, have)
	if err != nil {
		return extension.Result{}, err
	}
	if !cluster.Hibernated() {
		if left != "" && a.controllerRuns(ctx, w.Namespace) {
			return extension.Waiting(left, after), nil
		}
		return extension.Done(), nil
	}
	if left != "" {
		return extension.Waiting(left, after), nil
	}
	return extension.Done(), a.stopController(ctx, w.Namespace)
}

// Restore implements [extension.Actuator]: it restores the machines known from the other seed before anything could
// create new ones.
func (a *Actuator) Restore(
	ctx context.Context, w *extensionsv1alpha1.Worker, cluster *extension.Cluster,
) (extension.Result, error) {
	state, err := DecodeState(w.Status.State)
	if err != nil {
		return extension.Result{}, err
	}
	if len(state) > 0 {
		want, err := a.wanted(ctx, w, cluster)
		if err != nil {
			return extension.Result{}, err
		}
		if err := a.applyClasses(ctx, w, want); err != nil {
			return extension.Result{}, err
		}
		if err := a.restoreMachines(ctx, w.Namespace, want, state); err != nil {
			return extension.Result{}, err
		}
		have, err := a.observe(ctx, w.Namespace)
		if err != nil {
			return extension.Result{}, err
		}
		if err := a.applyDeployments(ctx, want, &have, cluster.Hibernated(), state); err != nil {
			return extension.Result{}, err
		}
	}
	// A Shoot that is being hibernated may have come with machines, which only the controller can delete.
	if !cluster.Hibernated() || state.hasMachines() {
		if err := a.scaleController(ctx, w.Namespace, 1); err != nil {
			return extension.Result{}, err
		}
	}
	result, err := a.Reconcile(ctx, w, cluster)
	if err == nil && result.IsDone() {
		w.Status.State = nil // The machine objects replace it; the next migration must not find an old state.
	}
	return result, err
}

// Migrate implements [extension.Actuator]. It does nothing: the gardenlet removes the machine objects.
func (a *Actuator) Migrate(context.Context, *extensionsv1alpha1.Worker, *extension.Cluster) (extension.Result, error) {
	return extension.Done(), nil
}

// ForceDelete implements [extension.Actuator]. It does nothing: users must delete the machines themselves.
func (a *Actuator) ForceDelete(
	context.Context, *extensionsv1alpha1.Worker, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete implements [extension.Actuator].
func (a *Actuator) Delete(
	ctx context.Context, w *extensionsv1alpha1.Worker, cluster *extension.Cluster,
) (extension.Result, error) {
	have, err := a.observe(ctx, w.Namespace)
	if err != nil {
		return extension.Result{}, err
	}
	if len(have.machines) > 0 { // Credentials may have been rotated since; the machines must be deleted with current ones.
		if want, err := a.wanted(ctx, w, cluster); err == nil {
			if err := a.applyClasses(ctx, w, want); err != nil {
				return extension.Result{}, err
			}
		}
	}
	if err := a.forceDeletion(ctx, have.machines); err != nil {
		return extension.Result{}, err
	}
	left, after, err := a.removeUnwanted(ctx, w.Namespace, nil, &have)
	if err != nil {
		return extension.Result{}, err
	}
	if left == "" {
		held, err := a.credentialsInUse(ctx, w)
		if err != nil || held == "" {
			return extension.Done(), err
		}
		return extension.Waiting(held, recheckSecrets), nil
	}
	if err := deletionFailures(have); err != nil {
		return extension.Result{}, err
	}
	return extension.Waiting(left, after), nil
}

// deletionFailures collects what the provider says about machines it could not delete.
func deletionFailures(have observed) error {
	var want []Wanted
	for name := range machinesByDeployment(have.machines) {
		want = append(want, Wanted{Name: name})
	}
	deleting := have
	deleting.machines = slices.DeleteFunc(slices.Clone(have.machines), func(m machinev1alpha1.Machine) bool {
		return m.DeletionTimestamp.IsZero() || m.Status.LastOperation.Type != machinev1alpha1.MachineOperationDelete
	})
	return failures(want, deleting)
}

func machinesByDeployment(machines []machinev1alpha1.Machine) map[string]int {
	out := map[string]int{}
	for i := range machines {
		out[machines[i].Labels[labelName]]++
	}
	return out
}

// wanted computes all MachineDeployments of a Worker.
func (a *Actuator) wanted(
	ctx context.Context, w *extensionsv1alpha1.Worker, cluster *extension.Cluster,
) ([]Wanted, error) {
	var out []Wanted
	for i := range w.Spec.Pools {
		pool := &w.Spec.Pools[i]
		for z := range max(len(pool.Zones), 1) {
			zone := ""
			if len(pool.Zones) > 0 {
				zone = pool.Zones[z]
			}
			machine, err := a.Provider.Machine(ctx, w, cluster, pool, zone)
			if err != nil {
				return nil, fmt.Errorf("machines of pool %q: %w", pool.Name, err)
			}
			one, err := wanted(w, cluster.Shoot, pool, z, machine)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// prepare records what the machines of each pool wait for, and reports whether there is any.
func (a *Actuator) prepare(
	ctx context.Context, w *extensionsv1alpha1.Worker, cluster *extension.Cluster, want []Wanted,
) (bool, error) {
	preparer, ok := a.Provider.(Preparer)
	if !ok || cluster.Hibernated() {
		return false, nil
	}
	waiting := map[string]string{}
	for i := range w.Spec.Pools {
		pool := &w.Spec.Pools[i]
		waitsFor, err := preparer.Prepare(ctx, w, cluster, pool)
		if err != nil {
			return false, fmt.Errorf("prepare machines of pool %q: %w", pool.Name, err)
		}
		if waitsFor != "" {
			waiting[pool.Name] = waitsFor
		}
	}
	for i := range want {
		want[i].waitsFor = waiting[want[i].PoolName]
	}
	return len(waiting) > 0, nil
}

func (a *Actuator) observe(ctx context.Context, namespace string) (observed, error) {
	var (
		deployments machinev1alpha1.MachineDeploymentList
		sets        machinev1alpha1.MachineSetList
		machines    machinev1alpha1.MachineList
	)
	for _, list := range []client.ObjectList{&deployments, &sets, &machines} {
		if err := a.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return observed{}, fmt.Errorf("list machine objects in %q: %w", namespace, err)
		}
	}
	return observed{deployments: deployments.Items, sets: sets.Items, machines: machines.Items}, nil
}

func (a *Actuator) applyClasses(ctx context.Context, w *extensionsv1alpha1.Worker, want []Wanted) error {
	userData := map[string][]byte{}
	for i := range want {
		ref := want[i].pool.UserDataSecretRef
		if _, read := userData[ref.Name+"/"+ref.Key]; !read {
			secret := &corev1.Secret{}
			if err := a.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: ref.Name}, secret); err != nil {
				return fmt.Errorf("read user data of pool %q: %w", want[i].PoolName, err)
			}
			data, ok := secret.Data[ref.Key]
			if !ok {
				return fmt.Errorf("read user data of pool %q: secret %q has no key %q", want[i].PoolName, ref.Name, ref.Key)
			}
			userData[ref.Name+"/"+ref.Key] = data
		}
		wantSecret := want[i].renderSecret(userData[ref.Name+"/"+ref.Key])
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: wantSecret.Namespace, Name: wantSecret.Name}}
		if _, err := controllerutil.CreateOrPatch(ctx, a.Client, secret, func() error {
			secret.Labels, secret.Data = merge(secret.Labels, wantSecret.Labels), wantSecret.Data
			return nil
		}); err != nil {
			return fmt.Errorf("apply secret %q: %w", secret.Name, err)
		}
		wantClass := want[i].renderClass()
		class := &machinev1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{
			Namespace: wantClass.Namespace, Name: wantClass.Name,
		}}
		if _, err := controllerutil.CreateOrPatch(ctx, a.Client, class, func() error {
			class.Labels = merge(class.Labels, wantClass.Labels)
			class.Provider, class.ProviderSpec, class.NodeTemplate = wantClass.Provider, wantClass.ProviderSpec,
				wantClass.NodeTemplate
			class.SecretRef, class.CredentialsSecretRef = wantClass.SecretRef, wantClass.CredentialsSecretRef
			return nil
		}); err != nil {
			return fmt.Errorf("apply machine class %q: %w", class.Name, err)
		}
	}
	return nil
}

// applyDeployments creates and patches the wanted MachineDeployments and puts the results into have. Those whose
// machines wait for something stay as they are.
func (a *Actuator) applyDeployments(
	ctx context.Context, want []Wanted, have *observed, hibernated bool, restored State,
) error {
	for i := range want {
		w := &want[i]
		if w.waitsFor != "" {
			continue
		}
		existing := have.deployment(w.Name)
		w.replicas = replicas(w.Min, hibernated)
		md := &machinev1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.worker.Namespace, Name: w.Name}}
		if _, err := controllerutil.CreateOrPatch(ctx, a.Client, md, func() error {
			if md.ResourceVersion == "" {
				md.Spec.Template.Annotations = restored[w.Name].templateAnnotations(w.ClassName)
			}
			w.mutate(md)
			return nil
		}); err != nil {
			return fmt.Errorf("apply machine deployment %q: %w", w.Name, err)
		}
		if existing != nil {
			md.DeepCopyInto(existing)
		} else {
			have.deployments = append(have.deployments, *md)
		}
	}
	return nil
}

// setDeployments reports to the autoscaler what it may scale. The time moves once per request, so that the gardenlet
// knows that the list answers it.
func (a *Actuator) setDeployments(w *extensionsv1alpha1.Worker, want []Wanted) {
	list := make([]extensionsv1alpha1.MachineDeployment, 0, len(want))
	for i := range want {
		list = append(list, extensionsv1alpha1.MachineDeployment{
			Name: want[i].Name, Minimum: want[i].Min, Maximum: want[i].Max, Priority: want[i].Priority,
		})
	}
	changed := !slices.EqualFunc(list, w.Status.MachineDeployments, func(x, y extensionsv1alpha1.MachineDeployment) bool {
		return x.Name == y.Name && x.Minimum == y.Minimum && x.Maximum == y.Maximum && ptr.Equal(x.Priority, y.Priority)
	})
	last := w.Status.MachineDeploymentsLastUpdateTime
	requested, err := time.Parse(time.RFC3339Nano, w.Annotations[extensionsv1alpha1.AnnotationTimestamp])
	if changed || last == nil || (err == nil && last.Time.Before(requested.Truncate(time.Second))) {
		w.Status.MachineDeployments = list
		w.Status.MachineDeploymentsLastUpdateTime = ptr.To(metav1.NewTime(a.Clock.Now()))
	}
}

// setInPlaceHashes records what all machines of a pool have. A pool updated by hand is recorded once no machine is old.
func setInPlaceHashes(w *extensionsv1alpha1.Worker, want []Wanted, have observed) {
	hashes := map[string]string{}
	if s := w.Status.InPlaceUpdates; s != nil {
		maps.Copy(hashes, s.WorkerPoolToHashMap)
	}
	pools := map[string]string{}
	for i := range want {
		if want[i].inPlace == "" {
			continue
		}
		if _, pending := pools[want[i].PoolName]; !pending {
			pools[want[i].PoolName] = want[i].inPlace
		}
		if md := have.deployment(want[i].Name); md == nil || md.Status.UpdatedReplicas < md.Status.Replicas {
			pools[want[i].PoolName] = hashes[want[i].PoolName]
		}
	}
	for pool, hash := range pools {
		if hash == "" {
			delete(pools, pool)
		}
	}
	if len(pools) == 0 {
		w.Status.InPlaceUpdates = nil
		return
	}
	w.Status.InPlaceUpdates = &extensionsv1alpha1.InPlaceUpdatesWorkerStatus{WorkerPoolToHashMap: pools}
}

// FollowUp implements [extension.Follower]: users update pools manually long after the Worker has succeeded, and the
// resulting versions of their machines must still be recorded.
func (a *Actuator) FollowUp(ctx context.Context, w *extensionsv1alpha1.Worker) (bool, error) {
	if !slices.ContainsFunc(w.Spec.Pools,
		func(p extensionsv1alpha1.WorkerPool) bool { return strategy(&p) == corev1beta1.ManualInPlaceUpdate }) {
		return false, nil
	}
	list := &machinev1alpha1.MachineDeploymentList{}
	if err := a.Client.List(ctx, list, client.InNamespace(w.Namespace)); err != nil {
		return false, fmt.Errorf("list machine deployments: %w", err)
	}
	return updatedByHand(w, list.Items), nil
}

// updatedByHand reports whether all machines of a pool have been updated although its Worker does not record that yet.
func updatedByHand(w *extensionsv1alpha1.Worker, deployments []machinev1alpha1.MachineDeployment) bool {
	var recorded map[string]string
	if s := w.Status.InPlaceUpdates; s != nil {
		recorded = s.WorkerPoolToHashMap
	}
	for i := range w.Spec.Pools {
		pool := &w.Spec.Pools[i]
		if strategy(pool) != corev1beta1.ManualInPlaceUpdate {
			continue
		}
		unrecorded, old := false, false
		for j := range deployments {
			md := &deployments[j]
			if md.Labels[corev1beta1.LabelWorkerPool] != pool.Name {
				continue
			}
			unrecorded = unrecorded || md.Annotations[annotationInPlace] != "" &&
				md.Annotations[annotationInPlace] != recorded[pool.Name]
			old = old || md.Status.ObservedGeneration < md.Generation || md.Status.UpdatedReplicas < md.Status.Replicas
		}
		if unrecorded && !old {
			return true
		}
	}
	return false
}

// forceDeletion lets machines go without a lengthy drain.
func (a *Actuator) forceDeletion(ctx context.Context, machines []machinev1alpha1.Machine) error {
	for i := range machines {
		m := &machines[i]
		if m.Labels[labelForceDeletion] == valueForceDeletion {
			continue
		}
		before := m.DeepCopy()
		m.Labels = merge(m.Labels, map[string]string{labelForceDeletion: valueForceDeletion})
		if err := a.Client.Patch(ctx, m, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("label machine %q: %w", m.Name, err)
		}
	}
	return nil
}

// removeUnwanted deletes the MachineDeployments, classes and Secrets that are not wanted. It returns what is still left
// of them, or "", and how soon to look again.
func (a *Actuator) removeUnwanted(
	ctx context.Context, namespace string, want []Wanted, have *observed,
) (left string, after time.Duration, err error) {
	names, classes := map[string]bool{}, map[string]bool{}
	for i := range want {
		names[want[i].Name], classes[want[i].ClassName] = true, true
	}
	inUse := map[string]bool{} // Classes that old machines were made from are needed to delete them.
	machines, sets, deployments := 0, 0, 0
	for i := range have.machines {
		m := &have.machines[i]
		inUse[m.Spec.Class.Name] = true
		if !names[m.Labels[labelName]] {
			machines++
		}
	}
	for i := range have.sets {
		s := &have.sets[i]
		inUse[s.Spec.Template.Spec.Class.Name] = inUse[s.Spec.Template.Spec.Class.Name] || s.Spec.Replicas > 0
		if !names[s.Spec.Template.Labels[labelName]] {
			sets++
		}
	}
	for i := range have.deployments {
		md := &have.deployments[i]
		if names[md.Name] {
			continue
		}
		deployments++
		if md.DeletionTimestamp.IsZero() {
			if err := a.Client.Delete(ctx, md); client.IgnoreNotFound(err) != nil {
				return "", 0, fmt.Errorf("delete machine deployment %q: %w", md.Name, err)
			}
		}
	}
	if machines+sets+deployments > 0 {
		return fmt.Sprintf("%d machine(s), %d set(s) and %d deployment(s) are still to be deleted", machines, sets,
			deployments), recheck, nil
	}
	left, err = a.removeClasses(ctx, namespace, classes, inUse)
	return left, recheckSecrets, err
}

func (a *Actuator) removeClasses(ctx context.Context, namespace string, wanted, inUse map[string]bool) (string, error) {
	var classes machinev1alpha1.MachineClassList
	if err := a.Client.List(ctx, &classes, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list machine classes: %w", err)
	}
	var secrets corev1.SecretList
	if err := a.Client.List(ctx, &secrets, client.InNamespace(namespace),
		client.MatchingLabels{labelPurpose: purposeClass}); err != nil {
		return "", fmt.Errorf("list secrets of machine classes: %w", err)
	}
	left := 0
	var objects []client.Object
	for i := range classes.Items {
		objects = append(objects, &classes.Items[i])
	}
	for i := range secrets.Items {
		objects = append(objects, &secrets.Items[i])
	}
	for _, obj := range objects {
		if wanted[obj.GetName()] || inUse[obj.GetName()] {
			continue
		}
		left++
		if !obj.GetDeletionTimestamp().IsZero() {
			continue
		}
		if err := a.Client.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("delete %T %q: %w", obj, obj.GetName(), err)
		}
	}
	if left > 0 {
		return fmt.Sprintf("%d machine class(es) and secret(s) are still to be deleted", left), nil
	}
	return "", nil
}

// credentialsInUse returns a reason while the machine controller still holds on to the credentials.
func (a *Actuator) credentialsInUse(ctx context.Context, w *extensionsv1alpha1.Worker) (string, error) {
	secret := &corev1.Secret{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: w.Spec.SecretRef.Namespace, Name: w.Spec.SecretRef.Name}, secret)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read credentials: %w", err)
	}
	for _, f := range secret.Finalizers {
		if f == finalizerMCM || f == finalizerMCMManager {
			if !a.controllerRuns(ctx, w.Namespace) {
				return "", nil // No controller runs that could remove the finalizer, and no machine needs the Secret.
			}
			return fmt.Sprintf("secret %q is still held by the machine controller", secret.Name), nil
		}
	}
	return "", nil
}

func (a *Actuator) controllerRuns(ctx context.Context, namespace string) bool {
	d := &appsv1.Deployment{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: mcmName}, d)
	return err == nil && ptr.Deref(d.Spec.Replicas, 1) > 0
}

func (a *Actuator) stopController(ctx context.Context, namespace string) error {
	return a.scaleController(ctx, namespace, 0)
}

func (a *Actuator) scaleController(ctx context.Context, namespace string, replicas int32) error {
	d := &appsv1.Deployment{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: mcmName}, d); err != nil {
		return client.IgnoreNotFound(err)
	}
	if ptr.Deref(d.Spec.Replicas, 1) == replicas {
		return nil
	}
	before := d.DeepCopy()
	d.Spec.Replicas = &replicas
	if err := a.Client.Patch(ctx, d, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("scale deployment %q: %w", mcmName, err)
	}
	return nil
}
