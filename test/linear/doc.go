// Package linear checks whether the answers of a Kubernetes API to its clients are linearizable: whether there is one
// order of their reads and writes, consistent with the times at which each began and ended, in which every read returns
// what was written last. Lost acknowledged writes, stale reads, lost updates, and refused writes that took effect all
// violate that.
//
// The data are registers: ConfigMaps with one value each. A [Client] reads and writes them and adds its operations,
// with their answers, to a [History]. [History.Check] explains the first violation.
package linear
