// Package managedresource packs objects into a ManagedResource, which the resource-manager applies and keeps: of a
// Shoot for what runs in it, of the seed for what gardenlets install there.
package managedresource
