package v1beta1

import "testing"

func TestCleanupAnnotations(t *testing.T) {
	const (
		webhooks  = AnnotationShootCleanupWebhooksFinalizeGracePeriodSeconds
		apis      = AnnotationShootCleanupExtendedAPIsFinalizeGracePeriodSeconds
		resources = AnnotationShootCleanupKubernetesResourcesFinalizeGracePeriodSeconds
	)
	for name, tc := range map[string]struct {
		annotation, now string
		old             *Shoot // Nil for a creation.
		refused         bool
		want            []string
	}{
		"none":                       {annotation: webhooks},
		"at once":                    {annotation: webhooks, now: "0"},
		"a duration":                 {annotation: webhooks, now: "5m", refused: true},
		"nothing":                    {annotation: webhooks, now: " ", refused: true},
		"a fraction":                 {annotation: apis, now: "1.5", refused: true},
		"a negative number":          {annotation: resources, now: "-1", refused: true},
		"unreadable, as before":      {annotation: webhooks, now: "5m", old: annotated(webhooks, "5m")},
		"unreadable, and changed":    {annotation: webhooks, now: "6m", old: annotated(webhooks, "5m"), refused: true},
		"unreadable, and new":        {annotation: webhooks, now: "5m", old: &Shoot{}, refused: true},
		"corrected":                  {annotation: webhooks, now: "20", old: annotated(webhooks, "5m")},
		"webhooks, by default":       {annotation: webhooks, now: "300", want: []string{"has no effect"}},
		"webhooks, longer":           {annotation: webhooks, now: "600", want: []string{"the default of 300 seconds"}},
		"webhooks, longer as before": {annotation: webhooks, now: "600", old: annotated(webhooks, "600")},
		"APIs, shorter":              {annotation: apis, now: "3599"},
		"APIs, longer":               {annotation: apis, now: "3601", want: []string{"the default of 3600 seconds"}},
		"resources, shorter":         {annotation: resources, now: "299"},
		"resources, snapshots only":  {annotation: resources, now: "600", want: []string{"600 only shortens"}},
		"resources, longer":          {annotation: resources, now: "3600", want: []string{"has no effect"}},
		"resources, for ever":        {annotation: resources, now: "9223372036854775807", want: []string{"has no effect"}},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := annotated(tc.annotation, tc.now)
			if errs := validateCleanup(shoot, tc.old); (len(errs) > 0) != tc.refused {
				t.Errorf("validateCleanup() = %v, want errors: %t", errs, tc.refused)
			}
			containEach(t, warningsAbout(shoot, tc.old, tc.annotation), tc.want...)
		})
	}
}
