// Package volume provides PersistentVolumes that are directories on a node, for StorageClasses of the local provider.
//
// One process runs on every node and serves the claims the scheduler has placed there, so making and removing the
// directory needs no helper pod and no leader. A volume can only be used on its node; the scheduler knows by node
// affinity.
package volume
