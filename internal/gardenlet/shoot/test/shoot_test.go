package test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/kubecontrollermanager"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
)

func TestWorkerlessShootIsCreatedAndDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.newShoot()
	var progress []int32
	s = w.run(s, func(s *corev1beta1.Shoot) bool {
		progress = append(progress, s.Status.LastOperation.Progress)
		return succeeded(s)
	})
	if !slices.IsSorted(progress) {
		t.Errorf("progress goes back: %v", progress)
	}
	if op := s.Status.LastOperation; op.Type != corev1beta1.LastOperationTypeCreate || op.Progress != 100 {
		t.Errorf("last operation = %+v", op)
	}
	names := map[string]string{}
	for _, a := range s.Status.AdvertisedAddresses {
		names[a.Name] = a.URL
	}
	if !strings.HasPrefix(names["internal"], "https://api."+s.Name+".") || names["service-account-issuer"] == "" {
		t.Errorf("advertised addresses = %v", names)
	}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: s.Name + ".ca-cluster"},
		&corev1.ConfigMap{}))
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: s.Name + ".ca-client"},
		&corev1beta1.InternalSecret{}))
	for name, host := range map[string]string{
		"gardener":          "https://api." + s.Name + ".",
		"gardener-internal": "https://kube-apiserver." + s.Status.TechnicalID + ".svc",
	} {
		access := &corev1.Secret{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: name}, access))
		if kubeconfig := string(access.Data["kubeconfig"]); !strings.Contains(kubeconfig, host) {
			t.Errorf("Secret %s has no server %s: %s", name, host, kubeconfig)
		}
	}
	if flags := w.flagsOfResourceManager(s); strings.Contains(flags, "--kubernetes-service-host") {
		t.Errorf("the resource-manager of a Shoot without nodes has flags for pods: %s", flags)
	}

	w.delete(s)
	w.run(s, gone)
	if err := w.Client.Get(w.ctx, client.ObjectKey{Name: s.Status.TechnicalID},
		&corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("the control plane namespace is still there: %v", err)
	}
	err := w.Client.Get(w.ctx, client.ObjectKey{Name: s.Status.TechnicalID}, &extensionsv1alpha1.Cluster{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the Cluster is still there: %v", err)
	}
}

// flagsOfResourceManager returns the command line of the Shoot's resource-manager.
func (w *world) flagsOfResourceManager(s *corev1beta1.Shoot) string {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "gardener-resource-manager"}, d))
	c := d.Spec.Template.Spec.Containers[0]
	return strings.Join(slices.Concat(c.Command, c.Args), " ")
}

func TestShootWithMachinesIsCreatedAndDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a", "b"), succeeded)
	worker := &extensionsv1alpha1.Worker{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: s.Name}, worker))
	pools := worker.Spec.Pools
	if len(pools) != 2 || pools[0].UserDataSecretRef.Name == "" || pools[0].NodeAgentSecretName == nil {
		t.Errorf("pools of the Worker = %+v", pools)
	}
	if n := s.Status.Networking; n == nil || !slices.Equal(n.Nodes, []string{"10.250.0.0/16"}) {
		t.Errorf("status.networking = %+v", n)
	}
	if ptr.Deref(s.Spec.Networking.Nodes, "") != "10.250.0.0/16" {
		t.Errorf("spec.networking.nodes = %v", s.Spec.Networking.Nodes)
	}

	flags := w.flagsOfResourceManager(s)
	if want := "--kubernetes-service-host=api." + s.Name + "."; !strings.Contains(flags, want) {
		t.Errorf("the resource-manager has no flag %s...: %s", want, flags)
	}

	// The user's objects in the cluster are deleted before its machines.
	w.must(w.user.Create(w.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}))
	labels := map[string]string{"app": "web"}
	w.must(w.user.Create(w.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Finalizers: []string{"example.com/slow"}},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}},
	}))
	w.delete(s)
	s = w.run(s, func(s *corev1beta1.Shoot) bool {
		return strings.Contains(s.Status.LastOperation.Description, "Deployment default/web")
	})
	if err := w.user.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "web"},
		&corev1.Service{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Service is still there: %v", err)
	}
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(worker), worker))
	if worker.DeletionTimestamp != nil {
		t.Error("machines are deleted before the clean-up is complete")
	}
	deployment := &appsv1.Deployment{}
	w.must(w.user.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "web"}, deployment))
	deployment.Finalizers = nil
	w.must(w.user.Update(w.ctx, deployment))
	w.run(s, gone)
}

// VolumeAttachments of machines that are gone are deleted when a Shoot is hibernated or deleted, before its API server
// stops; their driver has five minutes.
func TestAttachmentsEndWithTheirNodes(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *corev1beta1.Shoot) *corev1beta1.Shoot{
		"hibernation": func(w *world, s *corev1beta1.Shoot) *corev1beta1.Shoot {
			before := s.DeepCopy()
			s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)}
			w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
			return s
		},
		"deletion": func(w *world, s *corev1beta1.Shoot) *corev1beta1.Shoot {
			w.delete(s)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.run(w.newShoot("a"), succeeded)
			attachment := func(name string, finalizers ...string) *storagev1.VolumeAttachment {
				return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
					Spec: storagev1.VolumeAttachmentSpec{
						Attacher: "d", NodeName: "gone",
						Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv")},
					}}
			}
			w.must(w.user.Create(w.ctx, attachment("free")))
			w.must(w.user.Create(w.ctx, attachment("held", "example.com/driver")))

			s = w.run(end(w, s), func(s *corev1beta1.Shoot) bool {
				return s != nil && strings.Contains(s.Status.LastOperation.Description, "VolumeAttachment held")
			})
			if err := w.user.Get(w.ctx, client.ObjectKey{Name: "free"}, attachment("free")); !apierrors.IsNotFound(err) {
				t.Errorf("the VolumeAttachment without a finalizer is still there: %v", err)
			}
			for _, name := range []string{"kube-apiserver", "kube-controller-manager"} {
				d := &appsv1.Deployment{}
				w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: name}, d))
				if *d.Spec.Replicas == 0 {
					t.Errorf("%s has been stopped before the volumes are detached", name)
				}
			}
			w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: s.Name},
				&extensionsv1alpha1.ControlPlane{}))
			held := attachment("held")
			w.must(w.user.Get(w.ctx, client.ObjectKey{Name: "held"}, held))
			// The user's cluster has a clock of its own.
			w.clock.Step(6*time.Minute + max(0, held.DeletionTimestamp.Sub(w.clock.Now())))
			w.run(s, func(s *corev1beta1.Shoot) bool { return gone(s) || succeeded(s) })
			if err := w.user.Get(w.ctx, client.ObjectKey{Name: "held"}, attachment("held")); !apierrors.IsNotFound(err) {
				t.Errorf("the VolumeAttachment with a finalizer is still there: %v", err)
			}
		})
	}
}

func TestFinishedShootIsLeftAloneUntilItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	again, err := w.step(s)
	w.must(err)
	if again.ResourceVersion != s.ResourceVersion {
		t.Errorf("a finished Shoot was written to: %+v", again.Status.LastOperation)
	}
	w.clock.Step(time.Hour)
	w.seedActs(s)
	s = w.run(s, succeeded)
	if s.Status.LastOperation.Type != corev1beta1.LastOperationTypeReconcile {
		t.Errorf("operation after the sync period = %s, want Reconcile", s.Status.LastOperation.Type)
	}
}

// A new version of the gardenlet reconciles Shoots that are up to date, once, and not before its seed is ready.
func TestNewGardenletReconcilesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	const next = "v99"
	w.r.Identity.Version = next
	var logged []string // What changes nothing is logged for debugging only: it happens every few seconds.
	ctx := w.ctx
	w.ctx = log.IntoContext(ctx, funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	waiting, err := w.step(s)
	w.must(err)
	w.ctx = ctx
	if len(logged) > 0 {
		t.Errorf("while the seed is not ready, the gardenlet logs %q", logged)
	}
	if waiting.ResourceVersion != s.ResourceVersion {
		t.Errorf("the Shoot was written to before the seed was ready: %+v", waiting.Status.LastOperation)
	}
	w.seed.Status.Gardener = &corev1beta1.Gardener{Version: next}
	w.must(w.Client.Status().Update(w.ctx, w.seed))
	s = w.run(s, func(s *corev1beta1.Shoot) bool { return s.Status.Gardener.Version == next && succeeded(s) })
	if s.Status.LastOperation.Type != corev1beta1.LastOperationTypeReconcile {
		t.Errorf("the new gardenlet's operation is %s, want Reconcile", s.Status.LastOperation.Type)
	}
	again, err := w.step(s)
	w.must(err)
	if again.ResourceVersion != s.ResourceVersion {
		t.Errorf("the Shoot was reconciled twice: %+v", again.Status.LastOperation)
	}
}

func TestFailuresOfExtensions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		code corev1beta1.ErrorCode
		want corev1beta1.LastOperationState
	}{
		"depleted resources are retried": {
			corev1beta1.ErrorInfraResourcesDepleted, corev1beta1.LastOperationStateError,
		},
		"bad credentials wait for the user": {
			corev1beta1.ErrorInfraUnauthorized, corev1beta1.LastOperationStateFailed,
		},
		"an exceeded quota is reported as a failure": {
			corev1beta1.ErrorInfraQuotaExceeded, corev1beta1.LastOperationStateFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fail["Infrastructure"] = tc.code
			s := w.newShoot("a")
			s = w.run(s, func(s *corev1beta1.Shoot) bool {
				w.clock.Step(time.Minute)
				return len(s.Status.LastErrors) > 0
			})
			e := s.Status.LastErrors[0]
			if ptr.Deref(e.TaskID, "") != "infrastructure" || !slices.Equal(e.Codes, []corev1beta1.ErrorCode{tc.code}) ||
				s.Status.LastOperation.State != tc.want {
				t.Errorf("errors = %+v, operation = %+v, want state %s", s.Status.LastErrors, s.Status.LastOperation, tc.want)
			}
		})
	}
}

func TestShootContinuesWhenTheQuotaIsRaised(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fail["Infrastructure"] = corev1beta1.ErrorInfraQuotaExceeded
	s := w.run(w.newShoot("a"), func(s *corev1beta1.Shoot) bool {
		w.clock.Step(time.Minute)
		return s.Status.LastOperation.State == corev1beta1.LastOperationStateFailed
	})
	s, err := w.step(s)
	w.must(err)
	if s.Status.LastOperation.State != corev1beta1.LastOperationStateFailed {
		t.Fatalf("operation = %+v, want Failed as long as the quota holds", s.Status.LastOperation)
	}
	cluster := &extensionsv1alpha1.Cluster{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Name: s.Status.TechnicalID}, cluster))
	if strings.Contains(string(cluster.Spec.Shoot.Raw), `"state":"Failed"`) {
		t.Error("the Cluster shows extensions a failed operation")
	}
	delete(w.fail, "Infrastructure")
	w.seedActs(s)
	w.run(s, succeeded)
}

// TestErrorsAreRetriedForTheRetryDuration: an error that may pass is retried for twelve hours. Then the operation has
// failed, until its owner requests a retry.
func TestErrorsAreRetriedForTheRetryDuration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := func(state corev1beta1.LastOperationState) func(*corev1beta1.Shoot) bool {
		return func(s *corev1beta1.Shoot) bool { return s.Status.LastOperation.State == state }
	}
	w.fail["Infrastructure"] = corev1beta1.ErrorInfraResourcesDepleted
	s := w.run(w.newShoot("a"), in(corev1beta1.LastOperationStateError))
	w.clock.Step(11 * time.Hour)
	s, err := w.step(s)
	if err == nil || !in(corev1beta1.LastOperationStateError)(s) {
		t.Errorf("operation after eleven hours = %+v, %v, want Error", s.Status.LastOperation, err)
	}
	w.clock.Step(time.Hour)
	s = w.run(s, in(corev1beta1.LastOperationStateFailed))
	delete(w.fail, "Infrastructure")
	w.seedActs(s)
	s, err = w.step(s)
	w.must(err)
	if !in(corev1beta1.LastOperationStateFailed)(s) {
		t.Errorf("operation without a retry = %+v, want Failed", s.Status.LastOperation)
	}
	w.run(w.request(s, corev1beta1.OperationRetry), succeeded)
}

// TestFailedDeletionIsTriedAgain: the extension has stopped trying when the deletion failed. A retry requests the
// deletion of the object again, and the error from before does not end it.
func TestFailedDeletionIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a"), succeeded)
	infrastructure := &extensionsv1alpha1.Infrastructure{}
	read := func() *extensionsv1alpha1.Infrastructure {
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: s.Name}, infrastructure))
		return infrastructure
	}
	read().Finalizers = []string{"extensions.gardener.cloud/infrastructure"}
	w.must(w.Client.Update(w.ctx, infrastructure))
	w.fail["Infrastructure"] = corev1beta1.ErrorInfraDependencies
	w.delete(s)
	s = w.run(s, func(*corev1beta1.Shoot) bool { return read().DeletionTimestamp != nil })
	infrastructure.Status.LastError = &corev1beta1.LastError{
		Description: "in use", Codes: []corev1beta1.ErrorCode{corev1beta1.ErrorInfraDependencies},
		LastUpdateTime: ptr.To(metav1.NewTime(w.clock.Now())),
	}
	w.must(w.Client.Status().Update(w.ctx, infrastructure))
	s = w.run(s, func(s *corev1beta1.Shoot) bool {
		w.clock.Step(time.Minute)
		return s.Status.LastOperation.State == corev1beta1.LastOperationStateFailed
	})
	requested := func() string { return read().Annotations[extensionsv1alpha1.AnnotationTimestamp] }
	before := requested()
	w.clock.Step(time.Hour)
	if s, err := w.step(s); err != nil || requested() != before {
		t.Errorf("without a retry: operation = %+v, %v, deletion requested again at %s", s.Status.LastOperation, err,
			requested())
	}

	s = w.run(w.request(s, corev1beta1.OperationRetry), func(s *corev1beta1.Shoot) bool { return requested() != before })
	for range 2 {
		if op := s.Status.LastOperation; op.State != corev1beta1.LastOperationStateProcessing {
			t.Errorf("operation while the extension tries again = %+v, errors = %+v", op, s.Status.LastErrors)
		}
		var err error
		s, err = w.step(s)
		w.must(err)
	}
	read().Finalizers = nil // The extension releases its object.
	w.must(w.Client.Update(w.ctx, infrastructure))
	w.run(s, gone)
}

// TestFailedShootIsTriedAgain: its certificates have to be replaced before they expire, without any action of its
// owner.
func TestFailedShootIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fail["Infrastructure"] = corev1beta1.ErrorInfraUnauthorized
	failed := func(s *corev1beta1.Shoot) bool {
		return s.Status.LastOperation.State == corev1beta1.LastOperationStateFailed
	}
	s := w.run(w.newShoot("a"), failed)
	delete(w.fail, "Infrastructure")
	w.seedActs(s)
	w.clock.Step(29 * 24 * time.Hour)
	s, err := w.step(s)
	w.must(err)
	if !failed(s) {
		t.Errorf("operation after 29 days = %+v, want Failed", s.Status.LastOperation)
	}
	w.clock.Step(24 * time.Hour)
	w.run(s, succeeded)
}

// TestCertificatesAreReplacedThoughTheCloudFails: the control plane of a Shoot whose infrastructure fails gets new ones
// nevertheless.
func TestCertificatesAreReplacedThoughTheCloudFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a"), succeeded)
	mounted := func(deployment string) string {
		d := &appsv1.Deployment{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: deployment}, d))
		volumes, err := json.Marshal(d.Spec.Template.Spec.Volumes)
		w.must(err)
		return string(volumes)
	}
	before := map[string]string{}
	for _, d := range steps.Deployments {
		before[d.Name] = mounted(d.Name)
	}
	w.fail["Infrastructure"] = corev1beta1.ErrorInfraDependencies // The error may heal, so attempts continue.
	w.clock.Step(300 * 24 * time.Hour)
	changed := s.DeepCopy()
	changed.Annotations[corev1beta1.AnnotationShootTasks] = corev1beta1.ShootTaskDeployInfrastructure
	w.must(w.Client.Patch(w.ctx, changed, client.MergeFrom(s)))
	w.run(changed, func(s *corev1beta1.Shoot) bool {
		if succeeded(s) {
			t.Fatal("the infrastructure has not failed")
		}
		for name, volumes := range before {
			if mounted(name) == volumes {
				return false
			}
		}
		return true
	})
}

func TestShootHibernatesAndWakesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a"), succeeded)
	// All Deployments of the control plane are those in the table, and have the replicas.
	checkReplicas := func(want int32) {
		t.Helper()
		list, wanted, got := &appsv1.DeploymentList{}, map[string]int32{}, map[string]int32{}
		w.must(w.Client.List(w.ctx, list, client.InNamespace(s.Status.TechnicalID)))
		for _, d := range steps.Deployments {
			wanted[d.Name] = want
		}
		for _, d := range list.Items {
			got[d.Name] = *d.Spec.Replicas
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("replicas of the control plane's Deployments (-want +got):\n%s", diff)
		}
	}
	hibernate := func(enabled bool) {
		before := s.DeepCopy()
		s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(enabled)}
		w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
		stopped := false
		s = w.run(s, func(now *corev1beta1.Shoot) bool {
			if !enabled {
				return succeeded(now)
			}
			machines := &appsv1.Deployment{}
			w.must(w.Client.Get(w.ctx, client.ObjectKey{
				Namespace: now.Status.TechnicalID, Name: "machine-controller-manager",
			}, machines))
			running := *machines.Spec.Replicas > 0
			switch {
			case running && stopped:
				t.Error("the machine-controller-manager is started again, although no machine is left")
			case running: // As the extension of the Worker does.
				machines.Spec.Replicas = ptr.To[int32](0)
				w.must(w.Client.Update(w.ctx, machines))
				stopped = true
			}
			return succeeded(now)
		})
		if stopped != enabled {
			t.Errorf("the machine-controller-manager was stopped: %t, want %t", stopped, enabled)
		}
	}
	// Care is not part of this test, but hibernation requires its check.
	s.Status.Constraints = []corev1beta1.Condition{
		{Type: corev1beta1.ShootHibernationPossible, Status: corev1beta1.ConditionTrue, Reason: "Test"},
	}
	w.must(w.Client.Status().Update(w.ctx, s))
	// Pods whose kubelets have been deleted with the machines.
	for i, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodPending} {
		team := fmt.Sprint("team-", i)
		w.must(w.user.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}))
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "lost"},
			Spec:       corev1.PodSpec{NodeName: "gone", Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}
		w.must(w.user.Create(w.ctx, pod))
		pod.Status.Phase = phase
		w.must(w.user.Status().Update(w.ctx, pod))
	}
	checkReplicas(1)
	// The kube-controller-manager does not release its Lease when it is stopped.
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-controller-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("former")},
	}
	w.must(w.user.Create(w.ctx, lease))
	hibernate(true)
	if checkReplicas(0); !s.Status.IsHibernated {
		t.Error("the status does not say that the Shoot is hibernated")
	}
	left := &corev1.PodList{}
	w.must(w.user.List(w.ctx, left))
	if len(left.Items) != 2 || left.Items[0].Status.Phase != corev1.PodSucceeded ||
		left.Items[1].Status.Phase != corev1.PodPending {
		t.Errorf("pods %v are left, want the one that has succeeded and the one that never ran", left.Items)
	}
	w.clock.Step(time.Hour)
	s = w.run(s, succeeded)
	checkReplicas(0) // The periodic reconciliation wakes nothing up.
	hibernate(false)
	if checkReplicas(1); s.Status.IsHibernated {
		t.Error("the status says that the Shoot is hibernated")
	}
	if err := w.user.Get(w.ctx, client.ObjectKeyFromObject(lease), lease); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease of the kube-controller-manager before the hibernation is still there (%v)", err)
	}
	lease.ResourceVersion, lease.Spec.HolderIdentity = "", ptr.To("present")
	w.must(w.user.Create(w.ctx, lease))
	w.clock.Step(time.Hour)
	s = w.run(s, succeeded)
	if err := w.user.Get(w.ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
		t.Errorf("the Lease of a kube-controller-manager that runs: %v", err)
	}
	// A webhook that does not answer keeps the Lease, but not the kube-controller-manager from starting.
	webhook := unavailableWebhook("leases", admissionregistrationv1.Delete, coordinationv1.GroupName, "leases")
	w.must(w.user.Create(w.ctx, webhook))
	controllers := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Status.TechnicalID, Name: kubecontrollermanager.Name,
	}}
	w.must(w.Client.Patch(w.ctx, controllers, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))))
	if err := w.user.Delete(w.ctx, lease, client.DryRunAll); err == nil {
		t.Error("the webhook does not deny the deletion of a Lease")
	}
	w.clock.Step(time.Hour)
	s = w.run(s, succeeded)
	checkReplicas(1)
	if err := w.user.Get(w.ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
		t.Errorf("a Lease whose deletion is denied: %v", err)
	}
	w.must(w.user.Delete(w.ctx, webhook))
	for i := range left.Items { // The kube-controller-manager does it, since their nodes are gone.
		w.must(w.user.Delete(w.ctx, &left.Items[i], client.GracePeriodSeconds(0)))
	}
	w.delete(s)
	w.run(s, gone)
}

func TestKubeProxyIsRemovedWhenItIsDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a"), succeeded)
	for _, enabled := range []bool{false, true} {
		before := s.DeepCopy()
		s.Spec.Kubernetes.KubeProxy = &corev1beta1.KubeProxyConfig{Enabled: ptr.To(enabled)}
		w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
		s = w.run(s, succeeded)
		for name, o := range map[string]client.Object{
			"shoot-core-kube-proxy":                 &resourcesv1alpha1.ManagedResource{},
			"managedresource-shoot-core-kube-proxy": &corev1.Secret{},
		} {
			err := w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: name}, o)
			if client.IgnoreNotFound(err) != nil || (err == nil) != enabled {
				t.Errorf("enabled is %t: %s: %v", enabled, name, err)
			}
		}
	}
}

func TestResourcesOfAShootAreCopiedWhileItListsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: "mine"}
	w.must(w.Client.Create(w.ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"key": []byte("value")}}))
	w.must(w.Client.Create(w.ctx, &corev1.ConfigMap{ObjectMeta: meta}))
	for _, kinds := range [][]string{{"Secret", "ConfigMap"}, {"Secret"}, {}} {
		before := s.DeepCopy()
		s.Spec.Resources = nil
		for _, kind := range kinds {
			s.Spec.Resources = append(s.Spec.Resources, corev1beta1.NamedResourceReference{
				Name:        strings.ToLower(kind),
				ResourceRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: meta.Name},
			})
		}
		w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
		s = w.run(s, succeeded)
		for kind, o := range map[string]client.Object{"Secret": &corev1.Secret{}, "ConfigMap": &corev1.ConfigMap{}} {
			err := w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "ref-" + meta.Name}, o)
			if client.IgnoreNotFound(err) != nil || (err == nil) != slices.Contains(kinds, kind) {
				t.Errorf("the Shoot lists %v; the copy of the %s: %v", kinds, kind, err)
			}
		}
	}
}

func TestShootThatWasNeverCreatedIsRemovedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.newShoot()
	w.delete(s)
	if now, err := w.step(s); now != nil || err != nil {
		t.Errorf("Shoot = %v, %v, want it gone", now, err)
	}
}

func TestSeedMustBeReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.seed.Status.Conditions[0].Status = corev1beta1.ConditionUnknown
	w.must(w.Client.Status().Update(w.ctx, w.seed))
	s := w.newShoot()
	s, err := w.step(s)
	if err != nil { // An error would increase the pause each time.
		t.Errorf("Reconcile() = %v, want no error", err)
	}
	o := s.Status.LastOperation
	if o.State != corev1beta1.LastOperationStateError || !strings.Contains(o.Description, "not ready") ||
		!strings.HasSuffix(o.Description, " is not True. Operation will be retried.") {
		t.Errorf("operation = %+v, want an error about the seed", o)
	}
}

// A change that waits for the seed is a reconciliation, not another creation.
func TestChangeWaitsForTheSeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	seedIs := func(status corev1beta1.ConditionStatus) {
		w.seed.Status.Conditions[0].Status = status
		w.must(w.Client.Status().Update(w.ctx, w.seed))
	}
	seedIs(corev1beta1.ConditionUnknown)
	before := s.DeepCopy()
	s.Spec.Purpose = ptr.To(corev1beta1.ShootPurposeProduction)
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	for range 2 {
		var err error
		if s, err = w.step(s); err != nil {
			t.Fatal(err)
		}
		o := s.Status.LastOperation
		if o.Type != corev1beta1.LastOperationTypeReconcile || o.State != corev1beta1.LastOperationStateError ||
			o.Progress != 0 || !strings.Contains(o.Description, "not ready") {
			t.Fatalf("operation = %+v, want a reconciliation that waits for the seed", o)
		}
	}
	seedIs(corev1beta1.ConditionTrue)
	w.run(s, func(s *corev1beta1.Shoot) bool {
		if o := s.Status.LastOperation; o.Type != corev1beta1.LastOperationTypeReconcile {
			t.Fatalf("operation = %+v, want a reconciliation", o)
		}
		return succeeded(s)
	})
}

// Conditions about earlier content do not count for the newest one.
func TestSucceededMeansThatTheNewestIsApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a"), succeeded)
	w.lazy = true
	before := s.DeepCopy()
	s.Spec.SystemComponents = &corev1beta1.SystemComponents{CoreDNS: &corev1beta1.CoreDNS{
		Rewriting: &corev1beta1.CoreDNSRewriting{CommonSuffixes: []string{"example.org"}},
	}}
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	const waiting = "ManagedResource shoot-core-coredns has not been applied since its last change"
	s = w.run(s, func(s *corev1beta1.Shoot) bool {
		if succeeded(s) {
			t.Fatal("the Shoot has succeeded before the resource-manager has applied the newest content")
		}
		return s.Status.LastOperation.Description == waiting+"."
	})
	w.lazy = false
	w.run(s, succeeded)
}
