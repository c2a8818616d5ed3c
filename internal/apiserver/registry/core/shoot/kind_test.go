package shoot

import (
	"strings"
	"testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestMessage(t *testing.T) {
	const cause = `task "infrastructure" failed: Infrastructure a: Create of Infrastructure failed: cloud ListNetworks: ` +
		`AuthFailure: authentication failed: access key "dev" is unknown`
	for name, tc := range map[string]struct {
		state       corev1beta1.LastOperationState
		description string
		errors      []string
		want        string
	}{
		"no operation": {want: "<pending>"},
		"a step waits": {
			state: corev1beta1.LastOperationStateProcessing, description: "etcd is not ready\nmore", want: "etcd is not ready",
		},
		"a long description": {
			state: corev1beta1.LastOperationStateProcessing, description: strings.Repeat("é", 121),
			want: strings.Repeat("é", 119) + "…",
		},
		"an error from before, while steps run again": {
			state: corev1beta1.LastOperationStateProcessing, description: "etcd is not ready", errors: []string{cause},
			want: "etcd is not ready",
		},
		"an operation that is retried": {
			state:       corev1beta1.LastOperationStateError,
			description: "infrastructure failed. Operation will be retried.", errors: []string{cause, "x"}, want: cause,
		},
		"an operation that is not retried": {
			state: corev1beta1.LastOperationStateFailed, description: "infrastructure failed.", errors: []string{cause},
			want: cause,
		},
		"a failure without an error": {
			state: corev1beta1.LastOperationStateFailed, description: "The seed is gone.", want: "The seed is gone.",
		},
		"an error of several lines": {
			state: corev1beta1.LastOperationStateError, errors: []string{"a:\n\tb\nc"}, want: "a: b c",
		},
		"a long error": {
			state: corev1beta1.LastOperationStateError, errors: []string{strings.Repeat("é", 241)},
			want: strings.Repeat("é", 239) + "…",
		},
		"an operation that has succeeded": {
			state: corev1beta1.LastOperationStateSucceeded, description: "It is done.", errors: []string{cause},
			want: "It is done.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.ShootStatus{}
			if tc.state != "" {
				s.LastOperation = &corev1beta1.LastOperation{State: tc.state, Description: tc.description}
			}
			for _, text := range tc.errors {
				s.LastErrors = append(s.LastErrors, corev1beta1.LastError{Description: text})
			}
			if got := message(s); got != tc.want {
				t.Errorf("message() = %q, want %q", got, tc.want)
			}
		})
	}
}
