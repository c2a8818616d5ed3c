package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// bucket has the backups of etcd, and volumes what is on its volumes, by UID.
	bucket  *bucket
	volumes map[types.UID]*volume
}

// bucket has a revision of etcd, written for an epoch. acknowledged is the newest revision that a user knows.
type bucket struct {
	epoch, revision, acknowledged int64
	problem                       error
}

type volume struct{ epoch, revision int64 }

// annotationActivated marks the pod of an etcd that was on standby.
const annotationActivated = "example.com/activated"

// serving reports whether the API server of the Shoot runs here.
func (h *hosting) serving() bool {
	d := named[appsv1.Deployment](controlPlane, kubeapiserver.Name)
	return h.seed.Exists(d) && d.Status.AvailableReplicas > 0 && h.data() != nil
}

// data is the volume of the etcd that runs here; nil if none does.
func (h *hosting) data() *volume {
	pod, claim := etcdPod(), named[corev1.PersistentVolumeClaim](controlPlane, volumeOfEtcd)
	if !h.seed.Exists(pod) || standsBy(pod) || !h.seed.Exists(claim) {
		return nil
	}
	if v := h.volumes[claim.UID]; v != nil && v.epoch == epochOf(pod) && v.epoch == h.bucket.epoch {
		return v
	}
	return nil
}

func etcdPod() *corev1.Pod { return named[corev1.Pod](controlPlane, etcd.Name+"-0") }

func standsBy(pod *corev1.Pod) bool {
	return etcd.StandsBy(pod) && pod.Annotations[annotationActivated] == ""
}

// epochOf is the epoch that the process in a pod of etcd was started for; 0 without backups.
func epochOf(pod *corev1.Pod) int64 {
	set := &appsv1.StatefulSet{}
	set.Spec.Template.Spec = pod.Spec
	epoch, _ := etcd.Owner(set)
	return epoch
}

// startEtcd does what the process of etcd does: it claims the bucket, and restores what another one has saved there.
func (h *hosting) startEtcd(context.Context, client.Client) error {
	pod, claim := etcdPod(), named[corev1.PersistentVolumeClaim](controlPlane, volumeOfEtcd)
	if !h.seed.Exists(pod) || standsBy(pod) || !h.seed.Exists(claim) || epochOf(pod) < h.bucket.epoch {
		return nil
	}
	h.bucket.epoch = epochOf(pod)
	if v := h.volumes[claim.UID]; v == nil || v.epoch != h.bucket.epoch {
		h.volumes[claim.UID] = &volume{h.bucket.epoch, h.bucket.revision}
	}
	return nil
}

// usersWrite if there is an API server, and get a response.
func (h *hosting) usersWrite(context.Context, client.Client) error {
	if v := h.data(); v != nil && h.serving() {
		if v.revision++; v.revision <= h.bucket.acknowledged {
			h.bucket.problem = fmt.Errorf("seed %s serves revision %d after %d", h.name, v.revision, h.bucket.acknowledged)
		}
		h.bucket.acknowledged = v.revision
	}
	return nil
}

// active reports whether a control plane may write here: an API server is wanted or runs, and etcd does not stand by.
func (h *hosting) active() bool {
	set := named[appsv1.StatefulSet](controlPlane, etcd.Name)
	d := named[appsv1.Deployment](controlPlane, kubeapiserver.Name)
	if !h.seed.Exists(set) || ptr.Deref(set.Spec.Replicas, 1) == 0 {
		return false
	}
	_, standby := etcd.Owner(set)
	if pod := etcdPod(); h.seed.Exists(pod) {
		standby = standsBy(pod)
	}
	wanted := h.seed.Exists(d) && ptr.Deref(d.Spec.Replicas, 1) > 0
	return !standby && (wanted || h.seed.Exists(serverPod()))
}

func serverPod() *corev1.Pod { return named[corev1.Pod](controlPlane, kubeapiserver.Name+"-0") }

// actors are the processes of the seed and of the control plane.
func (h *hosting) actors(w *sim.World) {
	w.Actor("pods run", h.seed, h.pods)
	w.Actor("etcd runs", h.seed, h.etcd)
	w.Actor("etcd starts", h.seed, h.startEtcd)
	w.Actor("workloads run", h.seed, h.deployments)
	w.Actor("users write", h.seed, h.usersWrite)
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
		if d.Name == kubeapiserver.Name {
			switch {
			case !h.seed.Exists(serverPod()):
				now.Replicas, now.UpdatedReplicas, now.AvailableReplicas, now.ReadyReplicas = 0, 0, 0, 0
			case h.data() == nil: // It waits for etcd.
				now.AvailableReplicas, now.ReadyReplicas = 0, 0
			}
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

// pods are the one of the API server, and the one that pulls images.
func (h *hosting) pods(ctx context.Context, c client.Client) error {
	if images := named[corev1.Pod](controlPlane, "images"); h.seed.Exists(images) &&
		len(images.Status.ContainerStatuses) == 0 {
		for _, container := range images.Spec.Containers {
			images.Status.ContainerStatuses = append(images.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			})
		}
		if err := c.Status().Update(ctx, images); err != nil {
			return err
		}
	}
	d, pod := named[appsv1.Deployment](controlPlane, kubeapiserver.Name), serverPod()
	wanted := h.seed.Exists(d) && ptr.Deref(d.Spec.Replicas, 1) > 0
	switch exists := h.seed.Exists(pod); {
	case exists && (!wanted || !d.Spec.Paused && !equality.Semantic.DeepEqual(pod.Spec, d.Spec.Template.Spec)):
		return c.Delete(ctx, pod)
	case exists || !wanted || d.Spec.Paused:
		return nil
	}
	pod.Labels, pod.Spec, pod.Status.Phase = d.Spec.Template.Labels, d.Spec.Template.Spec, corev1.PodRunning
	return ignoreEnding(c.Create(ctx, pod))
}

// etcd is the StatefulSet, its pod and its volume.
func (h *hosting) etcd(ctx context.Context, c client.Client) error {
	set, pod := named[appsv1.StatefulSet](controlPlane, etcd.Name), etcdPod()
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
	err = n.process.Call(ctx, "etcd", "save", true, func() error {
		v := n.data()
		if v == nil {
			return errNotServing
		}
		n.bucket.revision, revision = v.revision, v.revision
		return nil
	})
	return revision, err
}

// EtcdStatus implements steps.EtcdConnector.
func (n network) EtcdStatus(ctx context.Context, access steps.EtcdAccess) (status etcdbackup.Status, err error) {
	err = n.process.Call(ctx, "etcd", "status", false, func() error {
		if !strings.HasPrefix(access.Endpoint, "https://"+etcd.Name) {
			return fmt.Errorf("%s is not the address of etcd", access.Endpoint)
		}
		pod := etcdPod()
		exists, v := n.seed.Exists(pod), n.data()
		switch {
		case exists && standsBy(pod):
			status.Etcd = etcdbackup.Etcd{State: etcdbackup.EtcdStandby, Epoch: epochOf(pod)}
			return nil
		case v == nil:
			return errNotServing
		}
		status.Etcd = etcdbackup.Etcd{
			State: etcdbackup.EtcdRunning, Configuration: pod.Annotations[etcd.AnnotationConfiguration], Epoch: v.epoch,
			Restored: &etcdbackup.Restored{Revision: v.revision, Stored: time.Now()},
		}
		return nil
	})
	return status, err
}

// ActivateEtcd implements steps.EtcdConnector.
func (n network) ActivateEtcd(ctx context.Context, _ steps.EtcdAccess, epoch int64, holder string) error {
	return n.process.Call(ctx, "etcd", "activate", true, func() error {
		pod := etcdPod()
		if !n.seed.Exists(pod) || epoch < epochOf(pod) || holder != n.name {
			return fmt.Errorf("no etcd stands by for epoch %d of %q", epoch, holder)
		}
		return n.seed.Edit(pod, func() { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationActivated, holder) })
	})
}
