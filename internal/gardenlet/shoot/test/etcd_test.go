package test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/etcdbackup"
)

func (w *world) etcdPod(s *corev1beta1.Shoot) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "etcd-main-0"}, pod))
	return pod
}

// TestCertificatesReachTheRunningEtcd rotates the CAs: the pod stays, and the operation does not succeed before the
// process reports that etcd runs with the new certificates.
func TestCertificatesReachTheRunningEtcd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	before := w.etcdPod(s)
	stale := before.Annotations[etcd.AnnotationConfiguration]
	status := func(configuration string, err error) {
		w.etcdStatus = func(string) (etcdbackup.Status, error) {
			return etcdbackup.Status{Etcd: etcdbackup.Etcd{State: etcdbackup.EtcdRunning, Configuration: configuration}}, err
		}
	}
	waitsFor := func(part string) func(*corev1beta1.Shoot) bool {
		return func(s *corev1beta1.Shoot) bool {
			if succeeded(s) {
				t.Fatalf("succeeded although etcd does not run with the new certificates")
			}
			return s.Status.LastOperation != nil && strings.Contains(s.Status.LastOperation.Description, part)
		}
	}
	status("", errors.New("tls: unknown certificate authority"))
	s.Annotations = map[string]string{corev1beta1.AnnotationOperation: corev1beta1.OperationRotateCAStart}
	w.must(w.Client.Update(w.ctx, s))
	s = w.run(s, waitsFor("unknown certificate authority"))
	status(stale, nil)
	s = w.run(s, waitsFor("does not run with its new certificates"))
	pod := w.etcdPod(s)
	wanted := pod.Annotations[etcd.AnnotationConfiguration]
	if pod.UID != before.UID || wanted == stale {
		t.Errorf("the pod was replaced, or is not marked with the new certificates: %s, %s", before.UID, pod.UID)
	}
	refreshed := pod.Annotations[etcd.AnnotationRefreshed]
	s = w.run(s, func(s *corev1beta1.Shoot) bool {
		return w.etcdPod(s).Annotations[etcd.AnnotationRefreshed] != refreshed // The kubelet may have looked too early.
	})
	status(wanted, nil)
	s = w.run(s, succeeded)

	// A pod with another template is replaced; a new image is set in the running pod.
	pod = w.etcdPod(s)
	pod.Spec.Containers[0].Image = "old"
	w.must(w.Client.Update(w.ctx, pod))
	w.etcdStatus = nil
	w.reconcileAgain(s)
	s = w.run(s, waitsFor("is being restarted with its new image"))
	pod = w.etcdPod(s)
	pod.Status.ContainerStatuses[0].RestartCount++
	w.must(w.Client.Status().Update(w.ctx, pod))
	s = w.run(s, succeeded)
	if pod = w.etcdPod(s); pod.UID != before.UID || pod.Spec.Containers[0].Image == "old" {
		t.Errorf("the pod was replaced for another image, or still has the old one")
	}
	pod.Annotations["etcd.hortus.dev/template"] = "old"
	w.must(w.Client.Update(w.ctx, pod))
	w.reconcileAgain(s)
	w.run(s, func(s *corev1beta1.Shoot) bool { return succeeded(s) && w.etcdPod(s).UID != before.UID })
}

// reconcileAgain starts another operation.
func (w *world) reconcileAgain(s *corev1beta1.Shoot) {
	w.t.Helper()
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(s), s))
	s.Annotations = map[string]string{corev1beta1.AnnotationOperation: corev1beta1.OperationReconcile}
	w.must(w.Client.Update(w.ctx, s))
}

// TestThreeMembersOfEtcd makes a Shoot highly available: the running pod stays, two join it.
func TestThreeMembersOfEtcd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	before := w.etcdPod(s)
	s.Spec.ControlPlane = &corev1beta1.ControlPlane{HighAvailability: &corev1beta1.HighAvailability{
		FailureTolerance: corev1beta1.FailureTolerance{Type: corev1beta1.FailureToleranceTypeNode}}}
	w.must(w.Client.Update(w.ctx, s))
	s = w.run(s, succeeded)
	pods := &corev1.PodList{}
	w.must(w.Client.List(w.ctx, pods, client.InNamespace(s.Status.TechnicalID), client.MatchingLabels{"app": "etcd-main"}))
	if after := w.etcdPod(s); len(pods.Items) != 3 || after.UID != before.UID {
		t.Errorf("%d pods; the first one was %s, is %s", len(pods.Items), before.UID, after.UID)
	}
	config := &corev1.ConfigMap{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "etcd-main-config"}, config))
	if n := strings.Count(config.Data["members"], "\n"); n != 3 {
		t.Errorf("%d members are listed", n)
	}
}
