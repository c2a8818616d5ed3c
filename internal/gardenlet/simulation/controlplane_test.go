package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/test/sim"
)

const (
	finalizerResource = "resources.gardener.cloud/gardener-resource-manager"
	finalizerService  = "service.kubernetes.io/load-balancer-cleanup"
	// volumeOfEtcd is the name of etcd's claim.
	volumeOfEtcd = "main-etcd-" + etcd.Name + "-0"
	// kindLoadBalancer is the kind of objects of the cloud that belong to Services of the Shoot.
	kindLoadBalancer = "LoadBalancer"
	kindMachine      = "Machine"
)

// hosting is a seed with everything that makes a control plane work, besides its gardenlet and its extensions.
type hosting struct {
	name  string
	seed  *sim.Cluster
	user  *sim.Cluster // The API of the Shoot, with all that etcd stores.
	cloud *provider
}

// serving reports whether the API server of the Shoot runs here.
func (h *hosting) serving() bool {
	d := named[appsv1.Deployment](controlPlane, kubeapiserver.Name)
	return h.seed.Exists(d) && d.Status.AvailableReplicas > 0 && h.etcdRuns()
}

func (h *hosting) etcdRuns() bool {
	return h.seed.Exists(named[corev1.Pod](controlPlane, etcd.Name+"-0"))
}

// actors are the processes of the seed and of the control plane.
func (h *hosting) actors(w *sim.World) {
	w.Actor("workloads run", h.seed, h.deployments)
	w.Actor("etcd runs", h.seed, h.etcd)
	w.Actor("the resource-manager works", h.seed, h.resourceManager)
	w.Actor("machines run", h.user, h.machines)
	w.Actor("load balancers are made", h.user, h.loadBalancers)
}

func (h *hosting) deployments(ctx context.Context, c client.Client) error {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		d := &list.Items[i]
		n := ptr.Deref(d.Spec.Replicas, 1)
		now := appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n, ReadyReplicas: n,
		}
		if equality.Semantic.DeepEqual(d.Status, now) {
			continue
		}
		d.Status = now
		if err := c.Status().Update(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// etcd is the StatefulSet, its pod and its volume.
func (h *hosting) etcd(ctx context.Context, c client.Client) error {
	set, pod := named[appsv1.StatefulSet](controlPlane, etcd.Name), named[corev1.Pod](controlPlane, etcd.Name+"-0")
	found := h.seed.Exists(set)
	n := int32(0)
	if found {
		n = ptr.Deref(set.Spec.Replicas, 1)
		now := appsv1.StatefulSetStatus{
			ObservedGeneration: set.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n, ReadyReplicas: n,
		}
		if !equality.Semantic.DeepEqual(set.Status, now) {
			set.Status = now
			if err := c.Status().Update(ctx, set); err != nil {
				return err
			}
		}
	}
	switch exists := h.seed.Exists(pod); {
	case exists && n == 0:
		return c.Delete(ctx, pod)
	case exists || n == 0:
		return nil
	}
	claim := named[corev1.PersistentVolumeClaim](controlPlane, volumeOfEtcd)
	if !h.seed.Exists(claim) {
		claim.Labels = set.Spec.VolumeClaimTemplates[0].Labels
		if err := c.Create(ctx, claim); err != nil {
			return ignoreEnding(err)
		}
	}
	pod.Labels, pod.Annotations = set.Spec.Template.Labels, set.Spec.Template.Annotations
	pod.Spec = *set.Spec.Template.Spec.DeepCopy()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: set.Name, Ready: true}},
	}
	return ignoreEnding(c.Create(ctx, pod))
}

// resourceManager keeps a ConfigMap in the Shoot for each ManagedResource, and makes tokens.
func (h *hosting) resourceManager(ctx context.Context, c client.Client) error {
	manager := named[appsv1.Deployment](controlPlane, resourcemanager.Name)
	runs := h.seed.Exists(manager) && manager.Status.AvailableReplicas > 0 && h.serving()
	resources, secrets := &resourcesv1alpha1.ManagedResourceList{}, &corev1.SecretList{}
	if err := errors.Join(c.List(ctx, resources), c.List(ctx, secrets,
		client.MatchingLabels{resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor})); err != nil {
		return err
	}
	for i := range resources.Items {
		mr := &resources.Items[i]
		forShoot := ptr.Deref(mr.Spec.Class, "") == ""
		if forShoot && !runs {
			continue
		}
		if err := h.manage(ctx, c, mr, forShoot); err != nil {
			return err
		}
	}
	for i := range secrets.Items {
		if s := &secrets.Items[i]; runs && s.Data["token"] == nil {
			s.Data = map[string][]byte{"token": []byte("t")}
			if err := c.Update(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// resourceInShoot stands for the objects of a ManagedResource.
func resourceInShoot(name string) *corev1.ConfigMap {
	o := named[corev1.ConfigMap](metav1.NamespaceSystem, "managed-"+name)
	o.Labels = map[string]string{corev1beta1.LabelNoCleanup: "true"}
	return o
}

func (h *hosting) manage(
	ctx context.Context, c client.Client, mr *resourcesv1alpha1.ManagedResource, forShoot bool,
) error {
	if mr.DeletionTimestamp != nil {
		if forShoot {
			if err := client.IgnoreNotFound(h.user.Delete(ctx, resourceInShoot(mr.Name))); err != nil {
				return err
			}
		}
		controllerutil.RemoveFinalizer(mr, finalizerResource)
		return c.Update(ctx, mr)
	}
	secret := named[corev1.Secret](mr.Namespace, mr.Spec.SecretRefs[0].Name)
	if !h.seed.Exists(secret) {
		return nil
	}
	if ready, _ := managedresource.Ready(mr, managedresource.Checksum(secret)); ready {
		return nil
	}
	if controllerutil.AddFinalizer(mr, finalizerResource) {
		if err := c.Update(ctx, mr); err != nil {
			return err
		}
	}
	if forShoot {
		if err := client.IgnoreAlreadyExists(h.user.Create(ctx, resourceInShoot(mr.Name))); err != nil {
			return err
		}
	}
	return h.seed.EditStatus(mr, func() {
		mr.Status.ObservedGeneration = mr.Generation
		mr.Status.SecretsDataChecksum = new(managedresource.Checksum(secret))
		mr.Status.Conditions = []corev1beta1.Condition{
			{Type: resourcesv1alpha1.ResourcesApplied, Status: corev1beta1.ConditionTrue},
			{Type: resourcesv1alpha1.ResourcesHealthy, Status: corev1beta1.ConditionTrue},
			{Type: resourcesv1alpha1.ResourcesProgressing, Status: corev1beta1.ConditionFalse},
		}
	})
}

// machines: the nodes of the Shoot are the machines that its provider keeps.
func (h *hosting) machines(ctx context.Context, c client.Client) error {
	node := named[corev1.Node]("", "n")
	switch runs := h.cloud.cloud.Exists(inCloud(kindMachine, "s")); {
	case !h.serving() || h.user.Exists(node) == runs:
		return nil
	case runs:
		return c.Create(ctx, node)
	}
	return c.Delete(ctx, node)
}

// loadBalancers does what a cloud controller manager does.
func (h *hosting) loadBalancers(ctx context.Context, c client.Client) error {
	service := named[corev1.Service](metav1.NamespaceDefault, "lb")
	balancer, cloud := inCloud(kindLoadBalancer, "lb"), h.cloud.cloud
	if !h.serving() || !cloud.Exists(inCloud(extensionsv1alpha1.ControlPlaneKind, "s")) || !h.user.Exists(service) {
		return nil
	}
	switch {
	case service.DeletionTimestamp != nil:
		if err := client.IgnoreNotFound(cloud.Delete(ctx, balancer)); err != nil {
			return err
		}
		controllerutil.RemoveFinalizer(service, finalizerService)
		return c.Update(ctx, service)
	case cloud.Exists(balancer):
		return nil
	}
	if controllerutil.AddFinalizer(service, finalizerService) {
		if err := c.Update(ctx, service); err != nil {
			return err
		}
	}
	return cloud.Create(ctx, balancer)
}

// network is the connection of a gardenlet to a control plane.
type network struct {
	*hosting
	process *sim.Process
}

var errNotServing = errors.New("connection refused")

// Connect implements steps.Connector. Requests to the API of the Shoot have no faults of their own.
func (n network) Connect([]byte) (client.Client, error) {
	if err := n.Healthy(context.Background(), nil); err != nil {
		return nil, err
	}
	return n.user.Client, nil
}

// Healthy implements steps.Connector.
func (n network) Healthy(ctx context.Context, _ []byte) error {
	return n.process.Call(ctx, "shoot", "readyz", false, func() error {
		if !n.serving() {
			return errNotServing
		}
		return nil
	})
}

// TunnelWorks implements steps.Connector.
func (n network) TunnelWorks(ctx context.Context, _ []byte) error {
	if err := n.Healthy(ctx, nil); err != nil {
		return err
	}
	if !n.user.Exists(named[corev1.Node]("", "n")) {
		return errors.New("no node is ready")
	}
	return nil
}

// Stored implements steps.EtcdConnector. No object is encrypted.
func (n network) Stored(context.Context, steps.EtcdAccess, string, func(string, []byte) bool) error {
	return nil
}

// SaveBackup implements steps.EtcdConnector.
func (n network) SaveBackup(ctx context.Context, _ steps.EtcdAccess) (revision int64, err error) {
	return 1, n.process.Call(ctx, "etcd", "save", false, func() error {
		if !n.etcdRuns() {
			return errNotServing
		}
		return nil
	})
}

// EtcdStatus implements steps.EtcdConnector.
func (n network) EtcdStatus(ctx context.Context, access steps.EtcdAccess) (status etcdbackup.Status, err error) {
	err = n.process.Call(ctx, "etcd", "status", false, func() error {
		if !strings.HasPrefix(access.Endpoint, "https://"+etcd.Name) {
			return fmt.Errorf("%s is not the address of etcd", access.Endpoint)
		}
		pod := named[corev1.Pod](controlPlane, etcd.Name+"-0")
		if !n.seed.Exists(pod) {
			return errNotServing
		}
		status.Etcd = etcdbackup.Etcd{
			State: etcdbackup.EtcdRunning, Configuration: pod.Annotations[etcd.AnnotationConfiguration],
		}
		return nil
	})
	return status, err
}

// ActivateEtcd implements steps.EtcdConnector.
func (n network) ActivateEtcd(context.Context, steps.EtcdAccess, int64, string) error {
	return errors.New("no etcd stands by")
}
