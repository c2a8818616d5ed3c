// Package node is the CSI driver on a node: it mounts volumes that the cloud has attached to the node, at the kubelet's
// request.
//
// The cloud makes an attached volume appear below cloud.VolumesDir. The driver publishes it to a pod by a bind mount
// from there to the pod's directory; there is nothing to stage.
package node
