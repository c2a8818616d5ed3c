// Package bootstraptoken creates and reads the tokens with which gardenlets request their first certificate.
//
// A token is one of [Kubernetes' bootstrap tokens], a Secret in kube-system of the garden, with an annotation that
// names its Seed. It can be used once before it expires.
//
// [Kubernetes' bootstrap tokens]: https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
package bootstraptoken

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Group of users with a token. The chart "garden" allows it to request certificates.
	Group = "system:bootstrappers:gardenlets"
	// AnnotationSeed names the Seed that a token is for.
	AnnotationSeed = "hortus.dev/seed"

	// AnnotationRequest names the CertificateSigningRequest that used the token.
	AnnotationRequest = "hortus.dev/certificate-signing-request"

	keyExpiration = "expiration"
	keyID         = "token-id"
	keySecret     = "token-secret"
	// ReadTime is how long a token remains valid after its use, so that the gardenlet can read its certificate.
	ReadTime = 10 * time.Minute

	userPrefix   = "system:bootstrap:"
	secretPrefix = "bootstrap-token-"
)

// Lengths and characters of the two parts of a token.
const (
	idLength, secretLength = 6, 16
	characters             = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// New returns a token for the gardenlet of a Seed, and the Secret with which the garden authenticates it.
func New(seed string, end time.Time) (token string, secret *corev1.Secret) {
	id, key := random(idLength), random(secretLength)
	return id + "." + key, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: secretPrefix + id, Annotations: map[string]string{AnnotationSeed: seed},
		},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			keyID: []byte(id), keySecret: []byte(key),
			"usage-bootstrap-authentication": []byte("true"),
			"auth-extra-groups":              []byte(Group),
			keyExpiration:                    []byte(end.UTC().Format(time.RFC3339)),
			"description":                    fmt.Appendf(nil, "The first certificate of the gardenlet of Seed %q", seed),
		},
	}
}

// Text returns the token of a Secret.
func Text(secret *corev1.Secret) string {
	return string(secret.Data[keyID]) + "." + string(secret.Data[keySecret])
}

// Usable reports whether a token can be used for the first certificate of the gardenlet of a Seed until end.
func Usable(secret *corev1.Secret, seed string, end time.Time) bool {
	return secret.Annotations[AnnotationSeed] == seed && secret.Annotations[AnnotationRequest] == "" && Valid(secret, end)
}

// Valid reports whether a token has not expired by then. One that has been used is valid as long as the gardenlet can
// read its certificate with it.
func Valid(secret *corev1.Secret, then time.Time) bool {
	end, err := time.Parse(time.RFC3339, string(secret.Data[keyExpiration]))
	return err == nil && !end.Before(then)
}

// Claim marks a token as used by a request, or returns the reason why it cannot be used. The Secret is changed only if
// necessary.
func Claim(secret *corev1.Secret, request string, now time.Time) (problem string) {
	switch used := secret.Annotations[AnnotationRequest]; {
	case secret.Annotations[AnnotationSeed] == "":
		return "the token is for no seed: it has no annotation " + AnnotationSeed
	case used != "" && used != request:
		return fmt.Sprintf("the token has been used by request %q", used)
	case used == request:
		return ""
	}
	end := now.Add(ReadTime)
	if own, err := time.Parse(time.RFC3339, string(secret.Data[keyExpiration])); err == nil && own.Before(end) {
		end = own
	}
	secret.Annotations[AnnotationRequest] = request
	secret.Data[keyExpiration] = []byte(end.UTC().Format(time.RFC3339))
	return ""
}

// random returns a text of uniformly distributed characters.
func random(length int) string {
	const limit = 256 - 256%len(characters) // Bytes from here on would make some characters more likely.
	var out strings.Builder
	for next := make([]byte, 1); out.Len() < length; {
		rand.Read(next) // Never fails.
		if int(next[0]) < limit {
			out.WriteByte(characters[int(next[0])%len(characters)])
		}
	}
	return out.String()
}

// SecretOf returns the Secret of the token that a user authenticated with; false if it is not a gardenlet's bootstrap
// token.
func SecretOf(username string, groups []string) (client.ObjectKey, bool) {
	id, isToken := strings.CutPrefix(username, userPrefix)
	if !isToken || !slices.Contains(groups, Group) {
		return client.ObjectKey{}, false
	}
	return client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: secretPrefix + id}, true
}
