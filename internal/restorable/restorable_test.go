package restorable

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var three = time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)

func TestSaved(t *testing.T) {
	for at, want := range map[time.Time]string{
		three:                                  "2026-01-31T15:00:00Z 7",
		three.Add(time.Nanosecond):             "2026-01-31T15:00:01Z 7",
		three.Add(999 * time.Millisecond):      "2026-01-31T15:00:01Z 7",
		three.In(time.FixedZone("east", 3600)): "2026-01-31T15:00:00Z 7",
	} {
		p := Saved(at, 7)
		if p.String() != want {
			t.Errorf("Saved(%s) = %s, want %s", at, p, want)
		}
		if back, err := Parse(p.String()); err != nil || back != p {
			t.Errorf("Parse(%q) = %+v, %v", p, back, err)
		}
	}
}

func TestInvalidPoints(t *testing.T) {
	for _, value := range []string{
		"7", "2026-01-31T15:00:00Z", "2026-01-31T15:00:00Z ", "2026-01-31T15:00:00Z a", "2026-01-31T15:00:00Z 0",
		"yesterday 7",
	} {
		if p, err := Parse(value); err == nil || !strings.Contains(err.Error(), "hortus.dev/restorable-from: invalid") {
			t.Errorf("Parse(%q) = %+v, %v", value, p, err)
		}
	}
}

func TestPointsOnlyGrow(t *testing.T) {
	for name, tc := range map[string]struct{ is, next, want Point }{
		"the first one":             {Point{}, Point{three, 7}, Point{three, 7}},
		"a later one":               {Point{three, 7}, Point{three.Add(time.Hour), 9}, Point{three.Add(time.Hour), 9}},
		"an earlier one":            {Point{three.Add(time.Hour), 9}, Point{three, 7}, Point{three.Add(time.Hour), 9}},
		"a clock that was set back": {Point{three.Add(time.Hour), 7}, Point{three, 9}, Point{three.Add(time.Hour), 9}},
	} {
		if got := tc.is.Later(tc.next); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestProblem(t *testing.T) {
	const early, unknown = "from revision 1000, 2026-01-31T15:00:00Z, on", "completely created"
	for name, tc := range map[string]struct {
		annotation string // "-": no entry.
		revision   int64
		at         time.Time
		want       string // Part of the problem; "" for none.
		failure    string
	}{
		"an earlier revision":     {annotation: "2026-01-31T15:00:00Z 1000", revision: 999, want: early},
		"the first revision":      {annotation: "2026-01-31T15:00:00Z 1000", revision: 1, want: early},
		"the revision itself":     {annotation: "2026-01-31T15:00:00Z 1000", revision: 1000},
		"a later revision":        {annotation: "2026-01-31T15:00:00Z 1000", revision: 999999999},
		"an earlier time":         {annotation: "2026-01-31T15:00:00Z 1000", at: three.Add(-time.Second), want: early},
		"the time itself":         {annotation: "2026-01-31T15:00:00Z 1000", at: three},
		"nothing known":           {revision: 999999999, want: unknown},
		"unknown times":           {at: three, want: unknown},
		"no backups":              {annotation: "-", revision: 7, want: "has no backups"},
		"an annotation by others": {annotation: "soon", revision: 7, failure: "invalid time"},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "a"},
				Status: corev1beta1.ShootStatus{TechnicalID: "shoot--dev--a", UID: "1"}}
			entry := &corev1beta1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "shoot--dev--a--1"}}
			if tc.annotation == "-" {
				entry.Name = "shoot--dev--a--2"
			} else if tc.annotation != "" {
				metav1.SetMetaDataAnnotation(&entry.ObjectMeta, corev1beta1.AnnotationRestorableFrom, tc.annotation)
			}
			scheme := runtime.NewScheme()
			if err := corev1beta1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			garden := fake.NewClientBuilder().WithScheme(scheme).WithObjects(entry).Build()
			got, err := Problem(t.Context(), garden, shoot, tc.revision, tc.at)
			if (err != nil) != (tc.failure != "") || err != nil && !strings.Contains(err.Error(), tc.failure) {
				t.Fatalf("Problem() fails with %v, want %q", err, tc.failure)
			}
			if (got != "") != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Errorf("Problem() = %q, want %q", got, tc.want)
			}
		})
	}
}
