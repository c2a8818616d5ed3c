// Package resourcemanager renders the resource-manager: one per Shoot, which keeps ManagedResources of the control
// plane namespace applied in the Shoot, and one per seed for those of class seed.
package resourcemanager
