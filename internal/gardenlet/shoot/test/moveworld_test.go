package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/test/env"
)

// extensionObjects are all extension objects of the control plane except that of the backups.
func (s *side) extensionObjects() []extensionsv1alpha1.Object {
	var out []extensionsv1alpha1.Object
	for kind, list := range map[string]client.ObjectList{
		"Infrastructure": &extensionsv1alpha1.InfrastructureList{}, "ControlPlane": &extensionsv1alpha1.ControlPlaneList{},
		"Network": &extensionsv1alpha1.NetworkList{}, "Worker": &extensionsv1alpha1.WorkerList{},
		"OperatingSystemConfig": &extensionsv1alpha1.OperatingSystemConfigList{},
		"DNSRecord":             &extensionsv1alpha1.DNSRecordList{},
	} {
		if s.dirty != nil && !s.dirty[kind] && !s.dirty[""] {
			continue
		}
		s.must(s.Client.List(s.ctx, list, client.InNamespace(s.m.shoot.Status.TechnicalID)))
		for _, o := range objects(s.t, list) {
			out = append(out, o.(extensionsv1alpha1.Object))
		}
	}
	return out
}

// everybodyActs makes a pass of all actors in the seed besides the gardenlet.
func (s *side) everybodyActs() {
	s.t.Helper()
	id := s.m.shoot.Status.TechnicalID
	if id == "" || len(s.dirty) == 0 {
		return
	}
	in := client.InNamespace(id)
	dirty := func(kinds ...string) bool {
		return s.dirty[""] || slices.ContainsFunc(kinds, func(k string) bool { return s.dirty[k] })
	}
	for _, o := range s.extensionObjects() {
		s.extensionActs(o)
	}
	if dirty("BackupEntry") {
		entry := &extensionsv1alpha1.BackupEntry{}
		if s.found(client.ObjectKey{Name: id + "--" + string(s.m.shoot.UID)}, entry) {
			s.extensionActs(entry)
		}
	}
	if dirty("Deployment", "ReplicaSet", "StatefulSet", "Pod", "Namespace", "Secret", "ConfigMap",
		"PersistentVolumeClaim") && !s.namespaceEnds() {
		s.workloads(in)
		s.podsAct(in)
	}
	if dirty("ManagedResource", "Secret", "Namespace") && !s.namespaceEnds() {
		s.resourceManager(in)
	}
	s.m.mu.Lock()
	s.look()
	s.etcdActs()
	s.m.check(s)
	s.m.mu.Unlock()
	s.dirty = map[string]bool{}
}

// namespaceEnds reports whether the namespace is missing or being deleted, so that nothing can be created.
func (s *side) namespaceEnds() bool {
	ns := &corev1.Namespace{}
	id := s.m.shoot.Status.TechnicalID
	if !s.found(client.ObjectKey{Name: id}, ns) {
		return true
	}
	if ns.DeletionTimestamp == nil {
		return false
	}
	in := client.InNamespace(id)
	for _, list := range endingKinds() {
		s.must(s.Client.List(s.ctx, list, in))
		for _, o := range objects(s.t, list) {
			if slices.Contains(o.GetFinalizers(), "kubernetes.io/pvc-protection") {
				s.must(client.IgnoreNotFound(s.Client.Patch(s.ctx, o,
					client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
			}
			if len(o.GetFinalizers()) > 0 {
				s.m.problem("%T %s with finalizers %v is left in a namespace that is being deleted", o, o.GetName(),
					o.GetFinalizers())
			}
			s.must(client.IgnoreNotFound(s.Client.Delete(s.ctx, o, client.GracePeriodSeconds(0))))
		}
	}
	s.namespaceGone(id)
	return true
}

// endingKinds are the kinds of the objects of a control plane.
func endingKinds() []client.ObjectList {
	return []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &appsv1.StatefulSetList{}, &corev1.PodList{},
		&corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{},
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &networkingv1.NetworkPolicyList{},
		&policyv1.PodDisruptionBudgetList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &gatewayv1.TLSRouteList{}, &resourcesv1alpha1.ManagedResourceList{},
		&extensionsv1alpha1.InfrastructureList{}, &extensionsv1alpha1.ControlPlaneList{}, &extensionsv1alpha1.NetworkList{},
		&extensionsv1alpha1.WorkerList{},
		&extensionsv1alpha1.OperatingSystemConfigList{}, &extensionsv1alpha1.DNSRecordList{},
		&machinev1alpha1.MachineDeploymentList{}, &machinev1alpha1.MachineSetList{}, &machinev1alpha1.MachineList{},
		&machinev1alpha1.MachineClassList{},
	}
}

// podsAct simulates the controllers of pods: of the API server's pods, pods whose set is gone, and pods that end
// themselves.
func (s *side) podsAct(in client.InNamespace) {
	pods, set, deployment := &corev1.PodList{}, &appsv1.StatefulSet{}, &appsv1.Deployment{}
	s.must(s.Client.List(s.ctx, pods, in))
	hasSet := s.found(client.ObjectKey{Namespace: string(in), Name: etcd.Name}, set)
	wants := s.found(client.ObjectKey{Namespace: string(in), Name: kubeapiserver.Name}, deployment) &&
		ptr.Deref(deployment.Spec.Replicas, 1) > 0
	makes, has := s.replicaSetActs(deployment, wants), false
	for i := range pods.Items {
		p := &pods.Items[i]
		server := strings.HasPrefix(p.Name, kubeapiserver.Name)
		has = has || server
		switch {
		case server && !wants, strings.HasPrefix(p.Name, etcd.Name+"-") && !hasSet:
			s.must(client.IgnoreNotFound(s.Client.Delete(s.ctx, p)))
		case p.Name == "images" && len(p.Status.ContainerStatuses) == 0:
			for _, c := range p.Spec.Containers {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name,
					State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}})
			}
			s.must(s.Client.Status().Update(s.ctx, p))
		}
	}
	if makes && !has {
		p := &corev1.Pod{
			ObjectMeta: *deployment.Spec.Template.ObjectMeta.DeepCopy(), Spec: *deployment.Spec.Template.Spec.DeepCopy(),
		}
		p.Namespace, p.Name, p.Spec.PriorityClassName = string(in), kubeapiserver.Name+"-0", ""
		s.must(s.Client.Create(s.ctx, p))
		p.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		s.must(s.Client.Status().Update(s.ctx, p))
	}
	claim := &corev1.PersistentVolumeClaim{}
	switch found := s.found(client.ObjectKey{Namespace: string(in), Name: volumeOfEtcd}, claim); {
	case found && claim.DeletionTimestamp != nil:
		claim.Finalizers = nil
		s.must(s.Client.Update(s.ctx, claim))
	case !found && hasSet && *set.Spec.Replicas > 0:
		template := set.Spec.VolumeClaimTemplates[0]
		claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: string(in), Name: volumeOfEtcd, Labels: template.Labels,
		}, Spec: template.Spec}
		s.must(s.Client.Create(s.ctx, claim))
	}
}

// replicaSetActs simulates the ReplicaSet of a Deployment and the garbage collector that releases its pods. It reports
// whether a ReplicaSet creates pods.
func (s *side) replicaSetActs(deployment *appsv1.Deployment, wants bool) bool {
	if deployment.Name == "" {
		return false
	}
	set := &appsv1.ReplicaSet{}
	switch found := s.found(client.ObjectKeyFromObject(deployment), set); {
	case found && set.DeletionTimestamp != nil:
		set.Finalizers = nil
		s.must(s.Client.Update(s.ctx, set))
		return false
	case !found && wants && !deployment.Spec.Paused:
		set = &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: deployment.Namespace, Name: deployment.Name, Labels: deployment.Spec.Template.Labels,
			},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: ptr.To[int32](1), Selector: deployment.Spec.Selector, Template: deployment.Spec.Template,
			},
		}
		s.must(s.Client.Create(s.ctx, set))
		return true
	default:
		return found && wants
	}
}

// volumeOfEtcd is the name of etcd's claim.
const volumeOfEtcd = "main-etcd-" + etcd.Name + "-0"

// etcdActs simulates the process of etcd: it claims its epoch in the bucket, restores etcd from there if another seed
// was the owner before, and stops if another seed is now.
func (s *side) etcdActs() {
	m := s.m
	id := m.shoot.Status.TechnicalID
	pod, claim := &corev1.Pod{}, &corev1.PersistentVolumeClaim{}
	s.running = nil
	if !s.found(client.ObjectKey{Namespace: id, Name: etcd.Name + "-0"}, pod) ||
		!s.found(client.ObjectKey{Namespace: id, Name: volumeOfEtcd}, claim) || standsBy(pod) {
		return
	}
	epoch := epochOf(pod)
	if epoch < m.bucket.epoch {
		return
	}
	m.bucket.epoch = epoch
	v := s.volumes[claim.UID]
	if v == nil {
		v = &volume{}
		s.volumes[claim.UID] = v
	}
	if v.epoch != epoch {
		v.epoch, v.revision = epoch, m.bucket.revision
		if m.takeOver {
			m.acknowledged = v.revision // Later writes are lost.
		}
	}
	s.running = v
}

// extensionActs simulates the extension of an object, according to the contract.
func (s *side) extensionActs(o extensionsv1alpha1.Object) {
	s.t.Helper()
	m, name := s.m, nameOf(o)
	const finalizer = "extensions.gardener.cloud/test"
	operation := o.GetAnnotations()[extensionsv1alpha1.AnnotationOperation]
	last := o.GetDefaultStatus().LastOperation
	migrated := last != nil && last.Type == corev1beta1.LastOperationTypeMigrate &&
		last.State == corev1beta1.LastOperationStateSucceeded
	if o.GetDeletionTimestamp() != nil {
		if !migrated {
			m.problem("the extension of %s on seed %s has to delete resources of another seed", name, s.seed.Name)
		}
		controllerutil.RemoveFinalizer(o, finalizer)
		s.must(client.IgnoreNotFound(s.Client.Update(s.ctx, o)))
		return
	}
	if operation == "" || operation == extensionsv1alpha1.OperationWaitForState {
		return
	}
	status := o.DeepCopyObject().(extensionsv1alpha1.Object)
	annotations := o.GetAnnotations()
	delete(annotations, extensionsv1alpha1.AnnotationOperation)
	o.SetAnnotations(annotations)
	controllerutil.AddFinalizer(o, finalizer)
	if operation == extensionsv1alpha1.OperationMigrate {
		controllerutil.RemoveFinalizer(o, finalizer)
	}
	if err := s.Client.Update(s.ctx, o); apierrors.IsNotFound(err) {
		return
	} else {
		s.must(err)
	}
	if operation == extensionsv1alpha1.OperationReconcile && migrated {
		return // The state of another seed.
	}
	status.SetResourceVersion(o.GetResourceVersion())
	now := metav1.NewTime(m.clock.Now())
	st := status.GetDefaultStatus()
	st.ObservedGeneration, st.LastError = o.GetGeneration(), nil
	kind := corev1beta1.LastOperationTypeReconcile
	switch operation {
	case extensionsv1alpha1.OperationMigrate:
		kind = corev1beta1.LastOperationTypeMigrate
	case extensionsv1alpha1.OperationRestore:
		kind = corev1beta1.LastOperationTypeRestore
	}
	st.LastOperation = &corev1beta1.LastOperation{
		Type: kind, State: corev1beta1.LastOperationStateSucceeded, Progress: 100, LastUpdateTime: now,
	}
	switch w := status.(type) {
	case *extensionsv1alpha1.Worker:
		s.workerActs(w, operation)
	case *extensionsv1alpha1.BackupEntry:
		s.etcdGetsAccess(operation)
	default:
		s.keepState(name, status, operation)
	}
	switch o := status.(type) {
	case *extensionsv1alpha1.Infrastructure:
		o.Status.NodesCIDR = ptr.To("10.250.0.0/16")
	case *extensionsv1alpha1.OperatingSystemConfig:
		if o.Spec.Purpose == extensionsv1alpha1.OperatingSystemConfigPurposeProvision {
			o.Status.CloudConfig = &extensionsv1alpha1.CloudConfig{SecretRef: corev1.SecretReference{
				Name: "osc-result-" + o.Name, Namespace: o.Namespace,
			}}
		}
	}
	s.must(s.Client.Status().Update(s.ctx, status))
	if s.dirty != nil {
		s.dirty["Secret"] = true
	}
}

// keepState gives an object the state without which its extension would create everything again.
func (s *side) keepState(name string, o extensionsv1alpha1.Object, operation string) {
	st, m := o.GetDefaultStatus(), s.m
	have := string(ptr.Deref(st.State, runtime.RawExtension{}).Raw)
	known, ok := m.states[name]
	switch {
	case !ok && operation == extensionsv1alpha1.OperationReconcile:
		m.states[name] = fmt.Sprintf(`{"id":%q}`, env.Name("i"))
		st.State = &runtime.RawExtension{Raw: []byte(m.states[name])}
	case have != known:
		m.problem("%s of seed %s has to %s with state %s, not %s", name, s.seed.Name, operation, have, known)
	}
}

// etcdGetsAccess to its prefix in the bucket.
func (s *side) etcdGetsAccess(operation string) {
	if operation == extensionsv1alpha1.OperationMigrate {
		return
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.m.shoot.Status.TechnicalID, Name: "etcd-backup"}}
	if err := s.Client.Create(s.ctx, secret); err != nil && !apierrors.IsNotFound(err) &&
		!apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		s.t.Fatal(err)
	}
}

// workerActs creates machines, or adopts existing ones.
func (s *side) workerActs(w *extensionsv1alpha1.Worker, operation string) {
	s.t.Helper()
	meta := metav1.ObjectMeta{
		Namespace: w.Namespace, Name: w.Name + "-a", Labels: map[string]string{"name": w.Name + "-a"},
	}
	template := machinev1alpha1.MachineTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels}}
	template.Spec.Class.Name, template.Spec.Class.Kind = meta.Name, "MachineClass"
	deployment := &machinev1alpha1.MachineDeployment{
		ObjectMeta: meta, Spec: machinev1alpha1.MachineDeploymentSpec{Replicas: 1, Template: template},
	}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: meta.Labels}
	create := func(o client.Object) {
		o.SetNamespace(w.Namespace)
		if err := s.Client.Create(s.ctx, o); !apierrors.IsAlreadyExists(err) {
			s.must(err)
		}
	}
	switch operation {
	case extensionsv1alpha1.OperationReconcile:
		if len(s.machinesOf()) > 0 {
			return
		}
		if len(s.m.machines) > 0 {
			s.m.problem("the Worker on seed %s has to be reconciled without the machines", s.seed.Name)
		}
		create(deployment)
		set := &machinev1alpha1.MachineSet{
			ObjectMeta: meta, Spec: machinev1alpha1.MachineSetSpec{
				Replicas: 1, Template: template, Selector: deployment.Spec.Selector,
			},
		}
		create(set)
		machine := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: env.Name("machine-"), Labels: meta.Labels},
			Spec: machinev1alpha1.MachineSpec{
				ProviderID: env.Name("local:///"), Class: template.Spec.Class,
			}}
		machine.Finalizers = []string{"machine.sapcloud.io/machine-controller"}
		create(machine)
	case extensionsv1alpha1.OperationRestore:
		state, err := worker.DecodeState(w.Status.State)
		s.must(err)
		for _, d := range state {
			for i := range d.MachineSets {
				create(&d.MachineSets[i])
			}
			for i := range d.Machines {
				d.Machines[i].Finalizers = []string{"machine.sapcloud.io/machine-controller"}
				create(&d.Machines[i])
			}
		}
		create(deployment)
		if have := s.machinesOf(); !maps.Equal(have, s.m.machines) {
			s.m.problem("the Worker on seed %s is restored with machines %v instead of %v", s.seed.Name, have, s.m.machines)
		}
		controller := &appsv1.Deployment{}
		if s.found(client.ObjectKey{Namespace: w.Namespace, Name: machinecontrollermanager.Name}, controller) {
			before := controller.DeepCopy()
			controller.Spec.Replicas = ptr.To(int32(1))
			s.must(s.Client.Patch(s.ctx, controller, client.MergeFrom(before)))
		}
		w.Status.State = nil
	}
}
