package keyrotation

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/kube"
)

const (
	// deploymentName is the API server's Deployment, volumeName its volume with the encryption configuration.
	deploymentName = "hortus-apiserver"
	volumeName     = "encryption"
	// lookPeriod is how often a rollout is checked; it takes about ten seconds.
	lookPeriod = time.Second
	// rolloutTimeout bounds one rollout: pulling an image takes a few minutes at most.
	rolloutTimeout = 15 * time.Minute
	// keyBytes is the length of a secretbox key.
	keyBytes = 32
)

// Rotation rotates the key. It continues an interrupted rotation.
type Rotation struct {
	// Garden must read without a cache.
	Garden client.Client
	Clock  clock.Clock
	// Out gets a line for each step.
	Out io.Writer
	// Namespace of the API server.
	Namespace string
	// BackupDelay is the minimum age of a key before it is used to encrypt.
	BackupDelay time.Duration

	active        bool
	rewrittenWith string
}

// Run returns when the rotation is complete.
func (r *Rotation) Run(ctx context.Context) error {
	for {
		d, secret, now, err := r.read(ctx)
		if err != nil {
			return err
		}
		outdated, err := r.outdated(ctx, d, now.revision)
		if err != nil {
			return err
		}
		s := state{
			config: now.config, rotatedTo: now.rotatedTo, rolledOut: outdated == "", rewrittenWith: r.rewrittenWith,
			active: r.active,
			keyAge: r.Clock.Since(now.keyMade), backupDelay: r.BackupDelay,
		}
		does, err := next(s)
		if err != nil {
			return err
		}
		if does == done {
			fmt.Fprintf(r.Out, "The garden encrypts with %s.\n", now.rotatedTo)
			return nil
		}
		err = r.do(ctx, does, s, now, secret, d)
		if apierrors.IsConflict(err) {
			continue // The next read shows who else has changed the Secret.
		}
		if err != nil {
			return err
		}
		r.active = r.active || does != rollOut
	}
}

// read returns the API server's Deployment and the Secret that its pods mount.
func (r *Rotation) read(ctx context.Context) (*appsv1.Deployment, *corev1.Secret, stored, error) {
	d, secret := &appsv1.Deployment{}, &corev1.Secret{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: deploymentName}, d); err != nil {
		return nil, nil, stored{}, fmt.Errorf("read Deployment %s/%s: %w", r.Namespace, deploymentName, err)
	}
	name := ""
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == volumeName && v.Secret != nil {
			name = v.Secret.SecretName
		}
	}
	if name == "" {
		return nil, nil, stored{}, fmt.Errorf("Deployment %s/%s has no volume %s: its chart is older than this command",
			r.Namespace, deploymentName, volumeName)
	}
	if err := r.Garden.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, secret); err != nil {
		return nil, nil, stored{}, fmt.Errorf("read Secret %s/%s: %w", r.Namespace, name, err)
	}
	now, err := readSecret(secret)
	return d, secret, now, err
}

func (r *Rotation) do(
	ctx context.Context, does step, s state, now stored, secret *corev1.Secret, d *appsv1.Deployment,
) error {
	target, err := targetOf(s.config)
	if err != nil {
		return err
	}
	newest := target.Writer.Key
	switch does {
	case rollOut:
		return r.rollOut(ctx, d, now.revision)
	case wait:
		left := s.backupDelay - s.keyAge
		fmt.Fprintf(r.Out, "Waiting %s until %s is in the backups of the cluster.\n", left.Round(time.Second), newest)
		return r.sleep(ctx, left)
	case begin:
		key := make([]byte, keyBytes)
		if _, err := rand.Read(key); err != nil {
			return fmt.Errorf("make key: %w", err)
		}
		config, err := configAfter(begin, s.config, base64.StdEncoding.EncodeToString(key))
		if err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "Adding %s, which is not used to encrypt yet.\n", keyName(number(newest)+1))
		return r.save(ctx, secret, now, config, annotationKeyMade, r.Clock.Now().UTC().Format(time.RFC3339Nano))
	case rewrite:
		if err := r.rewrite(ctx, target); err != nil {
			return err
		}
		r.rewrittenWith = newest
		return nil
	case finish:
		return r.annotate(ctx, secret, annotationRotatedTo, newest)
	}
	config, err := configAfter(does, s.config, "")
	if err != nil {
		return err
	}
	if does == write {
		fmt.Fprintf(r.Out, "Encrypting with %s.\n", newest)
	} else {
		fmt.Fprintf(r.Out, "Dropping keys that are older than %s.\n", target.Keep[0].Key)
	}
	return r.save(ctx, secret, now, config, "", "")
}

// save replaces the configuration. It fails with a conflict if the Secret has changed since it was read.
func (r *Rotation) save(
	ctx context.Context, secret *corev1.Secret, now stored, config encryption.Config, annotation, value string,
) error {
	now.put(secret, config)
	return r.annotate(ctx, secret, annotation, value)
}

// annotate updates the Secret, and sets an annotation unless its name is "".
func (r *Rotation) annotate(ctx context.Context, secret *corev1.Secret, annotation, value string) error {
	if annotation != "" {
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}
		secret.Annotations[annotation] = value
	}
	if err := r.Garden.Update(ctx, secret); err != nil {
		return fmt.Errorf("update Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// rollOut starts pods for a revision and waits until there are no others.
func (r *Rotation) rollOut(ctx context.Context, d *appsv1.Deployment, revision int) error {
	if revisionOf(d.Spec.Template.Annotations) != strconv.Itoa(revision) {
		fmt.Fprintf(r.Out, "Rolling out revision %d of the encryption configuration.\n", revision)
		patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{%q:"%d"}}}}}`, AnnotationRevision,
			revision)
		if err := r.Garden.Patch(ctx, d, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("patch Deployment %s/%s: %w", d.Namespace, d.Name, err)
		}
	}
	until, said := r.Clock.Now().Add(rolloutTimeout), ""
	for {
		if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return fmt.Errorf("read Deployment %s/%s: %w", d.Namespace, d.Name, err)
		}
		outdated, err := r.outdated(ctx, d, revision)
		if err != nil || outdated == "" {
			return err
		}
		if !r.Clock.Now().Before(until) {
			return fmt.Errorf("%s; not rolled out within %s: the same command continues", outdated, rolloutTimeout)
		}
		if outdated != said {
			fmt.Fprintln(r.Out, outdated)
			said = outdated
		}
		if err := r.sleep(ctx, lookPeriod); err != nil {
			return err
		}
	}
}

// outdated returns a message about servers that may still use an earlier revision, "" if there are none. Pods in
// deletion count until they are gone: they may still write.
func (r *Rotation) outdated(ctx context.Context, d *appsv1.Deployment, revision int) (string, error) {
	want := strconv.Itoa(revision)
	if revisionOf(d.Spec.Template.Annotations) != want {
		return fmt.Sprintf("Deployment %s has not been rolled out with revision %s", d.Name, want), nil
	}
	if !kube.DeploymentReady(d) {
		return kube.DeploymentProgress(d), nil
	}
	pods := &corev1.PodList{}
	labels := client.MatchingLabels(d.Spec.Selector.MatchLabels)
	if err := r.Garden.List(ctx, pods, client.InNamespace(d.Namespace), labels); err != nil {
		return "", fmt.Errorf("list pods of Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if !ended && revisionOf(p.Annotations) != want {
			return fmt.Sprintf("Pod %s with the previous encryption configuration is still running", p.Name), nil
		}
	}
	return "", nil
}

func revisionOf(annotations map[string]string) string {
	if revision := annotations[AnnotationRevision]; revision != "" {
		return revision
	}
	return "0"
}

func (r *Rotation) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.Clock.After(d):
		return nil
	}
}
