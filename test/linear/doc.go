// Package linear checks whether what clients of a Kubernetes API were told is linearizable: whether there is one order
// of their reads and writes, consistent with the times at which each began and ended, in which every read returns what
// was written last. Lost acknowledged writes, stale reads, lost updates, and refused writes that took effect all
// violate that.
//
// The data are registers: ConfigMaps with one value each. A [Client] reads and writes them and adds what it did, and
// what the answer was, to a [History]. [History.Check] explains the first violation.
package linear
