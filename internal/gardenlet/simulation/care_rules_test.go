package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	isTrue        = corev1beta1.ConditionTrue
	isFalse       = corev1beta1.ConditionFalse
	isUnknown     = corev1beta1.ConditionUnknown
	isProgressing = corev1beta1.ConditionProgressing

	reasonNoStatus   = "BackupStatusUnavailable"
	reasonBehind     = "BackupsBehind"
	reasonCheckError = "ConditionCheckError"
	// patience is the threshold for backups whose status is not known.
	patience = 5 * time.Minute
)

// found is what a check must find.
type found struct {
	status corev1beta1.ConditionStatus
	reason string
}

// truth is what a check must find for conditions and constraints. Constraints that must not be shown are left out.
type truth map[corev1beta1.ConditionType]found

// record adds what is true now to the history.
func (r *careRun) record() {
	s := r.shoot()
	if !r.garden.Exists(s) {
		return
	}
	now := r.truth(s)
	if n := len(r.history); n == 0 || !maps.Equal(r.history[n-1], now) {
		r.history = append(r.history, now)
	}
}

func (r *careRun) truth(s *corev1beta1.Shoot) truth {
	seed := r.seeds[ptr.Deref(s.Status.SeedName, "a")]
	t := truth{}
	if r.causes[expiringCA] && seed.exists {
		t[corev1beta1.ShootCACertificateValiditiesAcceptable] = found{isFalse, "ExpiringCACertificates"}
	}
	if hibernationOf(s) && s.Status.IsHibernated {
		for _, kind := range careTypes {
			t[kind] = found{isTrue, "ConditionNotChecked"}
		}
		for _, kind := range judgedConstraints {
			t[kind] = found{isTrue, "ConstraintNotChecked"}
		}
		return t
	}
	t[corev1beta1.ShootAPIServerAvailable] = r.apiServer(seed)
	t[corev1beta1.ShootControlPlaneHealthy] = r.controlPlane(seed)
	webhooks := r.webhooks()
	if !r.answers(seed) {
		t[corev1beta1.ShootEveryNodeReady] = found{isUnknown, "ConditionNotChecked"}
		t[corev1beta1.ShootSystemComponentsHealthy] = found{isUnknown, "ConditionNotChecked"}
		webhooks = found{isFalse, "ConstraintNotChecked"}
	} else {
		t[corev1beta1.ShootEveryNodeReady] = r.first(found{isTrue, "EveryNodeReady"},
			when{nodeNotReady, found{isFalse, "NodeUnhealthy"}}, when{nodeGone, found{isFalse, "MissingNodes"}})
		t[corev1beta1.ShootSystemComponentsHealthy] = r.first(found{isTrue, "SystemComponentsRunning"},
			when{resourceFails, found{isFalse, "PodsUnhealthy"}}, when{noTunnel, found{isFalse, "TunnelConnectionBroken"}})
	}
	for _, kind := range judgedConstraints {
		t[kind] = webhooks
	}
	return t
}

// when is a finding that follows from a cause.
type when struct {
	cause cause
	found found
}

// first is the finding of the first cause that is present.
func (r *careRun) first(otherwise found, choices ...when) found {
	for _, c := range choices {
		if r.causes[c.cause] {
			return c.found
		}
	}
	return otherwise
}

func (r *careRun) apiServer(seed *careSeed) found {
	if !seed.exists || seed.scaled {
		return found{isFalse, "APIServerDown"}
	}
	return r.first(found{isTrue, "HealthzRequestSucceeded"}, when{hanging, found{isFalse, "HealthzRequestFailed"}},
		when{unreachable, found{isFalse, "HealthzRequestFailed"}}, when{erroring, found{isFalse, "HealthzRequestError"}})
}

func (r *careRun) controlPlane(seed *careSeed) found {
	switch {
	case !seed.exists:
		return found{isFalse, "DeploymentMissing"}
	case seed.scaled:
		return found{isFalse, "DeploymentUnhealthy"}
	}
	behind := found{isFalse, reasonBehind}
	choices := []when{
		{fewReplicas, found{isFalse, "DeploymentUnhealthy"}}, {noScheduler, found{isFalse, "DeploymentMissing"}},
		{etcdDown, found{isFalse, "EtcdUnhealthy"}}, {backupsBehind, behind},
		{extensionSilent, found{isUnknown, "NetworkOutdatedHealthCheckReport"}},
		{extensionFails, found{isFalse, "NetworkUnhealthyReport"}}, {extensionRolls, found{isProgressing, "AgentsRollOut"}},
		{noBackupStatus, found{isFalse, reasonNoStatus}},
	}
	if r.causes[noBackupStatus] { // Nobody knows whether the backups are behind.
		choices = slices.DeleteFunc(choices, func(w when) bool { return w.cause == backupsBehind })
	}
	return r.first(found{isTrue, "ControlPlaneRunning"}, choices...)
}

// webhooks of users are problematic here if they may take 30 s.
func (r *careRun) webhooks() found {
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := r.user.List(context.Background(), list); err != nil {
		r.T.Error(err)
	}
	repaired := false
	for _, c := range list.Items {
		repaired = repaired || c.Annotations[corev1beta1.AnnotationWarning] != ""
		if c.Labels["app"] == "" && *c.Webhooks[0].TimeoutSeconds == 30 {
			return found{isFalse, "ProblematicWebhooks"}
		}
	}
	if repaired {
		return found{isFalse, "RemediatedWebhooks"}
	}
	return found{isTrue, "NoProblematicWebhooks"}
}

// judge fails if the Shoot has changed in a way that is not allowed to the writer, which is "" for others than care.
func (r *careRun) judge(writer string) error {
	r.record()
	s, before := r.shoot(), r.last
	if !r.garden.Exists(s) {
		r.last = nil
		return nil
	}
	if before != nil && before.ResourceVersion == s.ResourceVersion {
		return nil
	}
	r.last = s
	var err error
	if before != nil && !equality.Semantic.DeepEqual(before.Status, s.Status) {
		if writer != "" {
			err = r.judgeWrite(before, s, writer)
		} else if r.check != nil {
			r.check.disturbed = true
		}
	}
	for _, c := range s.Status.Conditions {
		if old := conditionOf(before, c.Type); old == nil || old.Status != c.Status {
			r.since[c.Type] = r.Clock().Now()
		}
	}
	return err
}

// conditionOf returns a condition or constraint of a Shoot, which may be nil; nil if there is none.
func conditionOf(s *corev1beta1.Shoot, kind corev1beta1.ConditionType) *corev1beta1.Condition {
	if s == nil {
		return nil
	}
	if c := corev1beta1.FindCondition(s.Status.Conditions, kind); c != nil {
		return c
	}
	return corev1beta1.FindCondition(s.Status.Constraints, kind)
}

// ofOthers is the part of a status that care must not change.
func ofOthers(status corev1beta1.ShootStatus) corev1beta1.ShootStatus {
	out := *status.DeepCopy()
	isCares := func(c corev1beta1.Condition) bool { return byCare(c.Type) }
	out.Conditions = slices.DeleteFunc(out.Conditions, isCares)
	out.Constraints = slices.DeleteFunc(out.Constraints, isCares)
	return out
}

// withoutTimes are conditions without their times.
func withoutTimes(lists ...[]corev1beta1.Condition) []corev1beta1.Condition {
	out := slices.Concat(lists...)
	for i := range out {
		out[i].LastTransitionTime, out[i].LastUpdateTime = metav1.Time{}, metav1.Time{}
	}
	return out
}

// judgeWrite judges a write of care to the status.
func (r *careRun) judgeWrite(before, s *corev1beta1.Shoot, writer string) error {
	errs := []error{
		is(responsibleFor(before, writer), "seed %s has written to a Shoot of seed %s", writer,
			ptr.Deref(before.Status.SeedName, "")),
		is(equality.Semantic.DeepEqual(ofOthers(before.Status), ofOthers(s.Status)),
			"care has changed what others write: %+v, before %+v", ofOthers(s.Status), ofOthers(before.Status)),
		is(!equality.Semantic.DeepEqual(withoutTimes(before.Status.Conditions, before.Status.Constraints),
			withoutTimes(s.Status.Conditions, s.Status.Constraints)), "care has written nothing but times"),
	}
	for _, kind := range slices.Concat(careTypes, judgedConstraints) {
		if c, old := conditionOf(s, kind), conditionOf(before, kind); c == nil {
			errs = append(errs, fmt.Errorf("%s is missing", kind))
		} else {
			errs = append(errs, r.agrees(c, old), r.judgeTimes(c, old))
		}
	}
	for _, kind := range careTypes {
		if c := conditionOf(s, kind); c != nil && c.Status == isFalse {
			errs = append(errs, r.judgeFailure(s, c, conditionOf(before, kind)))
		}
	}
	r.check.events = expectedEvents(before, s)
	return errors.Join(errs...)
}

// agrees fails if a condition or constraint differs from all that was true during the check. old is the one before.
func (r *careRun) agrees(c, old *corev1beta1.Condition) error {
	if r.check.readFailed {
		return is(c.Status == isUnknown && c.Reason == reasonCheckError, "%+v, although the check has failed", c)
	}
	for _, t := range r.history[r.check.from:] {
		f := t[c.Type].after(old)
		early := f.status == isFalse && c.Status == isProgressing && slices.Contains(careTypes, c.Type)
		if f.reason == c.Reason && (f.status == c.Status || early) {
			return nil
		}
	}
	return fmt.Errorf("%+v, which was never true during the check, but %+v", c, r.history[r.check.from:])
}

// after is what must be found after the condition old: while nobody knows the status of backups, they stay behind.
func (f found) after(old *corev1beta1.Condition) found {
	if f.reason == reasonNoStatus && old != nil && old.Reason == reasonBehind && old.Status != isTrue {
		f.reason = reasonBehind
	}
	return f
}

// judgeTimes fails unless the times of a condition show when its status, and when anything of it has changed.
func (r *careRun) judgeTimes(c, old *corev1beta1.Condition) error {
	age := r.Clock().Since(c.LastTransitionTime.Time)
	isNow := age > -time.Second && age < 2*time.Second
	if old == nil || old.Status != c.Status {
		return is(isNow, "%+v has changed now; before it was %+v", c, old)
	}
	same := old.Reason == c.Reason && old.Message == c.Message && slices.Equal(old.Codes, c.Codes)
	return is(c.LastTransitionTime.Equal(&old.LastTransitionTime) &&
		(!same || c.LastUpdateTime.Equal(&old.LastUpdateTime)), "the times of %+v are wrong; before it was %+v", c, old)
}

// pardoned reports whether trouble is expected: then nothing is False.
func pardoned(s *corev1beta1.Shoot) bool {
	op := s.Status.LastOperation
	return op == nil || (op.Type == created || op.Type == deleted) && op.State != succeeded ||
		op.State == processing && len(s.Status.LastErrors) == 0
}

func (r *careRun) threshold(c *corev1beta1.Condition) time.Duration {
	limit := r.settings.Thresholds[c.Type]
	if c.Reason == reasonNoStatus {
		limit = max(limit, patience)
	}
	return limit
}

// justSucceeded reports whether an operation has succeeded less than a threshold ago.
func justSucceeded(s *corev1beta1.Shoot, now time.Time, threshold time.Duration) bool {
	op := s.Status.LastOperation
	return op != nil && op.State == succeeded && now.Sub(op.LastUpdateTime.Time) < threshold
}

// judgeFailure fails if a condition is False too early.
func (r *careRun) judgeFailure(s *corev1beta1.Shoot, c, old *corev1beta1.Condition) error {
	now, limit, early := r.Clock().Now(), r.threshold(c), false
	switch {
	case pardoned(s):
		early = true
	case old == nil || old.Status == isUnknown:
		early = c.Reason == reasonNoStatus
	case limit == 0:
	case justSucceeded(s, now, limit), old.Status == isTrue:
		early = true
	case old.Status == isProgressing:
		early = now.Sub(r.since[c.Type]) < limit-time.Second // Times in conditions have seconds.
	default:
		early = old.Reason != c.Reason
	}
	return is(!early, "%+v is False too early; before it was %+v since %s; the operation is %+v", c, old, r.since[c.Type],
		s.Status.LastOperation)
}

// expectedEvents are the events for a change of conditions.
func expectedEvents(before, s *corev1beta1.Shoot) (out []string) {
	op := s.Status.LastOperation
	if op == nil || op.Type == deleted || op.Type == created && op.State != succeeded {
		return nil
	}
	for _, c := range s.Status.Conditions {
		old := conditionOf(before, c.Type)
		wasFalse := old != nil && old.Status == isFalse
		switch {
		case c.Status == isFalse && (!wasFalse || old.Reason != c.Reason):
			out = append(out, fmt.Sprintf("Warning %s %s", c.Reason, c.Type))
		case c.Status == isTrue && wasFalse:
			out = append(out, fmt.Sprintf("Normal %s %s", c.Reason, c.Type))
		}
	}
	return out
}

// judgeCheck judges the result of a check that has ended; complete is one that begins again after the period.
func (r *careRun) judgeCheck(check *careCheck, complete bool) error {
	s := r.shoot()
	if !r.garden.Exists(s) {
		return nil
	}
	errs := []error{is(slices.Equal(check.events, check.recorded), "events %q were recorded, want %q", check.recorded,
		check.events)}
	failed := check.readFailed && !check.gardenFailed
	if !responsibleFor(s, check.seed) || check.disturbed || !complete && !failed {
		return errors.Join(errs...)
	}
	for _, kind := range slices.Concat(careTypes, judgedConstraints) {
		c := conditionOf(s, kind)
		if c == nil {
			errs = append(errs, fmt.Errorf("%s is missing after a check", kind))
			continue
		}
		errs = append(errs, r.agrees(c, c))
		if c.Status == isProgressing && slices.Contains(careTypes, kind) {
			errs = append(errs, r.judgeDelay(s, c))
		}
	}
	if complete {
		errs = append(errs, r.judgeCA(s))
	}
	return errors.Join(errs...)
}

// judgeDelay fails if a condition that is Progressing should be False.
func (r *careRun) judgeDelay(s *corev1beta1.Shoot, c *corev1beta1.Condition) error {
	for _, t := range r.history[r.check.from:] {
		if t[c.Type] == (found{isProgressing, c.Reason}) {
			return nil
		}
	}
	now, limit := r.check.began, r.threshold(c)
	late := !pardoned(s) && !justSucceeded(s, now, limit) &&
		(limit == 0 || now.Sub(r.since[c.Type]) > limit+2*time.Second)
	return is(!late, "%+v is not False since %s, with a threshold of %s", c, r.since[c.Type], limit)
}

func (r *careRun) judgeCA(s *corev1beta1.Shoot) error {
	const kind = corev1beta1.ShootCACertificateValiditiesAcceptable
	shown := conditionOf(s, kind) != nil
	return is(slices.ContainsFunc(r.history[r.check.from:], func(t truth) bool {
		_, wanted := t[kind]
		return wanted == shown
	}), "%s is shown: %t", kind, shown)
}

// settled fails unless the status says what is true now, after all thresholds.
func (r *careRun) settled() error {
	if r.violation != nil {
		return r.violation
	}
	s := r.shoot()
	if !r.garden.Exists(s) {
		return errors.New("the Shoot is gone")
	}
	op, now := s.Status.LastOperation, r.truth(s)
	there := ptr.Deref(s.Status.SeedName, "") == ptr.Deref(s.Spec.SeedName, "")
	if op == nil || !r.causes[operationFails] && (op.State != succeeded || !there) {
		return fmt.Errorf("the operation is %+v", op)
	}
	for _, kind := range slices.Concat(careTypes, judgedConstraints) {
		c := conditionOf(s, kind)
		want := now[kind].after(c)
		if r.causes[seedHangs] {
			want = found{isUnknown, reasonCheckError}
		}
		if c == nil || (found{c.Status, c.Reason}) != want ||
			r.causes[seedHangs] && !strings.Contains(c.Message, context.DeadlineExceeded.Error()) {
			return fmt.Errorf("%s is %+v, want %s with %q", kind, c, want, r.present())
		}
		// What is False without a threshold, after it was Unknown, may have to wait for one at the next check.
		if c.Status == isFalse && justSucceeded(s, r.Clock().Now(), r.threshold(c)) {
			return fmt.Errorf("an operation has just succeeded")
		}
	}
	_, wanted := now[corev1beta1.ShootCACertificateValiditiesAcceptable]
	shown := conditionOf(s, corev1beta1.ShootCACertificateValiditiesAcceptable) != nil
	return is(shown == wanted || r.causes[seedHangs], "the constraint of CAs is shown: %t", shown)
}

// by makes a change of somebody else than care.
func (r *careRun) by(act change) change {
	return func(ctx context.Context, c client.Client) error {
		writing := r.writing
		r.writing = ""
		defer func() { r.writing = writing }()
		return errors.Join(act(ctx, c), r.judge(""))
	}
}

// rests fails if anything is written to the Shoot while nothing happens.
func (r *careRun) rests() {
	r.T.Helper()
	before := r.shoot()
	r.garden.Exists(before)
	r.Idle(3 * r.period)
	r.Eventually(10, "nothing is written without a reason", func() error {
		after := r.shoot()
		r.garden.Exists(after)
		return is(before.ResourceVersion == after.ResourceVersion, "the status was %+v, and is %+v", before.Status,
			after.Status)
	})
}
