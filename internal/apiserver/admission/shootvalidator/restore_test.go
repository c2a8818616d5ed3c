package shootvalidator

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// entries returns an error, or a BackupEntry.
type entries struct {
	client.Reader
	from string
	err  error
}

func (e entries) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if key.Name != "shoot--dev--a--1" {
		return errors.New("another name")
	}
	object.SetAnnotations(map[string]string{corev1beta1.AnnotationRestorableFrom: e.from})
	return e.err
}

func TestNotRestorable(t *testing.T) {
	down, gone := errors.New("connection refused"), apierrors.NewNotFound(corev1beta1.Resource("backupentries"), "a")
	const from = "2026-01-31T15:00:00Z 1000"
	shoot := func(request string) *corev1beta1.Shoot {
		s := shootOn("x")
		s.Status.TechnicalID, s.Status.UID = "shoot--dev--a", "1"
		if request != "" {
			s.Annotations = map[string]string{corev1beta1.AnnotationRestoreBackup: request}
		}
		return s
	}
	for name, tc := range map[string]struct {
		old    *corev1beta1.Shoot
		now    string
		reader entries
		want   string
		failed error
	}{
		"no request":            {shoot(""), "", entries{err: down}, "", nil},
		"a request from before": {shoot("revision=1"), "revision=1", entries{err: down}, "", nil},
		"a new Shoot":           {nil, "revision=1", entries{err: down}, "", nil},
		"another request": {
			shoot("revision=1000"), "revision=999", entries{from: from}, "from revision 1000", nil,
		},
		"an early time": {
			shoot(""), "time=2026-01-31T14:59:59Z", entries{from: from}, "2026-01-31T15:00:00Z, on", nil,
		},
		"a restorable point":             {shoot(""), "revision=1000", entries{from: from}, "", nil},
		"no point yet":                   {shoot(""), "revision=1000", entries{}, "completely created", nil},
		"no BackupEntry":                 {shoot(""), "revision=1000", entries{err: gone}, "no BackupEntry", nil},
		"an unreadable BackupEntry":      {shoot(""), "revision=1000", entries{err: down}, "", down},
		"an invalid point, if it passed": {shoot(""), "tomorrow", entries{err: down}, "must be revision=", nil},
	} {
		p := &plugin{hortusadmission.Base{Objects: &hortusadmission.Objects{Live: tc.reader}}}
		got, err := p.notRestorable(t.Context(), shoot(tc.now), tc.old)
		if (got != "") != (tc.want != "") || !strings.Contains(got, tc.want) || !errors.Is(err, tc.failed) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if problem := (&request{notRestorable: got}).restoreProblem(); (problem != nil) != (got != "") {
			t.Errorf("%s: %v", name, problem)
		}
	}
}
