// Package versionclass is the one notion of a version's class that the whole system shares.
//
// A CloudProfile offers Kubernetes and machine image versions. Each is unavailable, preview, supported, deprecated
// or expired at a given time. Compile turns a CloudProfileSpec into a Profile, in which versions are parsed and
// sorted once and every class change is known; all other functions take a Profile and a time and are pure:
//
//   - ClassAt: the class of a version at a time; Profile.Changes: when any class changes.
//   - DefaultKubernetesVersion, DefaultMachineImage, DefaultShoot: what an incomplete version stands for.
//   - ValidateShootVersions: which versions a new or changed Shoot may ask for.
//   - Image.Eligible: the versions of an image that suit a worker pool.
//
// The API server's admission, the maintenance controller, plan, lint and versions use the same functions, so they
// cannot disagree. A Profile is read-only after Compile and safe for concurrent use.
package versionclass
