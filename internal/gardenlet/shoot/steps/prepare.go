package steps

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// Prepare is the flow by which the destination of a move gets ready while the source still serves: everything that
// neither writes to etcd nor leads clients here.
func Prepare() *flow.Graph[*Scope] {
	return flow.New(
		RequiredExtensions, Namespace, SourceBackupEntry, CloudCredentials, Credentials, References, Infrastructure,
		KubeAPIServerService, GatewayAddress, Route, VPNSeedServer, ImagesPulled,
	)
}

var (
	// SourceBackupEntry gives this seed access to the backups as long as the BackupEntry itself belongs to the source.
	SourceBackupEntry = &flow.Step[*Scope]{
		Name:    "source-backup-entry",
		After:   []*flow.Step[*Scope]{Namespace},
		Ensure:  ensureSourceBackupEntry,
		Recheck: recheckPods,
	}
	// BackupEntryTakenOver waits until the BackupEntry belongs to this seed. Etcd does without until then.
	BackupEntryTakenOver = &flow.Step[*Scope]{
		Name:   "backup-entry-taken-over",
		After:  []*flow.Step[*Scope]{BackupEntry, KubeAPIServerReady},
		SkipIf: either(notRestoring, withoutBackup),
		Ensure: ensureBackupEntryTakenOver,
	}
	// ImagesPulled brings the images of the control plane to a node of the seed, so that nothing has to be fetched between
	// the end of one API server and the start of the next.
	ImagesPulled = &flow.Step[*Scope]{
		Name:    "images-pulled",
		After:   []*flow.Step[*Scope]{Namespace},
		Ensure:  ensureImagesPulled,
		Recheck: recheckPods,
	}
)

func notRestoring(s *Scope) string {
	if !s.Restoring() {
		return "the control plane is not being restored"
	}
	return ""
}

// prefixSource marks the entry that leads another seed to the backups of a Shoot, and what the extension makes for it.
const prefixSource = "source-"

func (s *Scope) sourceBackupEntry() *corev1beta1.BackupEntry {
	return &corev1beta1.BackupEntry{ObjectMeta: metav1.ObjectMeta{
		Name: prefixSource + s.BackupEntryName(), Namespace: s.Shoot.Namespace,
	}}
}

func ensureSourceBackupEntry(ctx context.Context, s *Scope) (flow.Outcome, error) {
	if found, err := s.backupSecretExists(ctx); err != nil || found {
		return flow.Done(), err
	}
	entry, source := s.backupEntry(), s.sourceBackupEntry()
	if found, err := kube.Exists(ctx, s.Garden, entry); err != nil || !found {
		return waitingOr(fmt.Sprintf("BackupEntry %s does not exist", entry.Name), err)
	}
	found, err := kube.Exists(ctx, s.Garden, source)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		desireBackupEntry(source, s)
		source.Spec.BucketName = entry.Spec.BucketName
		if err := s.Garden.Create(ctx, source); err != nil {
			return flow.Outcome{}, fmt.Errorf("write BackupEntry %q: %w", source.Name, err)
		}
	}
	if reason := backupEntryWaits(source, s.SeedObject.Name); reason != "" {
		return flow.Waiting(reason), nil
	}
	from := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: prefixSource + backupSecret, Namespace: s.Namespace}}
	if found, err := kube.Exists(ctx, s.Seed, from); err != nil || !found {
		return waitingOr(fmt.Sprintf("BackupEntry %s has no Secret %s in namespace %s yet", source.Name, from.Name, s.Namespace), err)
	}
	// Etcd mounts the Secret that the extension writes, with the same content, once it has the entry itself.
	return flow.Done(), s.apply(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: backupSecret, Namespace: s.Namespace}, Type: from.Type, Data: from.Data,
	})
}

func ensureBackupEntryTakenOver(ctx context.Context, s *Scope) (flow.Outcome, error) {
	entry := s.backupEntry()
	if found, err := kube.Exists(ctx, s.Garden, entry); err != nil || !found {
		return waitingOr(fmt.Sprintf("BackupEntry %s does not exist", entry.Name), err)
	}
	if reason := backupEntryWaits(entry, s.SeedObject.Name); reason != "" {
		return flow.Waiting(reason), nil
	}
	source := s.sourceBackupEntry()
	found, err := kube.Exists(ctx, s.Garden, source)
	if err != nil || !found {
		return flow.Done(), err
	}
	if source.DeletionTimestamp == nil {
		before := source.DeepCopy()
		metav1.SetMetaDataAnnotation(&source.ObjectMeta, corev1beta1.AnnotationBackupEntryForceDeletion, "true")
		if err := s.Garden.Patch(ctx, source, client.MergeFrom(before)); err != nil {
			return flow.Outcome{}, fmt.Errorf("confirm deletion of BackupEntry %q: %w", source.Name, err)
		}
		if _, err := kube.Delete(ctx, s.Garden, source); err != nil {
			return flow.Outcome{}, err
		}
	}
	return flow.Waiting(fmt.Sprintf("BackupEntry %s is being deleted", source.Name)), nil
}

// imagePod is the name of the pod whose containers run one image each, and end at once.
const imagePod = "images"

// imagePullLimit is after which time the move goes on without the images: it only takes longer then.
const imagePullLimit = 2 * time.Minute

func ensureImagesPulled(ctx context.Context, s *Scope) (flow.Outcome, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: imagePod, Namespace: s.Namespace}}
	found, err := kube.Exists(ctx, s.Seed, pod)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		if err := s.Seed.Create(ctx, s.renderImagePod()); err != nil {
			return flow.Outcome{}, fmt.Errorf("create pod %q: %w", imagePod, err)
		}
		return flow.Waiting("The images of the control plane are being fetched"), nil
	}
	missing := ""
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			missing = c.Image
		}
	}
	if s.Clock.Since(pod.CreationTimestamp.Time) > imagePullLimit {
		return flow.Done(), nil
	}
	if missing != "" || len(pod.Status.ContainerStatuses) < len(pod.Spec.Containers) {
		return flow.Waiting("The images of the control plane are being fetched"), nil
	}
	return flow.Done(), nil
}

// renderImagePod returns a pod that needs the images of the control plane and does nothing.
func (s *Scope) renderImagePod() *corev1.Pod {
	version := s.Shoot.Spec.Kubernetes.Version
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: imagePod, Namespace: s.Namespace, Labels: component.Labels(imagePod)},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
		},
	}
	for _, c := range []struct{ name, image, binary string }{
		{"etcd", s.Images.Etcd, "etcd"},
		{"kube-apiserver", s.Images.KubeAPIServer(version), "kube-apiserver"},
		{"kube-controller-manager", s.Images.KubeControllerManager(version), "kube-controller-manager"},
		{"kube-scheduler", s.Images.KubeScheduler(version), "kube-scheduler"},
	} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: c.name, Image: c.image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{"/usr/local/bin/" + c.binary, "--version"},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		})
	}
	return pod
}
