package errorcode

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestOfText(t *testing.T) {
	for text, want := range map[string][]corev1beta1.ErrorCode{
		"":                   nil,
		"connection refused": nil,
		"cloud CreateInstance: AuthFailure: unknown access key": {
			corev1beta1.ErrorInfraUnauthenticated,
		},
		"UnauthorizedOperation: no": {
			corev1beta1.ErrorInfraUnauthorized,
		},
		"googleapi: Error 403: forbidden": {
			corev1beta1.ErrorInfraUnauthorized,
		},
		"QuotaExceeded: Quota of instances exceeded: 3 of 3": {
			corev1beta1.ErrorInfraQuotaExceeded,
		},
		"VpcLimitExceeded: The maximum number of VPCs has been reached.": {
			corev1beta1.ErrorInfraQuotaExceeded,
		},
		"RequestLimitExceeded: Request limit exceeded.": {
			corev1beta1.ErrorInfraRateLimitsExceeded,
		},
		"requestlimitexceeded, vpclimitexceeded": {
			corev1beta1.ErrorInfraQuotaExceeded, corev1beta1.ErrorInfraRateLimitsExceeded,
		},
		"DependencyViolation: network n-1 is in use": {
			corev1beta1.ErrorInfraDependencies,
		},
		"RetryableError: try again": {
			corev1beta1.ErrorRetryableInfraDependencies,
		},
		"InsufficientInstanceCapacity: none left": {
			corev1beta1.ErrorInfraResourcesDepleted,
		},
		"InvalidParameterValue: cidr": {
			corev1beta1.ErrorConfigurationProblem,
		},
		"pod disruption budget x is misconfigured and requires zero voluntary evictions, y": {
			corev1beta1.ErrorRetryableConfigurationProblem,
		},
	} {
		t.Run(text, func(t *testing.T) {
			if diff := cmp.Diff(want, OfText(text)); diff != "" {
				t.Errorf("OfText(%q) mismatch (-want +got):\n%s", text, diff)
			}
		})
	}
}

func TestOf(t *testing.T) {
	quota, unauthorized := corev1beta1.ErrorInfraQuotaExceeded, corev1beta1.ErrorInfraUnauthorized
	for name, tc := range map[string]struct {
		err  error
		want []corev1beta1.ErrorCode
	}{
		"no error has no codes": {},
		"codes survive wrapping": {
			err: fmt.Errorf("create network: %w", With(errors.New("x"), quota)), want: []corev1beta1.ErrorCode{quota},
		},
		"given codes precede the text": {
			err: With(errors.New("AuthFailure"), quota), want: []corev1beta1.ErrorCode{quota},
		},
		"given empty codes precede the text": {err: fmt.Errorf("create machine: %w", With(errors.New("AuthFailure")))},
		"codes of joined errors are sorted": {
			err:  errors.Join(With(errors.New("x"), unauthorized), With(errors.New("y"), quota)),
			want: []corev1beta1.ErrorCode{quota, unauthorized},
		},
		"otherwise the text decides": {err: errors.New("Unauthorized"), want: []corev1beta1.ErrorCode{unauthorized}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(tc.err)); diff != "" {
				t.Errorf("Of() mismatch (-want +got):\n%s", diff)
			}
		})
	}
	if With(nil, quota) != nil {
		t.Error("With(nil) is an error")
	}
}
