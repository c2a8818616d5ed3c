package care

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/etcdbackup"
)

// Reasons of ControlPlaneHealthy that are about backups.
const (
	reasonBackupsSuperseded        = "BackupsSuperseded"
	reasonBackupVerificationFailed = "BackupVerificationFailed"
	reasonBackupsBehind            = "BackupsBehind"
	reasonFullSnapshotMissing      = "FullSnapshotMissing"
	reasonBackupsFailing           = "BackupsFailing"
	reasonBackupStatusUnavailable  = "BackupStatusUnavailable"
)

// lackingReasons are those of a backup that lacks something; with the others the state of the backup is not known.
var lackingReasons = []string{
	reasonBackupsSuperseded, reasonBackupVerificationFailed, reasonBackupsBehind, reasonFullSnapshotMissing,
}

const (
	// maxBehind is five times the default period of deltas: an upload may fail and be repeated a few times.
	maxBehind = 5 * time.Minute
	// firstFullPeriod is the time after the creation of etcd in which the first full snapshot must succeed. It takes
	// seconds.
	firstFullPeriod = 10 * time.Minute
	// backupPatience is how long the process may fail or be unreachable: it restarts with etcd, and retries.
	backupPatience = 5 * time.Minute
	// maxBackupError bounds the part of the process's error that a condition quotes, in bytes.
	maxBackupError = 400
)

// backups judges the backups of etcd. lacking is set if a restore would lose something. unclear is set if the process
// does not know; this is a problem only when it lasts, and any other problem takes precedence.
//
// Checks are ordered from persistent problems to passing ones: a reason that changes counts as a new problem, to which
// its threshold applies again. So a process that does not know neither ends nor renames a problem found earlier.
func backups(o *Observed) (lacking, unclear *Finding) {
	if o.Backups == nil {
		return nil, nil
	}
	if o.Backups.Error == nil {
		if f := lackingBackups(o); f != nil {
			return f, nil
		}
	}
	if unclear = unclearBackups(o.Backups); unclear == nil {
		return nil, nil
	}
	old := corev1beta1.FindCondition(o.Shoot.Status.Conditions, corev1beta1.ShootControlPlaneHealthy)
	if old != nil && old.Status != corev1beta1.ConditionTrue && slices.Contains(lackingReasons, old.Reason) {
		unclear.Reason, unclear.Patience = old.Reason, 0
		return unclear, nil
	}
	return nil, unclear
}

// lackingBackups are the problems that the process reports.
func lackingBackups(o *Observed) *Finding {
	s := &o.Backups.Status
	problem := func(reason, what, todo string) *Finding {
		f := bad(reason, what+lastBackupError(s)+" "+todo)
		return &f
	}
	const checkStore = "Check the object store, and the credentials of the seed's bucket."
	behind := time.Duration(s.SecondsBehind * float64(time.Second))
	switch {
	case s.Phase == etcdbackup.PhaseSuperseded:
		return problem(reasonBackupsSuperseded,
			fmt.Sprintf("Backups of etcd in %s have stopped: another owner has claimed them after epoch %d of %q.",
				backupPlace(s), s.Epoch, s.Holder),
			"Find out which seed owns the control plane, and remove the other one.")
	case s.LastVerification != nil && s.LastVerification.Error != "":
		return problem(reasonBackupVerificationFailed,
			fmt.Sprintf("The backup of etcd in %s could not be restored as a test at %s, at revision %d: %s.",
				backupPlace(s), s.LastVerification.Time.UTC().Format(time.RFC3339), s.LastVerification.Revision,
				printable(s.LastVerification.Error)),
			"A full snapshot is taken after such a failure. Run 'hortus etcd-backup verify'; "+
				"the next scheduled verification updates this condition.")
	case behind > maxBehind:
		return problem(reasonBackupsBehind,
			fmt.Sprintf("Changes in etcd since %s are not in its backup in %s.",
				o.Now.Add(-behind).UTC().Truncate(time.Minute).Format(time.RFC3339), backupPlace(s)), checkStore)
	case fullSnapshotMissing(s) && o.Now.Sub(o.Etcd.CreationTimestamp.Time) > firstFullPeriod:
		return problem(reasonFullSnapshotMissing,
			fmt.Sprintf("etcd, created at %s, has no full snapshot in %s.",
				o.Etcd.CreationTimestamp.UTC().Format(time.RFC3339), backupPlace(s)), checkStore)
	}
	return nil
}

// fullSnapshotMissing reports whether the process has listed the store and found no snapshot. The revision of etcd
// shows that it has listed: it is read afterwards. A member that does not lead lists nothing.
func fullSnapshotMissing(s *etcdbackup.Status) bool {
	return s.LastFull == nil && s.Chains == 0 && s.EtcdRevision > 0 && s.Phase != etcdbackup.PhaseStandby
}

// unclearBackups returns why the state of the backups is not known, nil if it is.
func unclearBackups(b *Backups) *Finding {
	f := Finding{Status: corev1beta1.ConditionFalse, Patience: backupPatience}
	switch s := &b.Status; {
	case b.Error != nil:
		f.Reason = reasonBackupStatusUnavailable
		f.Message = fmt.Sprintf("The status of etcd's backups cannot be read: %s. "+
			"Check the container backup of the pods of etcd-main.", printable(b.Error.Error()))
	case s.Phase == etcdbackup.PhaseFailing, s.Phase == etcdbackup.PhaseStarting:
		f.Reason = reasonBackupsFailing
		f.Message = fmt.Sprintf("No backups of etcd are taken in %s (phase %s).%s "+
			"Check the object store and the container backup of the pods of etcd-main.",
			backupPlace(s), s.Phase, lastBackupError(s))
	default:
		return nil
	}
	return &f
}

// backupPlace names the store and the prefix in it.
func backupPlace(s *etcdbackup.Status) string {
	if s.Location == "" {
		return "its bucket"
	}
	return printable(s.Location) + ", prefix " + s.Prefix
}

// lastBackupError quotes the error of the process, without its time, which changes with every attempt.
func lastBackupError(s *etcdbackup.Status) string {
	if s.LastError == nil {
		return ""
	}
	return fmt.Sprintf(" Last error (%s): %s.", s.LastError.Operation, printable(s.LastError.Message))
}

var (
	// localPort of a connection differs each time.
	localPort = regexp.MustCompile(`[^\s:]*:[0-9]+->`)
	// userInfo and query of URLs may carry credentials: a password, or the signature of a signed request.
	userInfo = regexp.MustCompile(`(://)[^/\s"'@]*@`)
	urlQuery = regexp.MustCompile(`(://[^\s"'?]*)\?[^\s"']*`)
)

// printable is a text of another process as a part of a sentence: one line, bounded, without credentials in URLs.
func printable(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = localPort.ReplaceAllString(text, "")
	text = urlQuery.ReplaceAllString(userInfo.ReplaceAllString(text, "$1"), "$1")
	if len(text) > maxBackupError {
		text = strings.ToValidUTF8(text[:maxBackupError], "") + " [...]"
	}
	return strings.TrimRight(text, ".")
}
