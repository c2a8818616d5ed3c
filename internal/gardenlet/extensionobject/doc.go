// Package extensionobject requests operations on extension objects and reports their progress, by the rules of the
// extension contract. Ensure, Migrate and Delete are for objects of the seed itself: BackupBuckets, BackupEntries, and
// Extensions of class seed. Kinds lists the kinds of extension objects in control plane namespaces.
//
// Every function makes one step and never waits; the caller watches the object and calls again. All state between the
// calls is on the object: the time of the request, a checksum of the spec as it was written, and a checksum of what the
// extension reads besides the spec.
package extensionobject
