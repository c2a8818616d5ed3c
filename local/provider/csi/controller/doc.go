// Package controller makes, attaches, detaches and deletes the volumes of the cloud that a cluster's claims ask for.
//
//	claims.go       PersistentVolumeClaim -> volume -> PersistentVolume
//	volumes.go      PersistentVolume that is not needed any more -> its volume is deleted
//	attachments.go  VolumeAttachment -> the volume is attached to a node's instance, or detached
//	plan.go         the decisions: pure functions
//	events.go       changes in the cloud that objects wait for
package controller
