// Package bastion deletes Bastions that have expired, and those whose Shoot cannot have them any more.
//
// Trigger: Bastions, their Shoots when they are deleted, moved or close their SSH access, and time. Writes: no fields;
// deletes Bastions. The gardenlet removes the machines.
package bastion
