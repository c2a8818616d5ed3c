// Package seedextension maintains the Extension objects for the seed itself: those in its spec.extensions, and those
// that ControllerRegistrations enable for all seeds.
//
// Trigger: the own Seed, ControllerRegistrations, and the Extensions of class seed in namespace garden. Outputs: one
// Extension per type in namespace garden, named after the type, with the Seed's providerConfig. Extensions that are no
// longer required are deleted, and all of them with the Seed; the controllers that act on them stay installed until
// they are gone.
package seedextension
