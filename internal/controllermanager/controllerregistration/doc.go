// Package controllerregistration decides which extensions each seed needs, and asks for their installation.
//
// Required is the decision: from the Shoots, BackupBuckets and BackupEntries of a seed and the seed itself to the kinds
// and types of extension objects, and from those to registrations. The controller creates and deletes
// ControllerInstallations; the gardenlet installs them. An installation that is no longer required stays while objects
// of its kinds exist.
//
// Trigger: Seeds, ControllerRegistrations, Shoots and backup objects. Writes: ControllerInstallations.
package controllerregistration
