// Package bastion deletes Bastions that have expired, and those whose Shoot cannot have them any more.
//
// Trigger: Bastions, their Shoots when they are deleted, moved or close their SSH access, and time. Writes: deletes
// Bastions. The gardenlet removes the machines, and then its finalizer; if its seed is gone, the controller removes the
// finalizer once the Shoot is bound to another seed.
package bastion
