// Package errorcode classifies errors of providers, so that a controller knows whether to retry and a user knows
// whether to act.
//
// An error either carries codes, attached by the code that knows the cause, or [Of] classifies it by its text:
// providers wrap each other's errors so often that only the text survives.
package errorcode

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// coded is an error with codes.
type coded struct {
	error
	codes []corev1beta1.ErrorCode
}

func (e *coded) Unwrap() error                  { return e.error }
func (e *coded) Codes() []corev1beta1.ErrorCode { return e.codes }

// With attaches codes to err. No codes means that err has none, whatever its text. A nil error stays nil.
func With(err error, codes ...corev1beta1.ErrorCode) error {
	if err == nil {
		return nil
	}
	return &coded{error: err, codes: codes}
}

// Of returns the codes of err, sorted: the codes attached anywhere in its tree, or else those that its text is known
// for.
func Of(err error) []corev1beta1.ErrorCode {
	if err == nil {
		return nil
	}
	if codes, known := carried(err); known {
		return sorted(codes)
	}
	return OfText(err.Error())
}

// carried returns the codes in the tree of err, and whether codes were attached, even an empty list.
func carried(err error) (out []corev1beta1.ErrorCode, known bool) {
	for err != nil {
		if c, ok := err.(interface {
			Codes() []corev1beta1.ErrorCode
		}); ok {
			out, known = append(out, c.Codes()...), true
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				codes, given := carried(e)
				out, known = append(out, codes...), known || given
			}
			return out, known
		}
		err = errors.Unwrap(err)
	}
	return out, known
}

// OfText returns the codes that a text is known for, sorted; none for an unknown text.
func OfText(text string) []corev1beta1.ErrorCode {
	var out []corev1beta1.ErrorCode
	for _, class := range classes {
		subject := text
		if class.without != nil {
			subject = class.without.ReplaceAllString(subject, "")
		}
		if class.pattern.MatchString(subject) {
			out = append(out, class.code)
		}
	}
	return sorted(out)
}

func sorted(codes []corev1beta1.ErrorCode) []corev1beta1.ErrorCode {
	if len(codes) == 0 {
		return nil
	}
	out := slices.Clone(codes)
	slices.Sort(out)
	return slices.Compact(out)
}

// class is one code and what texts have it.
type class struct {
	code    corev1beta1.ErrorCode
	pattern *regexp.Regexp
	without *regexp.Regexp // Removed from the text first: terms that contain a word of another class.
}

// words makes a pattern of alternatives, case-insensitive.
func words(alternatives ...string) *regexp.Regexp {
	return regexp.MustCompile("(?i)(" + strings.Join(alternatives, "|") + ")")
}

// The phrases are those of the public clouds and of Kubernetes; the set follows the contract's error classes.
var classes = []class{
	{code: corev1beta1.ErrorInfraUnauthenticated, pattern: words(
		"InvalidAuthenticationTokenTenant", "authentication failed", "AuthFailure", "invalid character", "invalid_client",
		"query returned no results", "InvalidAccessKeyId", "cannot fetch token", "InvalidSecretAccessKey",
		"InvalidSubscriptionId",
	)},
	{code: corev1beta1.ErrorInfraUnauthorized, pattern: words(
		"Unauthorized", "InvalidClientTokenId", "SignatureDoesNotMatch", "AuthorizationFailed", "invalid_grant",
		"authorization profile was not found", "no active subscriptions", "UnauthorizedOperation", "not authorized",
		"AccessDenied", "OperationNotAllowed", "Error 403", "SERVICE_ACCOUNT_ACCESS_DENIED",
	)},
	{code: corev1beta1.ErrorInfraQuotaExceeded, without: words("RequestLimitExceeded"), pattern: words(
		"LimitExceeded", "Quotas", "Quota.*exceeded", "exceeded quota", "quota has been met", "QUOTA_EXCEEDED",
		"maximum number of ports exceeded", "VolumeSizeExceedsAvailableQuota", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
	)},
	{code: corev1beta1.ErrorInfraRateLimitsExceeded,
		pattern: words("RequestLimitExceeded", "Throttling", "too many requests")},
	{code: corev1beta1.ErrorInfraDependencies, pattern: words(
		"PendingVerification", "access not configured", "DependencyViolation", "OptInRequired", "DeleteConflict", "Conflict",
		"inactive billing state", "ReadOnlyDisabledSubscription", "is already being used", "InUse.*CannotBeDeleted",
		"VnetInUse",
		"timeout while waiting for state to become", "InvalidCidrBlock", "already busy for",
		"InsufficientFreeAddressesInSubnet",
		"InternalServerError", "a resource with the ID", "VnetAddressSpaceCannotChangeDueToPeerings", "InternalBillingError",
		"not enough hosts available",
	)},
	{code: corev1beta1.ErrorRetryableInfraDependencies, pattern: words("RetryableError")},
	{code: corev1beta1.ErrorInfraResourcesDepleted, pattern: words(
		"not available in the current hardware cluster", "InsufficientInstanceCapacity", "SkuNotAvailable",
		"ZonalAllocationFailed", "out of stock", `Zone\.NotOnSale`,
	)},
	{code: corev1beta1.ErrorConfigurationProblem, pattern: words(
		"InvalidParameter", "notFound", "NetcfgInvalidSubnet", "InvalidSubnet", "invalid value",
		"KubeletHasInsufficientMemory", "KubeletHasDiskPressure", "KubeletHasInsufficientPID", "violates constraint",
		"no attached internet gateway", "unrecognized feature gate", "runtime-config invalid key", "strict decoder error",
		"not allowed to configure an unsupported", "error during apply of object .* is invalid:",
		"OverconstrainedZonalAllocationRequest", "duplicate zones", "overlapping zones",
		"not supported in your requested availability zone",
	)},
	{code: corev1beta1.ErrorRetryableConfigurationProblem, pattern: words(
		"is misconfigured and requires zero voluntary evictions", `SDK\.CanNotResolveEndpoint`,
		"requested configuration is currently not supported",
	)},
}
