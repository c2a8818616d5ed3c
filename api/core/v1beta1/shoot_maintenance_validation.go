package v1beta1

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of maintenance. A window shorter than half an hour may pass before a controller has seen it; one longer than
// six hours would no longer be a choice of a quiet time.
const (
	minMaintenanceWindow = 30 * time.Minute
	maxMaintenanceWindow = 6 * time.Hour
	minRotationPeriod    = 30 * time.Minute
	maxRotationPeriod    = 90 * 24 * time.Hour

	maintenanceTimeLayout = "150405-0700"
)

func validateMaintenance(maintenance *Maintenance, path *field.Path) field.ErrorList {
	if maintenance == nil {
		return nil
	}
	errs := validateTimeWindow(maintenance.TimeWindow, path.Child("timeWindow"))
	if rotation := maintenance.AutoRotation; rotation != nil && rotation.Credentials != nil {
		path := path.Child("autoRotation", "credentials")
		errs = append(errs, validateRotationPeriod(rotation.Credentials.Observability, path.Child("observability"))...)
		errs = append(errs, validateRotationPeriod(rotation.Credentials.SSHKeypair, path.Child("sshKeypair"))...)
		errs = append(errs, validateRotationPeriod(rotation.Credentials.ETCDEncryptionKey,
			path.Child("etcdEncryptionKey"))...)
	}
	return errs
}

func validateTimeWindow(window *MaintenanceTimeWindow, path *field.Path) field.ErrorList {
	if window == nil {
		return nil
	}
	begin, beginErr := time.Parse(maintenanceTimeLayout, window.Begin)
	end, endErr := time.Parse(maintenanceTimeLayout, window.End)
	both := path.Child("begin/end") // One field in the causes: neither value is wrong without the other.
	var errs field.ErrorList
	if beginErr != nil {
		errs = append(errs, field.Invalid(both, window.Begin, "begin must have the form HHMMSS+ZZZZ, as in 220000+0100"))
	}
	if endErr != nil {
		errs = append(errs, field.Invalid(both, window.End, "end must have the form HHMMSS+ZZZZ, as in 230000+0100"))
	}
	if errs != nil {
		return errs
	}
	if length := windowLength(begin, end); length < minMaintenanceWindow || length > maxMaintenanceWindow {
		errs = append(errs, field.Invalid(path, window.Begin+" to "+window.End,
			"lasts "+length.String()+", must last between 30m and 6h"))
	}
	return errs
}

// windowLength is the time from begin to the next end; a window that ends when it begins lasts a whole day.
func windowLength(begin, end time.Time) time.Duration {
	sinceMidnight := func(t time.Time) time.Duration {
		t = t.UTC()
		return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute +
			time.Duration(t.Second())*time.Second
	}
	length := sinceMidnight(end) - sinceMidnight(begin)
	if length <= 0 {
		length += 24 * time.Hour
	}
	return length
}

func validateRotationPeriod(config *MaintenanceRotationConfig, path *field.Path) field.ErrorList {
	if config == nil || config.RotationPeriod == nil {
		return nil
	}
	period := config.RotationPeriod.Duration
	if period == 0 || period >= minRotationPeriod && period <= maxRotationPeriod {
		return nil
	}
	return field.ErrorList{
		field.Invalid(path.Child("rotationPeriod"), period.String(), "must be between 30m and 2160h, or 0 for no rotation"),
	}
}

// hibernatedOrWakingUp is true while parts of the cluster do not run, or not yet again.
func hibernatedOrWakingUp(shoot *Shoot) bool {
	return shoot.HibernationEnabled() || shoot.Status.IsHibernated
}

func validateHibernation(shoot *Shoot) field.ErrorList {
	hibernation, path := shoot.Spec.Hibernation, specPath.Child("hibernation")
	if hibernation == nil {
		return nil
	}
	var errs field.ErrorList
	if shoot.IsSelfHosted() {
		errs = append(errs, field.Forbidden(path,
			"a cluster that hosts its own control plane cannot be hibernated"))
	}
	errs = append(errs, validateHibernationSchedules(hibernation.Schedules, path.Child("schedules"))...)
	if shoot.HibernationEnabled() {
		for _, operation := range Operations(shoot.Annotations, AnnotationMaintenanceOperation) {
			if forbiddenWhileHibernated(operation) {
				errs = append(errs, field.Forbidden(path.Child("enabled"),
					"the next maintenance is to start "+operation+", which needs a running cluster; remove it from the annotation "+
						AnnotationMaintenanceOperation+" first"))
			}
		}
	}
	return errs
}

func validateHibernationSchedules(schedules []HibernationSchedule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	expression := func(value *string, path *field.Path) {
		if value == nil {
			return
		}
		if message := cronProblem(*value); message != "" {
			errs = append(errs, field.Invalid(path, *value, message))
		}
		if seen[*value] {
			errs = append(errs, field.Duplicate(path, *value))
		}
		seen[*value] = true
	}
	for i, schedule := range schedules {
		path := path.Index(i)
		if schedule.Start == nil && schedule.End == nil {
			errs = append(errs, field.Required(path.Child("start/end"), "at least one of the two must be given"))
		}
		expression(schedule.Start, path.Child("start"))
		expression(schedule.End, path.Child("end"))
		if location := schedule.Location; location != nil {
			if _, err := time.LoadLocation(*location); err != nil || *location == "Local" {
				errs = append(errs, field.Invalid(path.Child("location"), *location, "must be a time zone such as Europe/Berlin"))
			}
		}
	}
	return errs
}

// cronProblem returns what is wrong with a cron expression, "" if nothing is. The time zone has a field of its own.
func cronProblem(expression string) string {
	if strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ=") {
		return "the time zone must be set in the field location"
	}
	if _, err := cron.ParseStandard(expression); err != nil {
		return "must be a cron expression of five fields, as in 00 20 * * 1,2,3,4,5, or a descriptor such as @daily"
	}
	return ""
}

// validateHibernationUpdate keeps a cluster running while something is being re-encrypted or signed again.
func validateHibernationUpdate(shoot, old *Shoot) field.ErrorList {
	if !shoot.HibernationEnabled() || old.HibernationEnabled() {
		return nil
	}
	path := specPath.Child("hibernation", "enabled")
	var errs field.ErrorList
	switch phase := etcdKeyPhase(old); phase {
	case RotationPreparing, RotationCompleting:
		errs = append(errs, field.Forbidden(path, "the rotation of the etcd encryption key is in phase "+string(phase)))
	}
	switch phase := serviceAccountKeyPhase(old); phase {
	case RotationPreparing, RotationPreparingWithoutWorkersRollout, RotationCompleting:
		errs = append(errs, field.Forbidden(path, "the rotation of the service account key is in phase "+string(phase)))
	}
	if encryptionRollsOut(old) {
		errs = append(errs, field.Forbidden(path,
			"a change of spec.kubernetes.kubeAPIServer.encryptionConfig is being rolled out"))
	}
	return errs
}

func rotationOf(shoot *Shoot) *ShootCredentialsRotation {
	if shoot.Status.Credentials == nil || shoot.Status.Credentials.Rotation == nil {
		return &ShootCredentialsRotation{}
	}
	return shoot.Status.Credentials.Rotation
}

func caPhase(shoot *Shoot) CredentialsRotationPhase {
	if rotation := rotationOf(shoot).CertificateAuthorities; rotation != nil {
		return rotation.Phase
	}
	return ""
}

func serviceAccountKeyPhase(shoot *Shoot) CredentialsRotationPhase {
	if rotation := rotationOf(shoot).ServiceAccountKey; rotation != nil {
		return rotation.Phase
	}
	return ""
}

func etcdKeyPhase(shoot *Shoot) CredentialsRotationPhase {
	if rotation := rotationOf(shoot).ETCDEncryptionKey; rotation != nil {
		return rotation.Phase
	}
	return ""
}

// rotating is true from the start of a rotation to the end of its completion.
func rotating(phase CredentialsRotationPhase) bool {
	return phase != "" && phase != RotationCompleted
}

// etcdKeyAutoRotation reports whether the etcd encryption key is rotated automatically.
func etcdKeyAutoRotation(maintenance *Maintenance) (period *metav1.Duration, given bool) {
	if maintenance == nil || maintenance.AutoRotation == nil || maintenance.AutoRotation.Credentials == nil ||
		maintenance.AutoRotation.Credentials.ETCDEncryptionKey == nil {
		return nil, false
	}
	period = maintenance.AutoRotation.Credentials.ETCDEncryptionKey.RotationPeriod
	return period, period != nil
}
