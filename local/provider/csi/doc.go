// Package csi gives Shoots PersistentVolumes that are volumes of the local cloud: they outlive their node and move with
// their pod.
//
//	objects.go   the objects in a Shoot: StorageClass, CSIDriver, and the driver on every node
//	controller/  in the control plane: makes and deletes volumes, attaches and detaches them
//	node/        on a node: mounts attached volumes for pods, by the Container Storage Interface
package csi
