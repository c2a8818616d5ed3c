package test

import (
	"strings"
	"testing"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// The feature gate alone changes no pool's hash; a change that rolls the pool does. The keys survive the loss of the
// seed.
func TestPoolsKeepTheirHashUntilTheyRoll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.r.NewWorkerPoolHash = false
	s := w.run(w.newShoot("a", "b"), succeeded)
	keys := func() (out [2]string) {
		t.Helper()
		worker := &extensionsv1alpha1.Worker{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: s.Name}, worker))
		for i, p := range worker.Spec.Pools {
			if p.NodeAgentSecretName != nil {
				out[i] = *p.NodeAgentSecretName
			}
		}
		return out
	}
	if got := keys(); got != [2]string{} {
		t.Errorf("keys with the classic hash = %q, want none", got)
	}
	secret := &corev1.Secret{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{
		Namespace: s.Status.TechnicalID, Name: "worker-pools-operatingsystemconfig-hashes",
	}, secret))
	if secret.Labels[corev1beta1.LabelPersist] != "true" ||
		!strings.Contains(string(secret.Data["pools"]), "currentVersion: 1") {
		t.Errorf("stored keys = %s with labels %v, want version 1, persisted", secret.Data["pools"], secret.Labels)
	}

	w.r.NewWorkerPoolHash = true
	s = w.run(w.changeSpec(s), succeeded)
	if got := keys(); got != [2]string{} {
		t.Errorf("keys after the gate was switched on = %q, want none", got)
	}
	s = w.latest(s)
	before := s.DeepCopy()
	s.Spec.Provider.Workers[1].Kubernetes = &corev1beta1.WorkerKubernetes{
		Kubelet: &corev1beta1.KubeletConfig{CPUManagerPolicy: ptr.To("static")},
	}
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	s = w.run(s, succeeded)
	rolled := keys()
	if rolled[0] != "" || !strings.HasPrefix(rolled[1], "gardener-node-agent-b-") ||
		len(rolled[1]) != len("gardener-node-agent-b-")+16 {
		t.Errorf("keys after pool b was changed = %q, want the new hash for b", rolled)
	}
	w.r.NewWorkerPoolHash = false
	s = w.run(w.changeSpec(s), succeeded)
	if got := keys(); got != rolled {
		t.Errorf("keys after the gate was switched off = %q, want %q", got, rolled)
	}
}

// The container runtimes of a pool have objects of their own, which follow the pool and roll nothing.
func TestPoolsHaveContainerRuntimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a", "b"), succeeded)
	state := func() (runtimes, keys string) {
		t.Helper()
		list := &extensionsv1alpha1.ContainerRuntimeList{}
		w.must(w.Client.List(w.ctx, list, client.InNamespace(s.Status.TechnicalID)))
		for _, o := range list.Items {
			runtimes += o.Name + " "
			if op := o.Status.LastOperation; op == nil || op.State != corev1beta1.LastOperationStateSucceeded {
				t.Errorf("the Shoot has not waited for ContainerRuntime %s: %+v", o.Name, op)
			}
		}
		worker := &extensionsv1alpha1.Worker{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: s.Name}, worker))
		for _, p := range worker.Spec.Pools {
			keys += *p.NodeAgentSecretName + " "
		}
		return runtimes, keys
	}
	_, before := state()
	for _, tc := range []struct {
		pool  int
		types []string
		want  string
	}{
		{1, []string{"gvisor"}, "gvisor-b "},
		{0, []string{"gvisor"}, "gvisor-a gvisor-b "},
		{1, nil, "gvisor-a "},
	} {
		s = w.latest(s)
		old := s.DeepCopy()
		cri := &corev1beta1.CRI{Name: corev1beta1.CRINameContainerD}
		for _, kind := range tc.types {
			cri.ContainerRuntimes = append(cri.ContainerRuntimes, corev1beta1.ContainerRuntime{Type: kind})
		}
		s.Spec.Provider.Workers[tc.pool].CRI = cri
		w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(old)))
		s = w.run(s, succeeded)
		if runtimes, keys := state(); runtimes != tc.want || keys != before {
			t.Errorf("with %v in pool %d: ContainerRuntimes %s(want %s), keys %s(want %s)", tc.types, tc.pool, runtimes,
				tc.want, keys, before)
		}
	}
	w.delete(s)
	w.run(s, gone)
}

// A request to roll pools is recorded, changes the machine templates of these pools, and is done when all their
// machines are new.
func TestPoolsAreRolledOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a", "b"), succeeded)
	deployment := func(pool string) *machinev1alpha1.MachineDeployment {
		md := &machinev1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Status.TechnicalID, Name: s.Status.TechnicalID + "-" + pool + "-z1",
			Labels: map[string]string{corev1beta1.LabelWorkerPool: pool},
		}}
		md.Spec.Replicas, md.Spec.Selector = 1, &metav1.LabelSelector{MatchLabels: map[string]string{"name": md.Name}}
		md.Spec.Template.Labels = map[string]string{"name": md.Name}
		md.Spec.Template.Spec.Class = machinev1alpha1.ClassSpec{Kind: "MachineClass", Name: "c"}
		md.Spec.Strategy.Type = machinev1alpha1.RollingUpdateMachineDeploymentStrategyType
		w.must(w.Client.Create(w.ctx, md))
		return md
	}
	a, b := deployment("a"), deployment("b")
	rolls := func(md *machinev1alpha1.MachineDeployment) string {
		w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(md), md))
		return md.Spec.Template.Annotations["rollout-workers"]
	}
	pending := func(s *corev1beta1.Shoot) []corev1beta1.PendingWorkersRollout {
		if s.Status.ManualWorkerPoolRollout == nil {
			return nil
		}
		return s.Status.ManualWorkerPoolRollout.PendingWorkersRollouts
	}
	s = w.run(w.request(s, corev1beta1.OperationRolloutWorkersPrefix+"a"), func(s *corev1beta1.Shoot) bool {
		return strings.Contains(s.Status.LastOperation.Description, a.Name)
	})
	if p := pending(s); len(p) != 1 || p[0].Name != "a" || s.Annotations[corev1beta1.AnnotationOperation] != "" {
		t.Errorf("pending roll-outs = %+v, annotations %v, want pool a without an annotation", p, s.Annotations)
	}
	if rolls(a) == "" || rolls(b) != "" {
		t.Errorf("template annotations: %q of pool a, %q of pool b; want one of a only", rolls(a), rolls(b))
	}
	asked := rolls(a)
	before := a.DeepCopy()
	a.Status = machinev1alpha1.MachineDeploymentStatus{ObservedGeneration: a.Generation, Replicas: 1, UpdatedReplicas: 1}
	w.must(w.Client.Status().Patch(w.ctx, a, client.MergeFrom(before)))
	s = w.run(s, succeeded)
	if p := pending(s); len(p) != 0 {
		t.Errorf("pending roll-outs at the end = %+v", p)
	}
	s = w.run(w.changeSpec(s), succeeded)
	if got := rolls(a); got != asked {
		t.Errorf("the annotation is %q after another reconciliation, want %q", got, asked)
	}
}

// The task restarts CoreDNS, and no operation after it does.
func TestCoreAddonsAreRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a"), succeeded)
	dns := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns"}}
	labels := map[string]string{"k8s-app": "kube-dns"}
	dns.Spec.Selector, dns.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	dns.Spec.Template.Spec.Containers = []corev1.Container{{Name: "coredns", Image: "coredns"}}
	w.must(client.IgnoreAlreadyExists(w.user.Create(w.ctx, dns)))
	restarted := func() string {
		w.must(w.user.Get(w.ctx, client.ObjectKeyFromObject(dns), dns))
		return dns.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"]
	}
	if at := restarted(); at != "" {
		t.Fatalf("restarted at %q without a request", at)
	}
	s = w.latest(s)
	before := s.DeepCopy()
	s.Annotations = map[string]string{corev1beta1.AnnotationShootTasks: corev1beta1.ShootTaskRestartCoreAddons}
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	s = w.run(s, succeeded)
	at := restarted()
	if s = w.run(w.changeSpec(s), succeeded); at == "" || restarted() != at {
		t.Errorf("restarted at %q, and at %q by an operation without the task", at, restarted())
	}
	if left := w.latest(s).Annotations[corev1beta1.AnnotationShootTasks]; left != "" {
		t.Errorf("tasks left: %q", left)
	}
}
