package shoot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// Annotations of the Cluster object for the gardenlet's own use.
const (
	// annotationStarted is when the present operation began, RFC 3339 with fractions.
	annotationStarted = "hortus.dev/operation-started"
	// annotationTasks are the tasks that the present operation carries out, separated by commas. It changes only together
	// with annotationStarted.
	annotationTasks = "hortus.dev/operation-tasks"
	// annotationChecksum is over what extensions may depend on, so that the object is not written for every progress.
	annotationChecksum = "hortus.dev/content-checksum"
)

// fieldOwnerCluster is not that of the steps, which add an annotation of their own.
const fieldOwnerCluster = "gardenlet-cluster"

// beginning is how the present operation began.
type beginning struct {
	At time.Time // Zero if not known.
	// Tasks of the Shoot at that time. The operation carries them out; tasks added later wait for the next operation.
	Tasks []string
}

// desiredCluster embeds everything that extensions need to know.
func desiredCluster(
	name string, shoot *corev1beta1.Shoot, seed *corev1beta1.Seed, profile *corev1beta1.CloudProfile, began beginning,
) (*extensionsv1alpha1.Cluster, error) {
	shootCopy := shoot.DeepCopy()
	shootCopy.APIVersion, shootCopy.Kind = corev1beta1.SchemeGroupVersion.String(), "Shoot"
	seedCopy := seed.DeepCopy()
	seedCopy.APIVersion, seedCopy.Kind = corev1beta1.SchemeGroupVersion.String(), "Seed"
	for _, o := range []client.Object{shootCopy, seedCopy} {
		o.SetManagedFields(nil)
	}
	if mayHeal(&shootCopy.Status) {
		// Extensions ignore Failed Shoots; this one is to be retried, see the package documentation.
		shootCopy.Status.LastOperation.State = corev1beta1.LastOperationStateError
	}
	cluster := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		annotationStarted: began.At.UTC().Format(time.RFC3339Nano),
		annotationTasks:   strings.Join(began.Tasks, ","),
	}}}
	embed := map[*runtime.RawExtension]any{&cluster.Spec.Shoot: shootCopy, &cluster.Spec.Seed: seedCopy}
	if profile != nil {
		profileCopy := profile.DeepCopy()
		profileCopy.APIVersion, profileCopy.Kind = corev1beta1.SchemeGroupVersion.String(), "CloudProfile"
		profileCopy.SetManagedFields(nil)
		embed[&cluster.Spec.CloudProfile] = profileCopy
	}
	for field, object := range embed {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encode %T for Cluster %q: %w", object, name, err)
		}
		field.Raw = raw
	}
	cluster.Annotations[annotationChecksum] = clusterChecksum(shootCopy, seedCopy, cluster.Spec.CloudProfile.Raw, began.At)
	return cluster, nil
}

// clusterChecksum leaves out what changes all the time and means nothing to extensions.
func clusterChecksum(shoot *corev1beta1.Shoot, seed *corev1beta1.Seed, profile []byte, started time.Time) string {
	shoot, seed = shoot.DeepCopy(), seed.DeepCopy()
	shoot.ResourceVersion, seed.ResourceVersion = "", ""
	shoot.Status.Conditions, shoot.Status.Constraints, shoot.Status.LastErrors = nil, nil, nil
	if op := shoot.Status.LastOperation; op != nil {
		op.Progress, op.Description, op.LastUpdateTime = 0, "", metav1.Time{}
	}
	seed.Status = corev1beta1.SeedStatus{}
	h := sha256.New()
	for _, v := range []any{shoot, seed} {
		// Types of the API can always be encoded.
		_ = json.NewEncoder(h).Encode(v)
	}
	h.Write(profile)
	h.Write([]byte(started.UTC().Format(time.RFC3339Nano)))
	return hex.EncodeToString(h.Sum(nil))
}

// writeCluster writes the Cluster object unless it says the same already.
func writeCluster(ctx context.Context, seed client.Client, desired *extensionsv1alpha1.Cluster) error {
	current := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: desired.Name}}
	found, err := kube.Exists(ctx, seed, current)
	if err != nil {
		return err
	}
	if found && current.Annotations[annotationChecksum] == desired.Annotations[annotationChecksum] {
		return nil
	}
	return kube.Apply(ctx, seed, desired, fieldOwnerCluster)
}

// readBeginning reads how the present operation began; zero if the Cluster object does not record it.
func readBeginning(ctx context.Context, seed client.Reader, name string) (beginning, error) {
	current := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kube.Exists(ctx, seed, current); err != nil {
		return beginning{}, err
	}
	started, err := time.Parse(time.RFC3339Nano, current.Annotations[annotationStarted])
	if err != nil {
		return beginning{}, nil // Never written, or written by hand: the operation begins anew.
	}
	return beginning{At: started, Tasks: corev1beta1.Tasks(current.Annotations, annotationTasks)}, nil
}

// unrecorded returns the name of the Cluster object of a Shoot whose first start has not been recorded in its status,
// or "" if there is none. One with a control plane is not the Shoot's own.
func (r *Reconciler) unrecorded(ctx context.Context, shoot *corev1beta1.Shoot) (string, error) {
	project, err := r.project(ctx, shoot.Namespace)
	if err != nil {
		return "", err
	}
	id := technicalID(shoot, project)
	cluster := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: id}}
	if found, err := kube.Exists(ctx, r.Seed, cluster); err != nil || !found {
		return "", err
	}
	of := &corev1beta1.Shoot{}
	if err := json.Unmarshal(cluster.Spec.Shoot.Raw, of); err != nil {
		return "", fmt.Errorf("decode the Shoot of Cluster %q: %w", id, err)
	}
	if of.UID != shoot.UID {
		return "", nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: id}}
	if found, err := kube.Exists(ctx, r.Seed, namespace); err != nil || found {
		return "", err
	}
	return id, nil
}
