// Package controller makes, attaches, detaches and deletes the volumes of the cloud that a cluster's claims request.
//
//	claims.go       PersistentVolumeClaim -> volume -> PersistentVolume
//	volumes.go      PersistentVolume that is no longer needed -> its volume is deleted
//	attachments.go  VolumeAttachment -> the volume is attached to a node's instance, or detached
//	plan.go         the decisions: pure functions
//	events.go       changes in the cloud that objects wait for
package controller
