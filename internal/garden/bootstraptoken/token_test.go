package bootstraptoken

import (
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestNew(t *testing.T) {
	// The form is that of Kubernetes' documentation.
	form := regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
	seen := map[string]bool{}
	for range 100 {
		token, secret := New("north", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		if !form.MatchString(token) || seen[token] {
			t.Fatalf("token %q", token)
		}
		seen[token] = true
		data := map[string]string{}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
		if data["token-id"]+"."+data["token-secret"] != token || secret.Name != "bootstrap-token-"+data["token-id"] {
			t.Errorf("token %q is in Secret %v", token, secret)
		}
		if data["expiration"] != "2026-01-02T03:04:05Z" || secret.Annotations[AnnotationSeed] != "north" {
			t.Errorf("Secret %v", secret)
		}
	}
}

func TestUsable(t *testing.T) {
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	token, secret := New("north", end)
	if Text(secret) != token || !Usable(secret, "north", end) {
		t.Errorf("a new token %q is %q, usable: %t", token, Text(secret), Usable(secret, "north", end))
	}
	if Usable(secret, "south", end) {
		t.Error("it is for another Seed, too")
	}
	if after := end.Add(time.Second); Usable(secret, "north", after) || Valid(secret, after) {
		t.Error("it can be used after its end")
	}
	if problem := Claim(secret, "mine", end.Add(-time.Hour)); problem != "" {
		t.Fatal(problem)
	}
	if Usable(secret, "north", end.Add(-time.Hour)) || !Valid(secret, end.Add(-time.Hour)) {
		t.Error("a used token can be used again, or the certificate cannot be read with it")
	}
}

func TestClaim(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		annotations  map[string]string
		expiration   string
		problem, end string
	}{
		"the first use": {
			annotations: map[string]string{AnnotationSeed: "north"}, expiration: "2026-01-02T00:00:00Z",
			end: "2026-01-01T00:10:00Z",
		},
		"the first use, just before the end": {
			annotations: map[string]string{AnnotationSeed: "north"}, expiration: "2026-01-01T00:01:00Z",
			end: "2026-01-01T00:01:00Z",
		},
		"the same use again": {
			annotations: map[string]string{AnnotationSeed: "north", AnnotationRequest: "mine"},
			expiration:  "2026-01-01T00:09:00Z", end: "2026-01-01T00:09:00Z",
		},
		"another use": {
			annotations: map[string]string{AnnotationSeed: "north", AnnotationRequest: "first"},
			expiration:  "2026-01-01T00:09:00Z", end: "2026-01-01T00:09:00Z",
			problem: `the token has been used by request "first"`,
		},
		"for no seed": {
			expiration: "2026-01-02T00:00:00Z", end: "2026-01-02T00:00:00Z",
			problem: "the token is for no seed: it has no annotation hortus.dev/seed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations},
				Data:       map[string][]byte{"expiration": []byte(tc.expiration)},
			}
			if got := Claim(secret, "mine", now); got != tc.problem {
				t.Errorf("Claim() = %q, want %q", got, tc.problem)
			}
			if got := string(secret.Data["expiration"]); got != tc.end {
				t.Errorf("the token ends at %s, want %s", got, tc.end)
			}
			if tc.problem == "" && secret.Annotations[AnnotationRequest] != "mine" {
				t.Errorf("the token is not marked as used: %v", secret.Annotations)
			}
		})
	}
}

func TestSecretOf(t *testing.T) {
	for name, tc := range map[string]struct {
		user   string
		groups []string
		want   string
	}{
		"a token for gardenlets": {
			user: "system:bootstrap:abcdef", groups: []string{"system:bootstrappers", Group}, want: "bootstrap-token-abcdef",
		},
		"a token for another purpose": {user: "system:bootstrap:abcdef", groups: []string{"system:bootstrappers"}},
		"somebody else":               {user: "jane", groups: []string{Group}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := SecretOf(tc.user, tc.groups)
			want := client.ObjectKey{}
			if tc.want != "" {
				want = client.ObjectKey{Namespace: "kube-system", Name: tc.want}
			}
			if got != want || ok != (tc.want != "") {
				t.Errorf("SecretOf() = %v, %t, want %v", got, ok, want)
			}
		})
	}
}
