package token

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Reason and action of events about Secrets that get no token.
const (
	reasonRefused = "TokenRefused"
	actionRequest = "RequestToken"
)

// maxNote is the size in bytes of an event's note that API servers accept.
const maxNote = 1024

// refusals are the newest ones that were reported, by the UIDs of the Secrets. Those of the last checkPeriod are kept.
type refusals struct {
	mu     sync.Mutex
	latest map[types.UID]refusal
}

type refusal struct {
	text string
	at   time.Time
}

// isNew reports whether a refusal is to be reported: it has another text than the last one of the Secret, or that was
// checkPeriod ago, which is how long API servers keep events by default.
func (r *refusals) isNew(secret types.UID, text string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, old := range r.latest {
		if now.Sub(old.at) >= checkPeriod {
			delete(r.latest, uid)
		}
	}
	if r.latest[secret].text == text {
		return false
	}
	if r.latest == nil {
		r.latest = map[types.UID]refusal{}
	}
	r.latest[secret] = refusal{text, now}
	return true
}

// refuse reports why a Secret gets no token, once for many attempts.
func (c *Confinement) refuse(ctx context.Context, secret *corev1.Secret, err error, now time.Time) {
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // Without "terminal error".
	}
	text := err.Error()
	if !c.refusals.isNew(secret.UID, text, now) {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Refused a token", "reason", text)
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote], "")
	}
	c.Events.Eventf(secret, nil, corev1.EventTypeWarning, reasonRefused, actionRequest, "%s", text)
}
