package explain

import (
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// actions are what to do about an error code. Codes of errors that pass by themselves have none.
var actions = map[corev1beta1.ErrorCode]string{
	corev1beta1.ErrorInfraUnauthenticated: "Correct the credentials of the cloud in the Secret of the Shoot's binding: " +
		"the cloud does not know them.",
	corev1beta1.ErrorInfraUnauthorized: "Give the credentials of the cloud in the Secret of the Shoot's binding more rights: " +
		"the cloud refuses them.",
	corev1beta1.ErrorInfraQuotaExceeded: "Have the cloud raise the quota, or let the Shoot use less.",
	corev1beta1.ErrorInfraDependencies: "Remove what depends on the objects in the cloud that the message names: it was not " +
		"created by Hortus.",
	corev1beta1.ErrorInfraResourcesDepleted: "Choose another machine type or zone, or wait: the cloud has no more of what the " +
		"message names.",
	corev1beta1.ErrorCleanupClusterResources: "Remove the objects in the Shoot that the message names, or what keeps them, " +
		"such as finalizers and webhooks.",
	corev1beta1.ErrorConfigurationProblem:          "Correct the Shoot as the message says.",
	corev1beta1.ErrorRetryableConfigurationProblem: "Correct the Shoot as the message says. It is tried again by itself.",
	corev1beta1.ErrorProblematicWebhook:            "Correct or delete the webhook that the message names.",
}

// advice is what to do about error codes.
func advice(codes []corev1beta1.ErrorCode) string {
	var all []string
	for _, code := range codes {
		if action := actions[code]; action != "" {
			all = append(all, action)
		}
	}
	return strings.Join(all, " ")
}

// since is a time, or nil if it is not known.
func since(t metav1.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// age is how long ago a time is, to the precision that matters to people.
func age(t, now time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return duration.HumanDuration(max(0, now.Sub(t)))
}

// sentence is a message of anybody, in one line, with a full stop and without control characters: parts of it can come
// from other tenants' objects.
func sentence(message string) string {
	text := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, message)), " ")
	if text == "" {
		return "no message."
	}
	if strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}
