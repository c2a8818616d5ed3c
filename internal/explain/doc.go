// Package explain is the command that says why a Shoot is not as its owner wants it, or a Seed not as its operator
// wants it: for each condition, constraint, error and wait the cause, down to the pod, the machine or the call of a
// cloud, and what to do.
//
// [OfShoot] and [OfSeed] are pure: facts and a time in, an [Explanation] out. Facts come from up to three API servers
// (read.go): the garden, the Seed, which needs an operator's kubeconfig, and the Shoot itself. What cannot be read is
// named in the explanation.
package explain
