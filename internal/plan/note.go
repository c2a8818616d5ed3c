package plan

import (
	"fmt"
	"time"

	"hortus.dev/hortus/internal/maintenance"
)

// deadEndKey distinguishes dead ends of one Shoot.
type deadEndKey struct {
	subject       maintenance.Subject
	pool, version string
	reason        string // Only for failures that belong to no single version.
}

// noteFailures opens a dead end for every update that fails now and did not before, and closes those that ended.
func (s *simulation) noteFailures(d *maintenance.Decision, refusal string, t time.Time) {
	if len(s.open) == 0 && refusal == "" && d.ImageErr == nil && !d.Failed() {
		return
	}
	failing := map[deadEndKey]bool{}
	note := func(key deadEndKey, end func() DeadEnd) {
		failing[key] = true
		if _, known := s.open[key]; known {
			return
		}
		if s.open == nil {
			s.open = map[deadEndKey]int{}
		}
		s.open[key] = len(s.plan.DeadEnds)
		s.plan.DeadEnds = append(s.plan.DeadEnds, end())
	}
	for i := range d.Items {
		if item := &d.Items[i]; item.Err != nil {
			note(deadEndKey{item.Subject, item.Pool, item.From, ""}, func() DeadEnd { return s.deadEnd(item, t) })
		}
	}
	if d.ImageErr != nil {
		note(deadEndKey{maintenance.PoolImage, "", "", d.ImageErr.Error()}, func() DeadEnd {
			return DeadEnd{
				Since:   t,
				Subject: maintenance.PoolImage,
				Reason:  d.ImageErr.Error() + ": machine images of this and the following pools are not maintained",
				Fix:     "offer it again, or change the worker pool",
			}
		})
	}
	if refusal != "" {
		note(deadEndKey{reason: refusal}, func() DeadEnd {
			return DeadEnd{
				Since:  t,
				Reason: "The API server will refuse the whole maintenance: " + refusal,
				Fix:    "update the worker pool by hand, offer a machine image that suits both versions, or offer the missing version again",
			}
		})
	}
	for key, at := range s.open {
		if !failing[key] {
			until := t
			s.plan.DeadEnds[at].Until, s.plan.DeadEnds[at].Temporary = &until, true
			delete(s.open, key)
		}
	}
}

func (s *simulation) deadEnd(item *maintenance.Item, t time.Time) DeadEnd {
	end := DeadEnd{
		Since:   t,
		Subject: item.Subject,
		Pool:    item.Pool,
		Image:   item.Image,
		Version: item.From,
		Reason:  item.Err.Error(),
		Because: item.Obstacle(),
		Fix:     item.Fix(s.profile),
	}
	if expiry, ok := item.Expiry(s.profile); ok && !expiry.Before(s.At) {
		end.Deadline = &expiry
	}
	return end
}

func (s *simulation) noteChanges(
	d *maintenance.Decision, after *maintenance.Cluster, t time.Time, window Interval, asleep bool,
) {
	first := len(s.plan.Changes)
	defer func() {
		if s.shoot.spec == nil {
			return
		}
		if s.spec == nil {
			s.spec = s.shoot.spec.DeepCopy()
		}
		s.plan.Changes[first].Notes = maintenance.FixUp(s.spec, after, s.cluster.Kubernetes)
	}()
	for _, items := range [][]maintenance.Item{d.Items, d.Unreported} {
		for i := range items {
			item := &items[i]
			if item.Err != nil {
				continue
			}
			c := Change{
				At: t, Window: window,
				Subject: item.Subject, Pool: item.Pool, Image: item.Image,
				From: item.From, To: item.To,
				Rule: item.Rule, Reason: item.Reason, Forced: item.Forced,
				Hibernated: asleep,
			}
			c.minor = !s.decider.SameMinor(item.From, item.To)
			c.Effects = s.effects(item, c.minor)
			s.plan.Changes = append(s.plan.Changes, c)
		}
	}
}

// effects returns the effects of an update on nodes. Pools without a Kubernetes version of their own follow the control
// plane. Updates with the same effects share one list.
func (s *simulation) effects(item *maintenance.Item, minor bool) []PoolEffect {
	replaces := minor || item.Subject == maintenance.PoolImage
	for i := range s.shared {
		if e := &s.shared[i]; e.pool == item.Pool && e.replaces == replaces {
			return e.effects
		}
	}
	var effects []PoolEffect
	for i := range s.cluster.Pools {
		pool := &s.cluster.Pools[i]
		if item.Subject == maintenance.ControlPlane && pool.Kubernetes == "" || item.Pool == pool.Name {
			effects = append(effects, PoolEffect{pool.Name, s.effect(pool, replaces)})
		}
	}
	s.shared = append(s.shared, sharedEffects{item.Pool, replaces, effects})
	return effects
}

// sharedEffects are the effects of all updates of a pool (empty: of the control plane) that replace nodes or do not.
type sharedEffects struct {
	pool     string
	replaces bool
	effects  []PoolEffect
}

func (s *simulation) effect(pool *maintenance.Pool, replaces bool) Effect {
	switch {
	case !replaces:
		return EffectKubeletRestart
	case s.shoot.manual[pool.Name]:
		return EffectManualInPlace
	case pool.InPlace:
		return EffectInPlace
	}
	return EffectRoll
}

// Minor reports whether the change is a change of the Kubernetes minor version of the control plane.
func (c *Change) Minor() bool { return c.minor && c.Subject == maintenance.ControlPlane }

// Describe describes the effect of the change on nodes in a few words.
func (c *Change) Describe() string {
	if len(c.Effects) == 0 {
		return "no nodes"
	}
	counts := map[Effect]int{}
	for _, e := range c.Effects {
		counts[e.Effect]++
	}
	text := ""
	for _, e := range []struct {
		effect Effect
		words  string
	}{
		{EffectRoll, "rolls nodes"},
		{EffectInPlace, "updates nodes in place"},
		{EffectManualInPlace, "updates selected nodes in place"},
		{EffectKubeletRestart, "restarts kubelets"},
	} {
		if counts[e.effect] == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += e.words
		if c.Subject == maintenance.ControlPlane && counts[e.effect] < len(c.Effects) {
			text += fmt.Sprintf(" of %d pools", counts[e.effect])
		}
	}
	if c.Hibernated {
		text += " (hibernated)"
	}
	return text
}
