// Package seedextension keeps the Extension objects that a seed wants for itself: those of its spec.extensions, and
// those that registrations enable for all seeds.
//
// Trigger: the own Seed, ControllerRegistrations, and the Extensions of class seed in namespace garden. Outputs: one
// Extension per type there, named after it, with the Seed's providerConfig. Those that nobody wants any more are
// deleted, all of them with the Seed; the extension that acts on them stays installed until they are gone.
package seedextension
