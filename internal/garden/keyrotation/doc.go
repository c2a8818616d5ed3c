// Package keyrotation replaces the key with which the garden's API server, hortus-apiserver, encrypts its objects in
// etcd.
//
// The encryption configuration is in a separate Secret, which every pod of the API server mounts. All state of a
// rotation is in this Secret. A rotation has the steps of package encryption, and next decides each of them:
//
//  1. a new key is added: all servers can decrypt with it, none encrypts with it;
//  2. the new key encrypts, after a delay in which it gets into the backups of the cluster;
//  3. all objects are written again;
//  4. keys older than the predecessor are dropped; the predecessor stays, for backups from before the rotation.
//
// Each change of the Secret has a revision, which is also an annotation of the pods that were started for it. A kubelet
// may mount a Secret that is older than the pod. A server therefore does not start with an earlier revision than its
// pod's, so that a completed rollout proves which configuration the servers use.
package keyrotation
