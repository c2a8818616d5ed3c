// Package controllerregistration decides which extensions each Seed needs, and requests their installation.
//
// Required is the decision: it maps the Shoots, BackupBuckets and BackupEntries of a Seed and the Seed itself to kinds
// and types of extension objects, and those to registrations. The controller creates, changes and deletes
// ControllerInstallations; the gardenlet installs them. An installation that is no longer required stays while objects
// of its kinds exist.
//
// Trigger: Seeds, ControllerRegistrations, Shoots and backup objects. Writes: ControllerInstallations.
package controllerregistration
