package encryption

import (
	"maps"
	"slices"
)

// Target is how objects are to be stored.
type Target struct {
	// Resources that are to be encrypted.
	Resources []string
	// Writer encrypts them.
	Writer Provider
	// Keep lists providers that stay readable although nothing may be stored with them any more: the predecessor of a key
	// whose rotation has not been completed.
	Keep []Provider
	// Keys holds the keys of Writer and Keep, in base64 by name. Further keys do no harm.
	Keys map[string]string
}

// State is what is known about the Config in use.
type State struct {
	// RolledOut: every API server that runs, and every one that may still write, uses it.
	RolledOut bool
	// Rewritten: etcd has been read since the roll-out, and holds no object of any resource that its writer has not
	// written.
	Rewritten bool
}

// Config returns the configuration that the walk ends with.
func (t Target) Config() Config {
	c := Config{Providers: map[string][]Provider{}, Keys: maps.Clone(t.Keys)}
	for _, resource := range t.Resources {
		c.Providers[resource] = ordered(t.Writer, t.Keep...)
	}
	return c.withUsedKeys()
}

// writer of the resource in the end.
func (t Target) writer(resource string) Provider {
	if slices.Contains(t.Resources, resource) {
		return t.Writer
	}
	return Plain
}

// Recover returns the Config to start with when the one in use is lost: it reads whatever one of the known Configs
// reads. No server may be running.
func (t Target) Recover(known ...Config) Config {
	c := t.Config()
	for _, k := range known {
		for resource, list := range k.Providers {
			c.Providers[resource] = ordered(t.writer(resource), slices.Concat(c.Providers[resource], list)...)
		}
		maps.Copy(c.Keys, k.Keys)
	}
	return c.withUsedKeys()
}

// AnyCipher reads what any cipher has written with any of the keys.
func AnyCipher(resources []string, keys map[string]string) Config {
	var readers []Provider
	for _, cipher := range ciphers {
		for key := range keys {
			readers = append(readers, Provider{cipher, key})
		}
	}
	c := Config{Providers: map[string][]Provider{}, Keys: maps.Clone(keys)}
	for _, resource := range resources {
		c.Providers[resource] = ordered(Plain, readers...)
	}
	return c
}

// Next is the Config that follows the one in use. It is the same if something has to happen first, or if nothing is
// left to be done.
func Next(inUse Config, t Target, s State) Config {
	next := Config{Providers: map[string][]Provider{}, Keys: maps.Clone(inUse.Keys)}
	if next.Keys == nil {
		next.Keys = map[string]string{}
	}
	maps.Copy(next.Keys, t.Keys)
	end := t.Config()
	for _, resource := range resources(inUse.Providers, end.Providers) {
		list := nextProviders(inUse.Of(resource), end.Of(resource), s)
		if len(list) > 1 || list[0] != Plain {
			next.Providers[resource] = list
		}
	}
	return next.withUsedKeys()
}

// nextProviders is Next for one resource. end has the target's writer first.
func nextProviders(inUse, end []Provider, s State) []Provider {
	writer := end[0]
	switch {
	case !slices.Contains(inUse, writer):
		return ordered(inUse[0], slices.Concat(inUse, end)...) // Read with the target's writer, too.
	case inUse[0] != writer && s.RolledOut:
		return ordered(writer, slices.Concat(inUse, end)...) // Write with it.
	case inUse[0] != writer:
		return ordered(inUse[0], slices.Concat(inUse, end)...)
	case s.RolledOut && s.Rewritten:
		return end // Drop all others.
	}
	return ordered(writer, slices.Concat(inUse, end)...)
}

// Phase is where the way from the Config in use to a Target stands.
type Phase string

// The phases, in order.
const (
	Learning  Phase = "Learning"  // Some servers may not be able to read yet what others will write.
	Switching Phase = "Switching" // All servers can read it, not all write it.
	Rewriting Phase = "Rewriting" // All write it; what was stored otherwise is written again, and then dropped.
	Settled   Phase = "Settled"   // The Config in use is the target's.
)

// PhaseOf returns the phase. Settled does not cover the objects: those of a resource that has just been added may still
// be stored in plain text.
func PhaseOf(inUse Config, t Target) Phase {
	phase, end := Settled, t.Config()
	for _, resource := range resources(inUse.Providers, end.Providers) {
		have, want := inUse.Of(resource), end.Of(resource)
		switch {
		case !slices.Contains(have, want[0]):
			return Learning
		case have[0] != want[0]:
			phase = Switching
		case phase == Settled && !slices.Equal(have, want):
			phase = Rewriting
		}
	}
	return phase
}
