package v1beta1

import (
	"strings"
	"testing"
	"time"
)

// warningsAbout are the warnings about an annotation.
func warningsAbout(shoot, old *Shoot, annotation string) []string {
	var texts []string
	for _, text := range WarningsShoot(shoot, old, time.Time{}) {
		if strings.HasPrefix(text, "metadata.annotations["+annotation+"]") {
			texts = append(texts, text)
		}
	}
	return texts
}

// containEach fails unless each text contains its part.
func containEach(t *testing.T, texts []string, parts ...string) {
	t.Helper()
	if len(texts) != len(parts) {
		t.Fatalf("warnings %q, want %d", texts, len(parts))
	}
	for i, part := range parts {
		if !strings.Contains(texts[i], part) {
			t.Errorf("warning %q does not contain %q", texts[i], part)
		}
	}
}

func annotated(key, value string) *Shoot {
	shoot := &Shoot{}
	if value != "" {
		shoot.Annotations = map[string]string{key: value}
	}
	return shoot
}

func TestTasksWithoutEffect(t *testing.T) {
	const dns = "deployDNSRecordInternal,deployDNSRecordExternal,deployDNSRecordIngress"
	for name, tc := range map[string]struct {
		old, now string
		want     []string
	}{
		"none":          {},
		"all known":     {now: strings.Join(ShootTasks(), ",")},
		"a misspelling": {now: "restartCoreAddon", want: []string{"restartCoreAddon has no effect"}},
		"misspelt, besides a known one": {
			now: "deployInfrastructure, restartCoreAddon", want: []string{"(available: deployDNSRecordExternal, "},
		},
		"a task of the API that nothing carries out": {
			now: "updateGardenerNodeAgentSecretName", want: []string{"updateGardenerNodeAgentSecretName has no effect"},
		},
		"the record of an ingress": {
			now: "deployDNSRecordIngress", want: []string{"deployDNSRecordIngress has no effect"},
		},
		"all DNS records, as admission requests": {now: dns},
		"misspelt earlier":                       {old: "restartCoreAddon", now: "restartCoreAddon,deployInfrastructure"},
	} {
		t.Run(name, func(t *testing.T) {
			containEach(t, warningsAbout(annotated(AnnotationShootTasks, tc.now), annotated(AnnotationShootTasks, tc.old),
				AnnotationShootTasks), tc.want...)
		})
	}
}
