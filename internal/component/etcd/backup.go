package etcd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"hortus.dev/hortus/internal/component"
)

const pathBackupStore = "/var/etcd/backup-store"

// flagStore is set if the etcd has backups.
const flagStore = "--store-credentials="

// Backup configures the backups. Without it there are none, and the loss of the volume is a loss of data.
type Backup struct {
	// StoreSecret has the credentials of the object store.
	StoreSecret string
	// Prefix of all objects of this etcd.
	Prefix string
	// Holder and Epoch prove the ownership of the control plane.
	Holder string
	Epoch  int64
	// FenceTime is how long etcd runs without a confirmation; 0 means the default of the process.
	FenceTime time.Duration
	// Standby lets etcd start only after an activation of the process, for an epoch at least as high.
	Standby bool
	// Restore restores etcd to an earlier point, once; nil if that was not requested.
	Restore *Restore
}

// Restore is a request to restore etcd to an earlier point.
type Restore struct {
	// ID of the request: each is carried out once.
	ID string
	// Revision, or the Time before which the newest backup was written.
	Revision int64
	Time     time.Time
}

// Flags for the owner of an etcd. A running process may have been activated for a newer owner, so a change of these
// flags alone does not replace its pod.
const (
	flagEpoch     = "--epoch="
	flagFenceTime = "--fence-time="
	flagHolder    = "--holder="
	flagStandby   = "--standby="
)

// Owner returns the epoch that the pods of an etcd are started for, 0 without backups, and whether they stand by.
func Owner(set *appsv1.StatefulSet) (epoch int64, standby bool) {
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, arg := range c.Command {
			if value, ok := strings.CutPrefix(arg, flagEpoch); ok {
				epoch, _ = strconv.ParseInt(value, 10, 64)
			}
			standby = standby || arg == flagStandby+"true"
		}
	}
	return epoch, standby
}

// StandsBy reports whether a pod of etcd was started to stand by. Its process may have been activated since.
func StandsBy(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers,
		func(c corev1.Container) bool { return slices.Contains(c.Command, flagStandby+"true") })
}

// HasBackups reports whether an etcd has backups.
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
	flags := []string{
		flagStore + pathBackupStore, "--prefix=" + b.Prefix, fmt.Sprintf("%s%d", flagEpoch, b.Epoch), flagHolder + b.Holder,
		"--temp-dir=" + pathData, "--schedule-file=" + pathConfig + "/" + keyFullSchedule,
	}
	if b.FenceTime > 0 {
		flags = append(flags, flagFenceTime+b.FenceTime.String())
	}
	if b.Standby {
		flags = append(flags, flagStandby+"true")
	}
	if r := b.Restore; r != nil {
		flags = append(flags, "--restore-id="+r.ID)
		if r.Revision > 0 {
			flags = append(flags, fmt.Sprintf("--until-revision=%d", r.Revision))
		} else {
			flags = append(flags, "--until-time="+r.Time.UTC().Format(time.RFC3339))
		}
	}
	return flags
}

func (b *Backup) mounts() []component.Mount {
	if b == nil {
		return nil
	}
	return []component.Mount{component.SecretMount("backup-store", b.StoreSecret, pathBackupStore)}
}
