package test

import (
	"errors"
	"strings"
	"testing"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
)

// A hibernation leaves no machine behind, and stops etcd only when nothing can write to it any more and all of it is in
// the backups.
func TestHibernationLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBackups(t)
	s := b.until(b.newShoot("a"), succeeded)
	namespace := s.Status.TechnicalID
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	etcdReplicas := func() int32 {
		set := &appsv1.StatefulSet{ObjectMeta: at(etcd.Name)}
		b.must(b.Client.Get(b.ctx, client.ObjectKeyFromObject(set), set))
		return *set.Spec.Replicas
	}
	says := func(text string, passes int) func(*corev1beta1.Shoot) bool {
		return func(s *corev1beta1.Shoot) bool {
			if strings.Contains(s.Status.LastOperation.Description, text) {
				if n := etcdReplicas(); n != 1 {
					t.Errorf("etcd has %d replicas while the operation says %q", n, text)
				}
				passes--
			}
			return passes == 0
		}
	}
	machine := &machinev1alpha1.Machine{ObjectMeta: at("late")}
	b.must(b.Client.Create(b.ctx, machine))
	server := &corev1.Pod{ObjectMeta: at("kube-apiserver-1"), Spec: corev1.PodSpec{
		NodeName: "seed-node", Containers: []corev1.Container{{Name: "a", Image: "a"}},
	}}
	server.Labels = component.Selector(kubeapiserver.Name)
	b.must(b.Client.Create(b.ctx, server))
	s.Status.Constraints = []corev1beta1.Condition{
		{Type: corev1beta1.ShootHibernationPossible, Status: corev1beta1.ConditionTrue, Reason: "Test"},
	}
	b.must(b.Client.Status().Update(b.ctx, s))
	before := s.DeepCopy()
	s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)}
	b.must(b.Client.Patch(b.ctx, s, client.MergeFrom(before)))

	// The extension of the Worker has stopped the controller before it knew of the machine.
	s = b.until(s, says("1 machines are still there, late among them", 1))
	controller := &appsv1.Deployment{ObjectMeta: at(machinecontrollermanager.Name)}
	b.must(b.Client.Patch(b.ctx, controller, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"replicas":0}}`))))
	s = b.until(s, func(*corev1beta1.Shoot) bool {
		b.must(b.Client.Get(b.ctx, client.ObjectKeyFromObject(controller), controller))
		return *controller.Spec.Replicas == 1
	})
	b.must(b.Client.Delete(b.ctx, machine))

	b.saveError = errors.New("the bucket is away")
	s = b.until(s, says("The API server is being stopped", 3))
	b.must(b.Client.Get(b.ctx, client.ObjectKeyFromObject(server), server))
	if grace := server.DeletionGracePeriodSeconds; grace == nil || *grace != 1 {
		t.Errorf("the API server has %v s to end, want 1", grace)
	}
	b.must(b.Client.Delete(b.ctx, server, client.GracePeriodSeconds(0))) // As its kubelet does.
	s = b.until(s, says("Waiting for the final backup before etcd is stopped: the bucket is away", 2))
	b.saveError, b.saves = nil, 0
	s = b.until(s, succeeded)
	if n := etcdReplicas(); n != 0 || b.saves == 0 || !s.Status.IsHibernated {
		t.Errorf("etcd has %d replicas after %d backups; hibernated: %t", n, b.saves, s.Status.IsHibernated)
	}
	b.delete(s)
	b.until(s, gone)
	for range 3 {
		b.entriesAct()
	}
}
