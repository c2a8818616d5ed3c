package care

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// maxRepairPause is the longest time between two repairs of a webhook configuration that is changed back each time.
	maxRepairPause = time.Hour
	// repairForgotten is when a repair is forgotten. It is longer than any pause, so that a fight that lasts stays slow.
	repairForgotten = 2 * maxRepairPause
	// maxRemembered bounds the repairs that are remembered for all Shoots, about 200 bytes each. Users can make as many
	// configurations as they like; what is not remembered is repaired with every check.
	maxRemembered = 10_000
)

// attempt is a repair of a webhook configuration, successful or not, and how long none follows it.
type attempt struct {
	at    time.Time
	pause time.Duration
}

// next is the attempt that follows this one, the zero value being none, and whether it may be made now. Each pause is
// twice as long as the one before, beginning with first.
func (a attempt) next(now time.Time, first time.Duration) (attempt, bool) {
	switch since := now.Sub(a.at); {
	case a.at.IsZero() || since >= repairForgotten:
		return attempt{now, first}, true
	case since < a.pause:
		return a, false
	default:
		return attempt{now, min(2*a.pause, maxRepairPause)}, true
	}
}

// repairTarget identifies a webhook configuration of a Shoot.
type repairTarget struct {
	shoot types.UID
	kind  string
	name  string
}

func targetOf(shoot *corev1beta1.Shoot, c client.Object) repairTarget {
	return repairTarget{shoot.UID, fmt.Sprintf("%T", c), c.GetName()}
}

// repairs remembers the last repair of each webhook configuration. An owner who changes a configuration back each time,
// most likely with a controller, would be fought with every check otherwise. It is lost with the process, which then
// begins anew.
type repairs struct {
	mu   sync.Mutex // Several Shoots are checked at once.
	last map[repairTarget]attempt
}

// due reports whether a configuration may be repaired now.
func (r *repairs) due(c repairTarget, now time.Time, first time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, due := r.last[c].next(now, first)
	return due
}

// made remembers a repair, or an attempt that has failed.
func (r *repairs) made(c repairTarget, now time.Time, first time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[repairTarget]attempt{}
	}
	if len(r.last) >= maxRemembered {
		maps.DeleteFunc(r.last, func(_ repairTarget, a attempt) bool { return now.Sub(a.at) >= repairForgotten })
	}
	next, _ := r.last[c].next(now, first)
	if _, known := r.last[c]; known || len(r.last) < maxRemembered {
		r.last[c] = next
	}
}
