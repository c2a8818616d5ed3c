// Package extensionobject asks extensions for operations on their objects and tells how far they are, by the rules of
// the extension contract. It is for objects of the seed as a whole: buckets and entries of backups.
//
// Every function makes one step and never waits; the caller watches the object and calls again. Nothing is kept
// between the calls but what is on the object: the time of the request, and a checksum of what the extension reads
// besides the spec.
package extensionobject
