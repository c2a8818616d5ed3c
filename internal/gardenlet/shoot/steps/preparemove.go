package steps

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// Prepare is the flow by which the destination of a move prepares while the source still serves: every step that
// neither writes to etcd nor directs clients to this seed.
func Prepare() *flow.Graph[*Scope] {
	return flow.New(
		RequiredExtensions, Namespace, BackupEntry, CloudCredentials, Credentials, References, Infrastructure,
		KubeAPIServerService, GatewayAddress, Route, VPNSeedServer, ImagesPulled,
		EtcdPrepared, EtcdStandsBy, KubeAPIServerPrepared,
	)
}

var (
	// EtcdPrepared creates an etcd on standby: it runs and has access to the backups, but claims and restores nothing.
	EtcdPrepared = &flow.Step[*Scope]{
		Name:    "etcd-prepared",
		After:   []*flow.Step[*Scope]{Credentials, BackupEntry},
		SkipIf:  when(startsLater),
		Ensure:  use3(ensureEtcd),
		Recheck: recheck,
	}
	// EtcdStandsBy waits until that etcd is on standby.
	EtcdStandsBy = &flow.Step[*Scope]{
		Name:    "etcd-stands-by",
		After:   []*flow.Step[*Scope]{EtcdPrepared},
		SkipIf:  when(startsLater),
		Ensure:  use4(ensureEtcdReady),
		Limit:   5 * time.Minute,
		Recheck: recheckPods,
	}
	// KubeAPIServerPrepared creates the API server, whose process waits for etcd: the etcd on standby holds its
	// connections until it is activated. It comes last, because the server gives up after 20 s.
	KubeAPIServerPrepared = &flow.Step[*Scope]{
		Name: "kube-apiserver-prepared",
		After: []*flow.Step[*Scope]{
			Credentials, References, KubeAPIServerService, GatewayAddress, Route, Infrastructure, VPNSeedServer, ImagesPulled,
			EtcdStandsBy,
		},
		SkipIf:  when(startsLater, extensionsComeFirst),
		Ensure:  use4(ensureKubeAPIServerPrepared),
		Limit:   5 * time.Minute,
		Recheck: recheckPods,
	}
)

// startsLater: a sleeping control plane is in no hurry, and the members of a larger etcd find each other only when they
// run.
func startsLater(s *Values) string {
	switch {
	case s.Shoot.HibernationEnabled():
		return "hibernated"
	case s.etcdMembers() > 1:
		return "several members"
	}
	return ""
}

func extensionsComeFirst(s *Values) string {
	return reasonIf(withoutExtensions(corev1beta1.BeforeKubeAPIServer)(s) == "", "extensions come first")
}

// ensureKubeAPIServerPrepared waits until the process runs, which cannot be ready.
func ensureKubeAPIServerPrepared(
	ctx context.Context, s *Values, seed *SeedNamespace, garden *GardenNamespace, secrets Secrets,
) (flow.Outcome, error) {
	if outcome, err := ensureKubeAPIServer(ctx, s, seed, garden, secrets); err != nil || !outcome.IsDone() {
		return outcome, err
	}
	pods, err := seed.podsOf(ctx, kubeapiserver.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning {
			return flow.Done(), nil
		}
	}
	return seed.waitForPods(waitAPIServer, "The API server is being started", pods), nil
}

// ImagesPulled pulls the images of the control plane to a node of the seed, so that nothing has to be pulled between
// the end of one API server and the start of the next.
var ImagesPulled = &flow.Step[*Scope]{
	Name:    "images-pulled",
	After:   []*flow.Step[*Scope]{Namespace},
	Ensure:  use2(ensureImagesPulled),
	Recheck: recheckPods,
}

// imagePod is the name of the pod whose containers run one image each, and end at once.
const imagePod = "images"

// imagePullLimit is after which time the move continues without the images: it only takes longer then.
const imagePullLimit = 2 * time.Minute

func ensureImagesPulled(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: imagePod, Namespace: s.Namespace}}
	found, err := kube.Exists(ctx, seed, pod)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		if err := seed.Create(ctx, renderImagePod(s)); err != nil {
			return flow.Outcome{}, fmt.Errorf("create pod %q: %w", imagePod, err)
		}
		return flow.Waiting(waitImage, "The images of the control plane are being fetched"), nil
	}
	missing := ""
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			missing = c.Image
		}
	}
	if seed.clock.Since(pod.CreationTimestamp.Time) > imagePullLimit {
		return flow.Done(), nil
	}
	if missing != "" || len(pod.Status.ContainerStatuses) < len(pod.Spec.Containers) {
		return flow.Waiting(waitImage, "The images of the control plane are being fetched"), nil
	}
	return flow.Done(), nil
}

// renderImagePod returns a pod that needs the images of the control plane and does nothing. That of etcd is the one of
// the gardenlet itself.
func renderImagePod(s *Values) *corev1.Pod {
	version := s.Shoot.Spec.Kubernetes.Version
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: imagePod, Namespace: s.Namespace, Labels: component.Labels(imagePod)},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
			SecurityContext:               component.ConfinedPod(),
		},
	}
	for _, c := range []struct{ name, image, binary string }{
		{"kube-apiserver", s.Images.KubeAPIServer(version), "kube-apiserver"},
		{"kube-controller-manager", s.Images.KubeControllerManager(version), "kube-controller-manager"},
		{"kube-scheduler", s.Images.KubeScheduler(version), "kube-scheduler"},
	} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: c.name, Image: c.image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command:         []string{"/usr/local/bin/" + c.binary, "--version"},
			SecurityContext: component.ConfinedContainer(),
		})
	}
	return pod
}
