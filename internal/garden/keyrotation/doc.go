// Package keyrotation replaces the key with which the garden's API server, hortus-apiserver, encrypts what it stores in
// etcd.
//
// The encryption configuration lies in a Secret of its own, which every pod of the API server mounts and which is the
// only memory of a rotation. A rotation is the walk of package encryption, decided step by step by next:
//
//  1. a new key is added, which all servers read and none writes with;
//  2. after a delay, in which it gets into the backups of the cluster, it writes;
//  3. all objects are written again;
//  4. keys before the predecessor are dropped; the predecessor stays, for backups from before the rotation.
//
// Each change of the Secret has a revision, which is also an annotation of the pods that were started for it. A server
// does not start with a configuration of an earlier revision than its pod's, so that a roll-out proves what the servers
// use: a kubelet may mount a Secret that is older than the pod.
package keyrotation
