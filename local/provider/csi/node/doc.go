// Package node is the CSI driver on a node: the kubelet asks it to mount volumes that the cloud has attached to the
// node.
//
// The cloud makes an attached volume appear below cloud.VolumesDir. To publish it to a pod is a bind mount from there
// to the pod's directory; there is nothing to stage.
package node
