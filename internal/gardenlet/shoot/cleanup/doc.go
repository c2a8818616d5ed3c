// Package cleanup deletes the objects of users in a Shoot before its machines are deleted, in four ordered steps, so
// that no load balancers and volumes of the Shoot remain at the provider. Webhooks are deleted first: they could reject
// the other deletions.
//
// A table and pure functions decide what to delete, when to stop waiting for graceful deletion, and what to leave
// alone; Run makes one pass over one step and returns what remains. RunLostAttachments does the same for
// VolumeAttachments after the machines are gone, in a deletion and in a hibernation.
package cleanup
