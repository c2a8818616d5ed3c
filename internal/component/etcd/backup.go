package etcd

import (
	"fmt"
	"slices"
	"strings"

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
	return []string{
		flagStore + pathBackupStore, "--prefix=" + b.Prefix, fmt.Sprintf("--epoch=%d", b.Epoch), "--holder=" + b.Holder,
		"--temp-dir=" + pathData, "--schedule-file=" + pathConfig + "/" + keyFullSchedule,
	}
}

func (b *Backup) mounts() []component.Mount {
	if b == nil {
		return nil
	}
	return []component.Mount{component.SecretMount("backup-store", b.StoreSecret, pathBackupStore)}
}
