// Package secretsmanager generates the credentials of a control plane and stores them as immutable Secrets in its
// namespace.
//
// All state is in the cluster. A Secret's name is derived from its configuration, the CA that signed it and the time
// its rotation was initiated: the same inputs find the same Secret, and different inputs result in a new one. A Manager
// is used for one reconciliation: Generate returns the Secret for a Config and creates it if it is missing; Get and
// Bundle return Secrets that were generated before; Cleanup deletes the Secrets that were not requested.
//
// During a rotation that keeps old material, a CA's bundle contains the current and the old certificate. Client
// certificates are signed by the current CA and server certificates by the old one as long as it exists, so that both
// sides always trust each other.
//
// The caller records when a rotation was initiated, and may lose that record if the garden is restored from a backup
// older than the rotation. Then only the Secrets show what is in use. A Secret of a later rotation than the caller's
// record is adopted as the current one, and all earlier material stays in the bundles until the completion of that
// rotation is requested. Rotation lets callers repair their record. If the completion of a rotation was recorded and
// lost, there may be bundles without the old certificate, whose users no longer trust the old CA. Hence server
// certificates are signed by the oldest CA that all existing bundles contain.
package secretsmanager
