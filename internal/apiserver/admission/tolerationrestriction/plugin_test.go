package tolerationrestriction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func tolerations(ids ...string) []corev1beta1.Toleration {
	var list []corev1beta1.Toleration
	for _, id := range ids {
		key, value, ok := strings.Cut(id, "=")
		toleration := corev1beta1.Toleration{Key: key}
		if ok {
			toleration.Value = ptr.To(value)
		}
		list = append(list, toleration)
	}
	return list
}

func TestRefused(t *testing.T) {
	messages := map[string]error{}
	for name, tc := range map[string]struct{ now, before, global, project, refused []string }{
		"a key on the whitelist of the project":   {now: []string{"a"}, project: []string{"a"}},
		"a key on the whitelist of the landscape": {now: []string{"a"}, global: []string{"a"}},
		"a bare key allows every value":           {now: []string{"a=1"}, project: []string{"a"}},
		"an exact value":                          {now: []string{"a=1"}, project: []string{"a=1"}},
		"another value": {
			now: []string{"a=2"}, project: []string{"a=1"}, refused: []string{"spec.tolerations[0]"},
		},
		"a bare key where only a value is allowed": {
			now: []string{"a"}, project: []string{"a=1"}, refused: []string{"spec.tolerations[0]"},
		},
		"what was there stays without a whitelist": {
			now: []string{"a", "b"}, before: []string{"a"}, refused: []string{"spec.tolerations[1]"},
		},
		"no whitelist at all": {
			now: []string{"a", "b"}, refused: []string{"spec.tolerations[0]", "spec.tolerations[1]"},
		},
		"a Shoot without tolerations needs no Project": {},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			errs := refused(tolerations(tc.now...), tolerations(tc.before...), tolerations(tc.global...),
				tolerations(tc.project...))
			messages[name] = errs.ToAggregate()
			for _, err := range errs {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.refused, got); diff != "" {
				t.Errorf("refused() mismatch (-want +got):\n%s", diff)
			}
		})
	}
	golden.Messages(t, messages)
}

func TestConfiguration(t *testing.T) {
	header := "apiVersion: shoottolerationrestriction.admission.gardener.cloud/v1alpha1\nkind: Configuration\n"
	for name, tc := range map[string]struct {
		text string
		ok   bool
	}{
		"complete":                      {header + "defaults: [{key: a}]\nwhitelist: [{key: a}]\n", true},
		"an allowed value":              {header + "defaults: [{key: a, value: b}]\nwhitelist: [{key: a}]\n", true},
		"a default that is not allowed": {header + "defaults: [{key: a}]\nwhitelist: [{key: a, value: b}]\n", false},
		"a default without a whitelist": {header + "defaults: [{key: a}]\n", false},
		"a toleration without a key":    {header + "whitelist: [{value: a}]\n", false},
		"the same toleration twice":     {header + "whitelist: [{key: a}, {key: a}]\n", false},
		"unknown field":                 {header + "whitelists: []\n", false},
		"other kind":                    {"kind: Configuration\n", false},
	} {
		if _, err := New(strings.NewReader(tc.text)); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
