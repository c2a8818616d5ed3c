// Package managedresource packs objects into a ManagedResource, which a resource-manager keeps applied: the Shoot's for
// objects in the Shoot, the seed's for objects that gardenlets install in the seed.
package managedresource
