// Package shootbackups lists the backups of Shoots for their owners, with the credentials that the garden has for the
// buckets. It needs neither the Seed nor its gardenlet. The names of the objects in a bucket contain everything it
// needs, so it reads no content.
//
// Neither responses nor errors contain credentials. Users get only the reason of an error; the server logs the rest.
package shootbackups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "hortus.dev/hortus/api/backup/v1alpha1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/store"
	"hortus.dev/hortus/internal/restorable"
)

const (
	// timeout bounds a request; a listing of a day's deltas takes well below a second.
	timeout = 20 * time.Second
	// maxBackups bounds a response to about 1 MiB. A Shoot that changes all the time has 1440 deltas a day.
	maxBackups = 5000
	// maxListings bounds the concurrent listings of all users.
	maxListings = 8
	// etcdName follows the name of the BackupEntry in the names of all objects.
	etcdName = "etcd-main"
	// keyBucketName and keyPath are keys of the credentials; a path would expose files of the API server's machine.
	keyBucketName, keyPath = "bucketName", "path"
)

// Lister lists the backups of Shoots. It is safe for concurrent use.
type Lister struct {
	// Own reads kinds of Hortus; Secrets reads Secrets of the garden.
	Own     client.Reader
	Secrets func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Clock   clock.WithTickerAndDelayedExecution

	slots chan struct{}
}

// New returns a Lister.
func New(own client.Reader, secrets func(ctx context.Context, namespace, name string) (*corev1.Secret, error)) *Lister {
	return &Lister{Own: own, Secrets: secrets, Clock: clock.RealClock{}, slots: make(chan struct{}, maxListings)}
}

// List lists the backups of a Shoot. Its errors are API statuses.
func (l *Lister) List(ctx context.Context, shoot *corev1beta1.Shoot) (*backupv1alpha1.ShootBackups, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return nil, apierrors.NewTooManyRequests("too many concurrent requests for backups; try again", 1)
	}
	entry, bucket, err := l.place(ctx, shoot)
	if err != nil {
		return nil, err
	}
	data, err := l.credentials(ctx, bucket)
	if err != nil {
		return nil, err
	}
	found, err := list(ctx, data, entry.Name+"/"+etcdName, l.Clock)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to list backups", "Shoot", klog.KObj(shoot), "BackupBucket",
			klog.KObj(bucket))
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf(
			"list backups of Shoot %q: the object store of BackupBucket %q answers %s; see the log of the API server",
			shoot.Name, bucket.Name, reasonOf(err)))
	}
	from, err := restorable.Of(entry)
	if err != nil {
		return nil, err
	}
	answer := convert(found, from)
	answer.Name, answer.Namespace = shoot.Name, shoot.Namespace
	return answer, nil
}

// reasonOf returns the reason of an error that users get.
func reasonOf(err error) store.Reason {
	var failed *store.Error
	if errors.As(err, &failed) {
		return failed.Reason
	}
	return store.Failed
}

// place returns the Shoot's BackupEntry and BackupBucket.
func (l *Lister) place(
	ctx context.Context, shoot *corev1beta1.Shoot,
) (*corev1beta1.BackupEntry, *corev1beta1.BackupBucket, error) {
	entry, bucket := &corev1beta1.BackupEntry{}, &corev1beta1.BackupBucket{}
	name := restorable.EntryName(shoot)
	err := l.Own.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: name}, entry)
	if apierrors.IsNotFound(err) || shoot.Status.TechnicalID == "" {
		return nil, nil, apierrors.NewServiceUnavailable(fmt.Sprintf(
			"Shoot %q has no backups: it has no BackupEntry, because its control plane has not been created yet or its Seed has no backups", shoot.Name))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read BackupEntry %q: %w", name, err)
	}
	if err := l.Own.Get(ctx, client.ObjectKey{Name: entry.Spec.BucketName}, bucket); err != nil {
		return nil, nil, fmt.Errorf("read BackupBucket %q: %w", entry.Spec.BucketName, err)
	}
	return entry, bucket, nil
}

// credentials returns the credentials that the extension generated for the bucket, or else those in the bucket's spec.
func (l *Lister) credentials(ctx context.Context, bucket *corev1beta1.BackupBucket) (map[string][]byte, error) {
	var namespace, name string
	switch generated, given := bucket.Status.GeneratedSecretRef, bucket.Spec.CredentialsRef; {
	case generated != nil:
		namespace, name = generated.Namespace, generated.Name
	case given != nil && given.Kind == "Secret":
		namespace, name = given.Namespace, given.Name
	default:
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("BackupBucket %q has no credentials in a Secret",
			bucket.Name))
	}
	secret, err := l.Secrets(ctx, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("read the credentials of BackupBucket %q: %w", bucket.Name, err)
	}
	data := map[string][]byte{keyBucketName: []byte(bucket.Name)}
	for key, value := range secret.Data {
		if key == keyPath {
			return nil,
				apierrors.NewServiceUnavailable(fmt.Sprintf("BackupBucket %q is a folder, which cannot be listed from here",
					bucket.Name))
		}
		if key != keyBucketName {
			data[key] = value
		}
	}
	return data, nil
}

// list reads the names of the objects below a prefix. The store reads credentials from files, which exist only during
// the call.
func list(
	ctx context.Context, data map[string][]byte, prefix string, c clock.WithTickerAndDelayedExecution,
) (_ store.Listing, err error) {
	folder, err := os.MkdirTemp("", "shoot-backups-")
	if err != nil {
		return store.Listing{}, fmt.Errorf("make folder for credentials: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	for key, value := range data {
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(key)), value, 0o600); err != nil {
			return store.Listing{}, fmt.Errorf("write credentials: %w", err)
		}
	}
	s, err := store.Open(folder, prefix, c)
	if err != nil {
		return store.Listing{}, err
	}
	return s.List(ctx)
}

// convert sorts the objects into chains, the newest first. It omits chains that end before the first restorable point,
// and the oldest backups beyond maxBackups.
func convert(found store.Listing, from restorable.Point) *backupv1alpha1.ShootBackups {
	owned, _ := chain.Owned(found.Objects, found.Claims)
	answer := &backupv1alpha1.ShootBackups{Chains: []backupv1alpha1.BackupChain{}}
	if !from.IsZero() {
		answer.RestorableFrom = &backupv1alpha1.RestorePoint{Revision: from.Revision, Time: metav1.NewTime(from.Time)}
	}
	left, listed := maxBackups, map[string]bool{}
	for _, c := range chain.Build(owned) {
		if c.Last() < from.Revision {
			continue
		}
		out := backupv1alpha1.BackupChain{Full: convertObject(c.Full)}
		for _, d := range c.Deltas {
			out.Deltas = append(out.Deltas, convertObject(d))
			if listed[d.Name()] { // A newer full snapshot lists the rest.
				break
			}
			listed[d.Name()] = true
		}
		if left -= 1 + len(out.Deltas); left < 0 {
			answer.Truncated = true
			break
		}
		answer.Chains = append(answer.Chains, out)
	}
	return answer
}

func convertObject(o chain.Object) backupv1alpha1.Backup {
	return backupv1alpha1.Backup{
		Kind: string(o.Kind), Epoch: o.Epoch, FirstRevision: o.First, LastRevision: o.Last,
		Time: metav1.NewMicroTime(o.Created), SizeBytes: o.Size,
	}
}
