// Package cloudprofile says which versions a CloudProfile offers, and the class of each, for the whole system.
//
// A CloudProfile offers Kubernetes and machine image versions. Each is unavailable, preview, supported, deprecated
// or expired at a given time. Compile turns a CloudProfileSpec into a Profile, in which versions are parsed and
// sorted once and all class changes are listed. All other functions take a Profile and a time and are pure:
//
//   - ClassAt: the class of a version at a time; Profile.Changes: when any class changes.
//   - DefaultKubernetesVersion, DefaultMachineImage, DefaultShoot: the completion of a partial version.
//   - ValidateShootVersions: the versions that a new or changed Shoot may use.
//   - Image.Eligible: the versions of an image that suit a worker pool.
//
// The API server's admission, the maintenance controller, plan, lint and versions use the same functions, so they
// always agree. A Profile is read-only after Compile and safe for concurrent use.
package cloudprofile
