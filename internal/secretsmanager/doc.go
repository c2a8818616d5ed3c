// Package secretsmanager makes the credentials of a control plane and keeps them as immutable Secrets in its namespace.
//
// The cluster is the only memory. A Secret's name follows from the configuration it was made from, the CA that signed
// it and the time its rotation was initiated, so the same inputs find the same Secret and anything else makes a new
// one. A Manager lives for one reconciliation: Generate returns the Secret for a Config, making it if it is missing;
// Get and Bundle return what was generated before; Cleanup deletes what nobody asked for any more.
//
// During a rotation that keeps old material, a CA's bundle holds the current and the old certificate. Client
// certificates are signed by the current CA and server certificates by the old one while it is there, so that both
// sides trust each other at every moment.
//
// The caller records when a rotation was initiated, and may lose that record: the garden is restored from a backup that
// is older than the rotation. The Secrets alone then tell what is in use. A Secret of a later rotation than the caller
// asks for is adopted as the current one, and everything from before stays in the bundles until the completion of that
// very rotation is requested. Rotation lets callers repair their record. A completion whose record was lost may have
// left bundles without the old certificate, and their users no longer trust the old CA. Hence server certificates are
// signed by the oldest CA that is in all bundles that exist.
package secretsmanager
