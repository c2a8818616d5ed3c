package store

import (
	"time"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// Verification is the outcome of restoring a chain as a test.
type Verification struct {
	// Full is the full snapshot of the chain.
	Full chain.Object `json:"full"`
	// Revision up to which the chain was restored.
	Revision int64 `json:"revision"`
	// Time of the verification.
	Time time.Time `json:"time"`
	// Keys that exist at that revision.
	Keys int64 `json:"keys"`
	// HashCompared says that the keys' checksum was compared with the one that etcd had computed.
	HashCompared bool `json:"hashCompared"`
}
