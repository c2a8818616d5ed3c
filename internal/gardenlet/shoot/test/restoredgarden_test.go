package test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// annotate sets an annotation of a Shoot to true.
func (w *world) annotate(s *corev1beta1.Shoot, name string) *corev1beta1.Shoot {
	w.t.Helper()
	before := s.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, name, "true")
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	return s
}

func failedWith(text string) func(*corev1beta1.Shoot) bool {
	return func(s *corev1beta1.Shoot) bool {
		return s != nil && s.Status.LastOperation.State == corev1beta1.LastOperationStateFailed &&
			strings.Contains(s.Status.LastOperation.Description, text)
	}
}

// The garden is restored from a backup that is older than the specification that was rolled out last.
func TestAnOlderSpecificationIsNotRolledOutUnasked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	cluster := &extensionsv1alpha1.Cluster{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Name: s.Status.TechnicalID}, cluster))
	newer := s.DeepCopy()
	newer.Generation += 2
	newer.Spec.Kubernetes.Version = "1.37.0"
	raw, err := json.Marshal(newer)
	if err != nil {
		t.Fatal(err)
	}
	before := cluster.DeepCopy()
	cluster.Spec.Shoot.Raw = raw
	w.must(w.Client.Patch(w.ctx, cluster, client.MergeFrom(before)))

	s, err = w.step(s)
	if err != nil || !failedWith(corev1beta1.AnnotationConfirmOlderSpec)(s) {
		t.Fatalf("the Shoot is not held: %v, %+v", err, s.Status.LastOperation)
	}
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(cluster), cluster))
	if !strings.Contains(string(cluster.Spec.Shoot.Raw), "1.37.0") {
		t.Error("the newer specification in the Cluster object is overwritten")
	}
	s = w.run(w.annotate(s, corev1beta1.AnnotationConfirmOlderSpec), succeeded)
	if _, left := s.Annotations[corev1beta1.AnnotationConfirmOlderSpec]; left || len(s.Status.LastErrors) > 0 {
		t.Errorf("after the confirmation there are still annotations %v and errors %+v", s.Annotations, s.Status.LastErrors)
	}
}

// The garden is restored from a backup in which the Shoot was not deleted yet.
func TestALostControlPlaneIsNotReplacedUnasked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	w.must(w.Client.Delete(w.ctx, &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: s.Status.TechnicalID}}))
	w.must(w.Client.Delete(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Status.TechnicalID}}))
	w.namespaceGone(s.Status.TechnicalID)
	s, err := w.step(s)
	if err != nil || !failedWith("does not exist on Seed")(s) || !w.namespaceGone(s.Status.TechnicalID) {
		t.Fatalf("the Shoot is not held: %v, %+v", err, s.Status.LastOperation)
	}
}

// The garden is restored from a backup in which the Shoot did not exist yet, and its owner creates it once more.
func TestAnUnknownControlPlaneIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	secret := func() string {
		list := &corev1.SecretList{}
		w.must(w.Client.List(w.ctx, list, client.InNamespace(s.Status.TechnicalID), client.MatchingLabels{"name": "ca"}))
		if len(list.Items) != 1 {
			t.Fatalf("there are %d CAs", len(list.Items))
		}
		return string(list.Items[0].UID)
	}
	ca, again := secret(), &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}, Spec: s.Spec,
	}
	w.must(w.Client.Delete(w.ctx, w.annotate(s, corev1beta1.AnnotationConfirmationDeletion)))
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(s), s))
	before := s.DeepCopy()
	s.Status.LastOperation.Type = corev1beta1.LastOperationTypeDelete // Otherwise the API server keeps the finalizer.
	w.must(w.Client.Status().Patch(w.ctx, s, client.MergeFrom(before)))
	before = s.DeepCopy()
	s.Finalizers = nil
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))

	w.Create(t, again)
	w.r.GardenIdentity = func(context.Context) (string, error) { return "another-one", nil }
	now := w.run(again, succeeded)
	was, is := ptr.Deref(s.Status.ClusterIdentity, ""), ptr.Deref(now.Status.ClusterIdentity, "")
	if was == "" || is != was {
		t.Errorf("the identity of the cluster is %q, was %q", is, was)
	}
	if now.UID == s.UID || now.Status.UID != s.Status.UID || now.Status.TechnicalID != s.Status.TechnicalID {
		t.Errorf("the Shoot has status.uid %q and technical ID %q, want %q and %q", now.Status.UID, now.Status.TechnicalID,
			s.Status.UID, s.Status.TechnicalID)
	}
	if secret() != ca {
		t.Error("the control plane has another CA")
	}
}
