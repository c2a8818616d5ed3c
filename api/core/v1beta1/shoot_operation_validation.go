package v1beta1

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// shootOperations are the values of the operation annotations that take no pool names.
var shootOperations = []string{
	OperationMaintain, OperationRetry, OperationForceInPlaceUpdate, OperationReconcile,
	OperationRotateCredentialsStart, OperationRotateCredentialsStartWithoutWorkersRollout,
	OperationRotateCredentialsComplete,
	OperationRotateCAStart, OperationRotateCAStartWithoutWorkersRollout, OperationRotateCAComplete,
	OperationRotateServiceAccountKeyStart, OperationRotateServiceAccountKeyStartWithoutWorkersRollout,
	OperationRotateServiceAccountKeyComplete,
	OperationRotateETCDEncryptionKey, OperationRotateETCDEncryptionKeyStart, OperationRotateETCDEncryptionKeyComplete,
	OperationRotateObservabilityCredentials, OperationRotateSSHKeypair,
}

// Operations by what they do. The first of an etcd encryption key's rotation completes it, too.
var (
	credentialsStarts = []string{OperationRotateCredentialsStart, OperationRotateCredentialsStartWithoutWorkersRollout}
	caStarts          = []string{OperationRotateCAStart, OperationRotateCAStartWithoutWorkersRollout}
	keyStarts         = []string{
		OperationRotateServiceAccountKeyStart, OperationRotateServiceAccountKeyStartWithoutWorkersRollout,
	}
	etcdStarts = []string{OperationRotateETCDEncryptionKey, OperationRotateETCDEncryptionKeyStart}

	// aloneOperations are done before all others could be.
	aloneOperations = []string{OperationMaintain, OperationRetry, OperationForceInPlaceUpdate}
)

// incompatibleOperations contradict each other in one list.
var incompatibleOperations = [][2]string{
	{OperationRotateCredentialsStart, OperationRotateCredentialsStartWithoutWorkersRollout},
	{OperationRotateCredentialsStart, OperationRotateCAStartWithoutWorkersRollout},
	{OperationRotateCredentialsStart, OperationRotateServiceAccountKeyStartWithoutWorkersRollout},
	{OperationRotateCredentialsStartWithoutWorkersRollout, OperationRotateCAStart},
	{OperationRotateCredentialsStartWithoutWorkersRollout, OperationRotateServiceAccountKeyStart},
	{OperationRotateCAStart, OperationRotateCAStartWithoutWorkersRollout},
	{OperationRotateServiceAccountKeyStart, OperationRotateServiceAccountKeyStartWithoutWorkersRollout},
	{OperationRotateETCDEncryptionKey, OperationRotateETCDEncryptionKeyStart},
}

// coveredOperations are started or completed by the broader operation already.
var coveredOperations = map[string][]string{
	OperationRotateCredentialsStart:                      slices.Concat(caStarts, keyStarts, etcdStarts),
	OperationRotateCredentialsStartWithoutWorkersRollout: slices.Concat(caStarts, keyStarts, etcdStarts),
	OperationRotateCredentialsComplete: {
		OperationRotateCAComplete, OperationRotateServiceAccountKeyComplete, OperationRotateETCDEncryptionKeyComplete,
	},
}

// forbiddenWhileHibernated reports whether an operation needs running nodes or a running API server.
func forbiddenWhileHibernated(operation string) bool {
	for _, prefix := range []string{
		"rotate-credentials-", OperationRotateETCDEncryptionKey, "rotate-serviceaccount-key-",
		OperationRotateRolloutWorkersPrefix, OperationRolloutWorkersPrefix,
	} {
		if strings.HasPrefix(operation, prefix) {
			return true
		}
	}
	return false
}

// annotations checks what the annotations of a Shoot request. old is nil on creation.
func (v ShootValidation) annotations(shoot, old *Shoot) field.ErrorList {
	errs := validateOperations(shoot, old)
	errs = append(errs, validateForceDeletion(shoot, old)...)
	errs = append(errs, validateRestore(shoot, old)...)
	const delay = AnnotationShootCloudConfigExecutionMaxDelaySeconds
	if text, given := newAnnotation(shoot, old, delay); given {
		if _, err := maxNodeAgentDelay(text); err != nil {
			errs = append(errs, field.Invalid(annotationsPath.Key(delay), text, err.Error()))
		}
	}
	errs = append(errs, validateCleanup(shoot, old)...)
	if _, requested := shoot.Annotations[AnnotationLiveMigrate]; requested && !v.Features.LiveControlPlaneMigration {
		errs = append(errs, field.Forbidden(annotationsPath.Key(AnnotationLiveMigrate),
			"live migration is switched off in this landscape"))
	}
	return errs
}

// newAnnotation returns an annotation of a Shoot, and whether it is new or changed. old is nil on creation.
func newAnnotation(shoot, old *Shoot, key string) (value string, given bool) {
	value, given = shoot.Annotations[key]
	if old != nil {
		before, had := old.Annotations[key]
		given = given && (!had || value != before)
	}
	return value, given
}

// validateOperations checks both lists of operations. What depends on the state of the cluster is checked for an
// operation when it is requested, because that state changes once the operation has begun.
func validateOperations(shoot, old *Shoot) field.ErrorList {
	now := Operations(shoot.Annotations, AnnotationOperation)
	later := Operations(shoot.Annotations, AnnotationMaintenanceOperation)
	nowPath, laterPath := annotationsPath.Key(AnnotationOperation), annotationsPath.Key(AnnotationMaintenanceOperation)

	errs := validateOperationList(now, shoot, nowPath)
	errs = append(errs, validateOperationList(later, shoot, laterPath)...)
	for _, operation := range later {
		if slices.Contains(now, operation) {
			errs = append(errs, field.Forbidden(laterPath,
				operation+" is already requested by the annotation "+AnnotationOperation))
		}
		errs = append(errs, coveredBy(operation, now, laterPath)...)
	}
	for _, operation := range now {
		errs = append(errs, coveredBy(operation, later, nowPath)...)
	}
	added := func(operations []string, key string) []string {
		if old == nil {
			return operations
		}
		before := Operations(old.Annotations, key)
		return slices.DeleteFunc(slices.Clone(operations), func(o string) bool { return slices.Contains(before, o) })
	}
	for _, operation := range added(now, AnnotationOperation) {
		errs = append(errs, operationContext(operation, shoot, nowPath)...)
	}
	if shoot.DeletionTimestamp == nil {
		for _, operation := range added(later, AnnotationMaintenanceOperation) {
			errs = append(errs, operationContext(operation, shoot, laterPath)...)
		}
	}
	return errs
}

// coveredBy reports an operation that a broader one of the other annotation includes.
func coveredBy(operation string, others []string, path *field.Path) field.ErrorList {
	for _, other := range others {
		if slices.Contains(coveredOperations[other], operation) {
			return field.ErrorList{field.Forbidden(path, operation+" is part of "+other+", which the other annotation requests")}
		}
	}
	return nil
}

func validateOperationList(operations []string, shoot *Shoot, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, operation := range operations {
		switch {
		case strings.HasPrefix(operation, OperationRotateRolloutWorkersPrefix):
			pools := strings.TrimPrefix(operation, OperationRotateRolloutWorkersPrefix)
			errs = append(errs, validateOperationPools(pools, false, shoot, path)...)
		case strings.HasPrefix(operation, OperationRolloutWorkersPrefix):
			pools := strings.TrimPrefix(operation, OperationRolloutWorkersPrefix)
			errs = append(errs, validateOperationPools(pools, true, shoot, path)...)
		case !slices.Contains(shootOperations, operation):
			errs = append(errs, field.NotSupported(path, operation, slices.Concat(shootOperations,
				[]string{OperationRotateRolloutWorkersPrefix + "<pool>,...", OperationRolloutWorkersPrefix + "<pool>,..."})))
		case len(operations) > 1 && slices.Contains(aloneOperations, operation):
			errs = append(errs, field.Forbidden(path, operation+" cannot be combined with other operations"))
		}
	}
	for _, pair := range incompatibleOperations {
		if slices.Contains(operations, pair[0]) && slices.Contains(operations, pair[1]) {
			errs = append(errs, field.Forbidden(path, pair[0]+" and "+pair[1]+" contradict each other"))
		}
	}
	return errs
}

// validateOperationPools checks the pools of an operation that rolls them. If rolling is true "*" means all that can be
// rolled, and each that is named must be one of them.
func validateOperationPools(list string, rolling bool, shoot *Shoot, path *field.Path) field.ErrorList {
	if list == "" {
		return field.ErrorList{field.Required(path, "must name the worker pools, separated by commas")}
	}
	names := strings.Split(list, ",")
	if rolling && slices.Contains(names, "*") {
		if len(names) > 1 {
			return field.ErrorList{field.Forbidden(path, `"*" means all pools and cannot be combined with names`)}
		}
		if !slices.ContainsFunc(shoot.Spec.Provider.Workers, func(w Worker) bool { return !w.UpdatesInPlace() }) {
			return field.ErrorList{field.Invalid(path, list, "no worker pool of the Shoot can be rolled")}
		}
		return nil
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for _, name := range names {
		pool := workerNamed(shoot, name)
		switch {
		case pool == nil:
			errs = append(errs, field.Invalid(path, name, "no such worker pool (available: "+poolNames(shoot)+")"))
		case rolling && pool.UpdatesInPlace():
			errs = append(errs, field.Invalid(path, name, "is updated in place and cannot be rolled"))
		}
		if seen[name] {
			errs = append(errs, field.Duplicate(path, name))
		}
		seen[name] = true
	}
	return errs
}

// poolNames lists the worker pools of a Shoot, for messages.
func poolNames(shoot *Shoot) string {
	if len(shoot.Spec.Provider.Workers) == 0 {
		return "none"
	}
	names := make([]string, 0, len(shoot.Spec.Provider.Workers))
	for i := range shoot.Spec.Provider.Workers {
		names = append(names, shoot.Spec.Provider.Workers[i].Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// operationContext checks whether the state of the cluster permits an operation.
func operationContext(operation string, shoot *Shoot, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(reason string) { errs = append(errs, field.Forbidden(path, operation+": "+reason)) }

	if forbiddenWhileHibernated(operation) && hibernatedOrWakingUp(shoot) {
		forbid("the cluster is hibernated or waking up")
	}
	ca, key, etcd := caPhase(shoot), serviceAccountKeyPhase(shoot), etcdKeyPhase(shoot)
	idle := func(what string, phase CredentialsRotationPhase) {
		if rotating(phase) {
			forbid("the rotation of the " + what + " is in phase " + string(phase))
		}
	}
	prepared := func(what string, phase CredentialsRotationPhase) {
		if phase != RotationPrepared {
			forbid("the rotation of the " + what + " must be in phase Prepared, is " + strconv.Quote(string(phase)))
		}
	}
	const caName, keyName, etcdName = "certificate authorities", "service account key", "etcd encryption key"
	before134 := minorOf(shoot.Spec.Kubernetes.Version) < 34
	all := slices.Contains(credentialsStarts, operation)
	starts := false
	if all || slices.Contains(caStarts, operation) {
		starts = true
		idle(caName, ca)
	}
	if all || slices.Contains(keyStarts, operation) {
		starts = true
		idle(keyName, key)
	}
	if starts && len(pendingInPlaceUpdates(shoot).AutoInPlaceUpdate)+
		len(pendingInPlaceUpdates(shoot).ManualInPlaceUpdate) > 0 {
		forbid("worker pools are undergoing an update in place")
	}
	if all || slices.Contains(etcdStarts, operation) {
		starts = true
		idle(etcdName, etcd)
		if encryptionRollsOut(shoot) {
			forbid("a change of spec.kubernetes.kubeAPIServer.encryptionConfig is being rolled out")
		}
	}
	if starts && !mayStartRotation(shoot.Status.LastOperation) {
		forbid("the cluster must have been created or restored successfully, or be reconciled")
	}
	switch {
	case operation == OperationRotateCredentialsComplete:
		prepared(caName, ca)
		prepared(keyName, key)
		if before134 {
			prepared(etcdName, etcd)
		}
	case operation == OperationRotateCAComplete:
		prepared(caName, ca)
	case operation == OperationRotateServiceAccountKeyComplete:
		prepared(keyName, key)
	case operation == OperationRotateETCDEncryptionKeyComplete:
		prepared(etcdName, etcd)
	case strings.HasPrefix(operation, OperationRotateRolloutWorkersPrefix):
		if ca != RotationWaitingForWorkersRollout && key != RotationWaitingForWorkersRollout {
			forbid("no rotation waits for worker pools to be rolled")
		}
	}
	if !before134 && (operation == OperationRotateETCDEncryptionKeyStart ||
		operation == OperationRotateETCDEncryptionKeyComplete) {
		forbid("not supported from Kubernetes 1.34 on, where " + OperationRotateETCDEncryptionKey + " does both steps")
	}
	return errs
}

func mayStartRotation(operation *LastOperation) bool {
	switch {
	case operation == nil:
		return false
	case operation.Type == LastOperationTypeReconcile:
		return true
	default:
		return operation.State == LastOperationStateSucceeded &&
			(operation.Type == LastOperationTypeCreate || operation.Type == LastOperationTypeRestore)
	}
}

// forceDeletionCodes are errors that only a user or an operator can resolve, so that the cleanup cannot succeed by
// itself.
var forceDeletionCodes = []ErrorCode{
	ErrorInfraUnauthenticated, ErrorInfraUnauthorized, ErrorInfraDependencies, ErrorCleanupClusterResources,
	ErrorConfigurationProblem,
}

func validateForceDeletion(shoot, old *Shoot) field.ErrorList {
	path := annotationsPath.Key(AnnotationConfirmationForceDeletion)
	requested, before := isTrue(shoot.Annotations, AnnotationConfirmationForceDeletion), false
	if old != nil {
		before = isTrue(old.Annotations, AnnotationConfirmationForceDeletion)
	}
	switch {
	case before && !requested:
		return field.ErrorList{field.Forbidden(path, "cannot be taken back")}
	case before || !requested:
		return nil
	case shoot.DeletionTimestamp == nil:
		return field.ErrorList{field.Forbidden(path, "the Shoot must be deleted first")}
	}
	for _, lastError := range shoot.Status.LastErrors {
		for _, code := range lastError.Codes {
			if slices.Contains(forceDeletionCodes, code) {
				return nil
			}
		}
	}
	var codes []string
	for _, code := range forceDeletionCodes {
		codes = append(codes, string(code))
	}
	return field.ErrorList{field.Forbidden(path, "the deletion must have failed with one of "+strings.Join(codes, ", "))}
}

// DefaultMaxNodeAgentDelay is how long the nodes of a Shoot spread a change of their configuration by default.
const DefaultMaxNodeAgentDelay = 5 * time.Minute

// MaxNodeAgentDelay is how long the nodes of the Shoot spread a change of their configuration; what can't be read
// counts as not set.
func (s *Shoot) MaxNodeAgentDelay() time.Duration {
	if text, set := s.Annotations[AnnotationShootCloudConfigExecutionMaxDelaySeconds]; set {
		if delay, err := maxNodeAgentDelay(text); err == nil {
			return delay
		}
	}
	return DefaultMaxNodeAgentDelay
}

// maxNodeAgentDelay reads the annotation.
func maxNodeAgentDelay(text string) (time.Duration, error) {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 0 || seconds > 1800 {
		return 0, errors.New("must be a number of seconds from 0 to 1800")
	}
	return time.Duration(seconds) * time.Second, nil
}

func isTrue(annotations map[string]string, key string) bool {
	yes, err := strconv.ParseBool(annotations[key])
	return err == nil && yes
}
