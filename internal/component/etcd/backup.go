package etcd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"hortus.dev/hortus/internal/component"
)

const pathBackupStore = "/var/etcd/backup-store"

// flagStore is there if the etcd has backups.
const flagStore = "--store-credentials="

// Backup says where backups go. Without it there are none, and a lost volume is lost data.
type Backup struct {
	// StoreSecret has the credentials of the object store.
	StoreSecret string
	// Prefix of all objects of this etcd.
	Prefix string
	// Holder and Epoch prove the ownership of the control plane.
	Holder string
	Epoch  int64
	// Restore is the last restore that was requested, nil if there was none. The process carries out each once.
	Restore *Restore
}

// Restore takes etcd back to an earlier point.
type Restore struct {
	ID string
	// Revision or Time; the other one is zero.
	Revision int64
	Time     time.Time
}

func (r *Restore) flags() []string {
	switch {
	case r == nil:
		return nil
	case r.Revision > 0:
		return []string{"--restore-id=" + r.ID, fmt.Sprintf("--until-revision=%d", r.Revision)}
	}
	return []string{"--restore-id=" + r.ID, "--until-time=" + r.Time.UTC().Format(time.RFC3339)}
}

// HasBackups reports whether backups are taken of an etcd.
func HasBackups(set *appsv1.StatefulSet) bool {
	for _, c := range set.Spec.Template.Spec.Containers {
		if slices.ContainsFunc(c.Command, func(arg string) bool { return strings.HasPrefix(arg, flagStore) }) {
			return true
		}
	}
	return false
}

// flags of the process.
func (b *Backup) flags() []string {
	if b == nil {
		return nil
	}
	return append([]string{
		flagStore + pathBackupStore, "--prefix=" + b.Prefix, fmt.Sprintf("--epoch=%d", b.Epoch), "--holder=" + b.Holder,
		"--temp-dir=" + pathData, "--schedule-file=" + pathConfig + "/" + keyFullSchedule,
	}, b.Restore.flags()...)
}

func (b *Backup) mounts() []component.Mount {
	if b == nil {
		return nil
	}
	return []component.Mount{component.SecretMount("backup-store", b.StoreSecret, pathBackupStore)}
}
