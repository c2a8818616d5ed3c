package care

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/ownership"
	"hortus.dev/hortus/internal/secretsmanager"
)

// observe reads the inputs of all checks. Errors of the Shoot's API server are part of them.
func (r *Reconciler) observe(ctx context.Context, shoot *corev1beta1.Shoot) (*Observed, client.Client, error) {
	o := &Observed{Now: r.Clock.Now(), Shoot: shoot}
	in := client.InNamespace(shoot.Status.TechnicalID)
	if o.hibernated() {
		return o, nil, r.readCAs(ctx, o, in) // Certificates expire during hibernation, too; nothing else is checked.
	}
	for _, read := range []func(context.Context, *Observed, client.InNamespace) error{
		r.readRolledOut, r.readControlPlane, r.readBackups, r.readCAs, r.readReports, r.readMachines,
	} {
		if err := read(ctx, o, in); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, shootTimeout)
	defer cancel()
	user, err := r.connect(ctx, o, in)
	if err != nil || !o.answers() {
		return o, nil, err
	}
	return o, user, readShoot(ctx, o, user)
}

// readRolledOut reads what the last operation has rolled out, if the specification may have changed since: a change
// that is confined to the maintenance time window does not change the generation.
func (r *Reconciler) readRolledOut(ctx context.Context, o *Observed, in client.InNamespace) error {
	m := o.Shoot.Spec.Maintenance
	confined := m != nil && ptr.Deref(m.ConfineSpecUpdateRollout, false)
	if !confined && o.Shoot.Generation == o.Shoot.Status.ObservedGeneration {
		return nil
	}
	cluster := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: string(in)}}
	if found, err := kube.Exists(ctx, r.Seed, cluster); err != nil || !found {
		return err
	}
	o.RolledOut = &corev1beta1.Shoot{}
	if err := json.Unmarshal(cluster.Spec.Shoot.Raw, o.RolledOut); err != nil {
		return fmt.Errorf("decode the Shoot of Cluster %q: %w", cluster.Name, err)
	}
	return nil
}

func (r *Reconciler) readControlPlane(ctx context.Context, o *Observed, in client.InNamespace) error {
	deployments, resources := &appsv1.DeploymentList{}, &resourcesv1alpha1.ManagedResourceList{}
	if err := r.Seed.List(ctx, deployments, in); err != nil {
		return fmt.Errorf("list Deployments of the control plane: %w", err)
	}
	if err := r.Seed.List(ctx, resources, in); err != nil {
		return fmt.Errorf("list ManagedResources: %w", err)
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: string(in), Name: etcd.Name}}
	found, err := kube.Exists(ctx, r.Seed, set)
	if err != nil {
		return err
	}
	if found {
		o.Etcd = set
	}
	o.Deployments, o.Resources = deployments.Items, resources.Items
	return nil
}

// readBackups reads the status of etcd's backups. An etcd that is scaled down is not queried.
func (r *Reconciler) readBackups(ctx context.Context, o *Observed, _ client.InNamespace) error {
	if o.Etcd == nil || ptr.Deref(o.Etcd.Spec.Replicas, 1) == 0 {
		return nil
	}
	access, ok, err := steps.BackupAccess(ctx, r.Seed, o.Etcd)
	if err != nil {
		return fmt.Errorf("read credentials for the backups of etcd: %w", err)
	}
	if ok {
		o.Backups = &Backups{}
		o.Backups.Status, o.Backups.Error = r.Shoots.BackupStatus(ctx, access)
		return r.confirmOwner(ctx, o.Shoot, access)
	}
	return nil
}

// confirmOwner sends etcd the owner of the control plane that the garden has. Etcd continues as long as the garden or
// the bucket of its backups confirms its epoch, and this is its only access to the garden.
func (r *Reconciler) confirmOwner(ctx context.Context, shoot *corev1beta1.Shoot, access steps.EtcdAccess) error {
	claim, err := ownership.Read(ctx, r.Garden, shoot.Namespace, shoot.UID)
	if err != nil || claim.Epoch == 0 {
		return err
	}
	if err := r.Shoots.ConfirmOwner(ctx, access, claim.Epoch); err != nil {
		log.FromContext(ctx).V(1).Info("Failed to confirm the owner of the control plane", "error", err.Error())
	}
	return nil
}

func (r *Reconciler) readCAs(ctx context.Context, o *Observed, in client.InNamespace) error {
	secrets := &corev1.SecretList{}
	if err := r.Seed.List(ctx, secrets, in, client.MatchingLabels{
		secretsmanager.LabelManagedBy: secretsmanager.ManagedBy, secretsmanager.LabelPersist: "true",
	}); err != nil {
		return fmt.Errorf("list certificate authorities: %w", err)
	}
	for _, s := range secrets.Items {
		if len(s.Data[secretsmanager.DataCACert]) > 0 {
			s.Data = nil // Only the labels are needed.
			o.CAs = append(o.CAs, s)
		}
	}
	return nil
}

// readReports collects the conditions that extensions have written to their objects.
func (r *Reconciler) readReports(ctx context.Context, o *Observed, in client.InNamespace) error {
	for _, kind := range extensionobject.Kinds {
		objects, err := kind.List(ctx, r.Seed, string(in))
		if err != nil && !meta.IsNoMatchError(err) {
			return err
		}
		for _, e := range objects {
			for _, c := range e.GetDefaultStatus().Conditions {
				o.Reports = append(o.Reports, Report{
					Kind: kind.Name, Name: e.GetName(), Type: e.GetDefaultSpec().Type, Condition: c,
				})
			}
		}
	}
	if len(o.Reports) == 0 {
		return nil
	}
	return r.readHeartbeats(ctx, o)
}

// readHeartbeats finds out when the extensions behind the reports showed last that they live.
func (r *Reconciler) readHeartbeats(ctx context.Context, o *Observed) error {
	registrations, installations := &corev1beta1.ControllerRegistrationList{}, &corev1beta1.ControllerInstallationList{}
	if err := r.Cache.List(ctx, registrations); err != nil {
		return fmt.Errorf("list ControllerRegistrations: %w", err)
	}
	if err := r.Cache.List(ctx, installations); err != nil {
		return fmt.Errorf("list ControllerInstallations: %w", err)
	}
	namespaces := map[[2]string]string{} // By kind and type.
	for _, i := range installations.Items {
		for _, reg := range registrations.Items {
			if reg.Name != i.Spec.RegistrationRef.Name {
				continue
			}
			for _, resource := range reg.Spec.Resources {
				namespaces[[2]string{resource.Kind, resource.Type}] = corev1beta1.ExtensionNamespacePrefix + i.Name
			}
		}
	}
	beats := map[string]time.Time{} // By namespace.
	for i := range o.Reports {
		namespace, ok := namespaces[[2]string{o.Reports[i].Kind, o.Reports[i].Type}]
		if !ok {
			continue
		}
		if _, ok := beats[namespace]; !ok {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: extensionsv1alpha1.HeartbeatLease,
			}}
			if _, err := kube.Exists(ctx, r.Seed, lease); err != nil {
				return err
			}
			beats[namespace] = time.Time{}
			if lease.Spec.RenewTime != nil {
				beats[namespace] = lease.Spec.RenewTime.Time
			}
		}
		o.Reports[i].Heartbeat = beats[namespace]
	}
	return nil
}

func (r *Reconciler) readMachines(ctx context.Context, o *Observed, in client.InNamespace) error {
	if o.workerless() {
		return nil
	}
	deployments, machines := &machinev1alpha1.MachineDeploymentList{}, &machinev1alpha1.MachineList{}
	if err := r.Seed.List(ctx, deployments, in); err != nil {
		return fmt.Errorf("list machine deployments: %w", err)
	}
	if err := r.Seed.List(ctx, machines, in); err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	o.MachineDeployments, o.Machines = deployments.Items, machines.Items
	checksums, err := steps.ConfigChecksums(ctx, r.Seed, o.Shoot, string(in))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	o.ConfigChecksums = checksums // Nil as long as the configurations do not exist.
	return nil
}

// connect requests the health of the Shoot's API server.
func (r *Reconciler) connect(ctx context.Context, o *Observed, in client.InNamespace) (client.Client, error) {
	kubeconfig, err := steps.ReadKubeconfig(ctx, r.Seed, string(in))
	if err != nil {
		return nil, err
	}
	if kubeconfig == nil {
		o.HealthError = fmt.Errorf("there is no kubeconfig yet")
		return nil, nil
	}
	if o.HealthStatus, o.HealthError = r.Shoots.Status(ctx, kubeconfig); !o.answers() {
		return nil, nil
	}
	o.ServerUntil, o.ClientUntil = r.Shoots.CertificatesUntil(kubeconfig)
	user, err := r.Shoots.Connect(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the Shoot: %w", err)
	}
	if !o.workerless() {
		o.TunnelError = r.Shoots.TunnelWorks(ctx, kubeconfig)
	}
	return user, nil
}
