package etcd

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/golden"
)

func values() Values {
	return Values{Namespace: "shoot--dev--a", Image: "hortus.dev/hortus:dev", Replicas: 1, StorageSize: "25Gi"}
}

func TestRender(t *testing.T) {
	v := values()
	certificates := Certificates{
		Bundle: []byte("BUNDLE"), Server: Pair{[]byte("SERVER"), []byte("KEY")},
		Client: Pair{[]byte("CLIENT"), []byte("KEY")},
	}
	service, set := Render(v)
	if HasBackups(set) {
		t.Error("an etcd without backups has some")
	}
	golden.Objects(t, "etcd", service, set, certificates.Secret(v.Namespace), Config(v.Namespace, "", 1))

	v.Backup = &Backup{StoreSecret: "etcd-backup", Prefix: "shoot--dev--a--1234/etcd-main", Holder: "local-1", Epoch: 1}
	service, set = Render(v)
	golden.Objects(t, "with-backup", service, set, Config(v.Namespace, "30 22 * * *", 1))
	if !HasBackups(set) {
		t.Error("an etcd with backups has none")
	}
	one := set.Spec.Template.Annotations[annotationTemplate]

	v.Replicas, v.Spread = 3, "topology.kubernetes.io/zone"
	service, set = Render(v)
	golden.Objects(t, "three-members", service, Peers(v.Namespace), set, DisruptionBudget(v.Namespace),
		Config(v.Namespace, "30 22 * * *", 3))
	if got := set.Spec.Template.Annotations[annotationTemplate]; got != one {
		t.Error("three members instead of one replace the pod of the first one")
	}
}

func TestChecksum(t *testing.T) {
	certificates := Certificates{
		Bundle: []byte("BUNDLE"), Server: Pair{[]byte("SERVER"), []byte("KEY")},
		Client: Pair{[]byte("CLIENT"), []byte("KEY")},
	}
	sum := func(c Certificates, schedule string) string { return Checksum(c.Secret("a"), Config("a", schedule, 1)) }
	before := sum(certificates, "0 1 * * *")
	if got := sum(certificates, "0 2 * * *"); got != before {
		t.Error("the schedule of backups changes the checksum")
	}
	certificates.Bundle = []byte("OTHER")
	if got := sum(certificates, "0 1 * * *"); got == before {
		t.Error("the bundle does not change the checksum")
	}
}

func TestPlan(t *testing.T) {
	_, set := Render(values())
	template := &set.Spec.Template
	running := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name = "etcd-main-0"
		pod.Annotations[AnnotationConfiguration] = "sum"
		pod.Spec.NodeName = "node" // As the server and admission complete it.
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready"}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: Name, RestartCount: 2}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if change != nil {
			change(pod)
		}
		return pod
	}
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		want    Change
		unready string
	}{
		"as wanted": {pod: running(nil)},
		"another template": {
			pod:     running(func(p *corev1.Pod) { p.Annotations[annotationTemplate] = "other" }),
			want:    Change{Replace: true, Reason: "its template has changed"},
			unready: "Pod etcd-main-0 has to be updated",
		},
		"a pod of an earlier release": {
			pod:     running(func(p *corev1.Pod) { p.Annotations = nil }),
			want:    Change{Replace: true, Reason: "its template has changed"},
			unready: "Pod etcd-main-0 has to be updated",
		},
		"another image": {
			pod: running(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "old" }),
			want: Change{
				Images: map[string]string{Name: values().Image}, Annotations: map[string]string{AnnotationRestarts: "2"},
			},
			unready: "Pod etcd-main-0 has to be updated",
		},
		"another image and other certificates": {
			pod: running(func(p *corev1.Pod) {
				p.Spec.Containers[0].Image, p.Annotations[AnnotationConfiguration] = "old", ""
			}),
			want: Change{Images: map[string]string{Name: values().Image},
				Annotations: map[string]string{AnnotationRestarts: "2", AnnotationConfiguration: "sum"}},
			unready: "Pod etcd-main-0 has to be updated",
		},
		"other certificates": {
			pod:     running(func(p *corev1.Pod) { p.Annotations[AnnotationConfiguration] = "other" }),
			want:    Change{Annotations: map[string]string{AnnotationConfiguration: "sum"}},
			unready: "Pod etcd-main-0 has to be updated",
		},
		"restarting with a new image": {
			pod:     running(func(p *corev1.Pod) { p.Annotations[AnnotationRestarts] = "2" }),
			unready: "Pod etcd-main-0 is being restarted with its new image",
		},
		"restarted with a new image": {pod: running(func(p *corev1.Pod) { p.Annotations[AnnotationRestarts] = "1" })},
		"not ready": {
			pod:     running(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }),
			unready: "Pod etcd-main-0 is not ready",
		},
		"being deleted": {
			pod: running(func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Annotations = ptr.To(metav1.NewTime(time.Unix(1, 0))), nil
			}),
			unready: "Pod etcd-main-0 is being replaced",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Plan(template, "sum", tc.pod)); diff != "" {
				t.Errorf("Plan() mismatch (-want +got):\n%s", diff)
			}
			if got := Unready(template, "sum", tc.pod); got != tc.unready {
				t.Errorf("Unready() = %q, want %q", got, tc.unready)
			}
		})
	}
}

func TestOnePodEndsAtATime(t *testing.T) {
	_, set := Render(values())
	template := &set.Spec.Template
	pods := func(states ...string) []corev1.Pod {
		var list []corev1.Pod
		for i, state := range states {
			p := corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy()}
			p.Name = string(rune('a' + i))
			p.Annotations[AnnotationConfiguration] = "sum"
			if strings.Contains(state, "old") {
				p.Annotations[annotationTemplate] = "old"
			}
			if !strings.Contains(state, "broken") {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			list = append(list, p)
		}
		return list
	}
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"the only one":                   {pods: pods("old"), want: "a"},
		"the only one, though not ready": {pods: pods("old broken"), want: "a"},
		"all are old":                    {pods: pods("old", "old", "old"), want: "a"},
		"the first one is new":           {pods: pods("new", "old", "old"), want: "b"},
		"the new one is not ready yet":   {pods: pods("new broken", "old", "old")},
		"an old one is not ready":        {pods: pods("old", "old broken", "old"), want: "b"},
		"two are not ready":              {pods: pods("old broken", "old broken", "old")},
		"all are new":                    {pods: pods("new", "new", "new")},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for name, c := range Next(template, "sum", tc.pods) {
				if c.Replace {
					got += name
				}
			}
			if got != tc.want {
				t.Errorf("Next() replaces %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTemplateChecksumLeavesImagesOut(t *testing.T) {
	v := values()
	of := func() string {
		_, set := Render(v)
		return set.Spec.Template.Annotations[annotationTemplate]
	}
	before := of()
	v.Image = "other"
	if got := of(); got != before {
		t.Error("another image gives another checksum")
	}
	v.Backup = &Backup{Epoch: 1, Holder: "a"}
	owned := of()
	if owned == before {
		t.Error("another flag gives the same checksum")
	}
	v.Backup = &Backup{Epoch: 2, Holder: "b", Standby: true}
	if got := of(); got != owned {
		t.Error("another owner gives another checksum")
	}
	v.Backup.Restore = &Restore{ID: "a", Time: time.Unix(0, 0)}
	if got := of(); got == owned {
		t.Error("a request to take etcd back gives the same checksum")
	}
	_, set := Render(v)
	if epoch, standby := Owner(set); epoch != 2 || !standby {
		t.Errorf("Owner() = %d, %t", epoch, standby)
	}
}
