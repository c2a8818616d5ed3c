// Package shootstate keeps the ShootStates of a seed's Shoots current in the garden, and reads them when a Shoot is
// restored. A ShootState is what another seed needs to take over a control plane: credentials, the state of extensions,
// and the machines.
//
// # Writing
//
// Trigger: changes in the seed of Secrets with the label persist=true, of status.state and status.resources of
// extension objects, and of machines; in the garden the end of an operation; time, for what cannot be watched. Inputs:
// the control plane namespace and the extension's BackupEntry. Output: the ShootState with the Shoot's name, owned by
// the Shoot.
//
// Watches keep a checksum of the relevant fields, so that a status that is written every few seconds triggers nothing.
// The first change is written at once; changes within the pause after it (10 s, more for large states) are written
// together at its end. Save compares all entries with checksums of those in the garden and sends only the difference. A
// process that starts reads the ShootState once and compares everything.
//
// The difference is a JSON patch that begins with a test of the resource version. Server-side apply and merge patches
// replace a list as a whole, since only some lists have keys that make an entry unique. A JSON patch replaces an entry
// by its position, which the test makes safe. The answer is requested as metadata only. Etcd stores a ShootState under
// one key and so rewrites all of it every time, which is why the pause grows with the size.
//
// Decide says when nothing may be written: while another seed has the Shoot, while it is being deleted, and while it is
// being restored, since its objects are incomplete then. A namespace that has lost all its Secrets is never saved. When
// extensions have been migrated, the migrate flow calls Seal, which saves and marks the ShootState as complete. It
// calls SealLast for the extensions that are migrated after the API server has stopped. Nothing else is written until a
// seed has restored the Shoot.
//
// # Reading
//
// Load reads a ShootState for the steps of a restore. The Secrets come first, before any are generated.
package shootstate
