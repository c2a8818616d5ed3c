package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/archive"
	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// copyBuffer is the size of etcd's own pieces.
const copyBuffer = 32 << 10

// startFull starts a full snapshot in the background. If one is running, another follows it if there are requests for
// it.
func (s *session) startFull(ctx context.Context) {
	if s.fullRunning {
		return
	}
	s.fullRunning, s.fullRetry = true, nil
	s.startedFull, s.waitingFull = append(s.startedFull, s.waitingFull...), nil
	go func() { s.fullDone <- s.takeFull(ctx) }()
}

// fullEnded handles the end of a full snapshot.
func (s *session) fullEnded(ctx context.Context, result fullResult) error {
	s.fullRunning = false
	s.failed("full", result.err)
	for _, r := range s.startedFull {
		r.answer <- answer{etcdbackup.Snapshot{Object: result.object.Name(), Revision: result.object.Last}, result.err}
	}
	s.startedFull = nil
	if errors.Is(result.err, errSuperseded) {
		return result.err
	}
	if result.err != nil {
		s.fullPause = min(max(2*s.fullPause, minPause), maxPause)
		s.fullRetry = s.Clock.After(s.fullPause)
	} else {
		s.fullPause = 0
	}
	if len(s.waitingFull) > 0 {
		s.startFull(ctx)
	}
	return nil
}

// takeFull streams a snapshot from etcd into the store.
func (s *session) takeFull(ctx context.Context) fullResult {
	// The snapshot holds at least what etcd holds now. Its later revisions are in the next delta too.
	revision, err := s.revision(ctx)
	if err != nil {
		return fullResult{err: err}
	}
	o := chain.Object{Epoch: s.Options.Epoch, Kind: chain.Full, First: 1, Last: revision, Created: s.now()}
	err = s.guarded(ctx, func() (err error) {
		o.Size, err = s.writeFull(ctx, o)
		return err
	})
	if err != nil {
		return fullResult{err: err}
	}
	s.stored(o)
	return fullResult{object: o}
}

func (s *session) writeFull(ctx context.Context, o chain.Object) (size int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := s.Etcd.SnapshotWithVersion(ctx)
	if err != nil {
		return 0, fmt.Errorf("read snapshot from etcd: %w", err)
	}
	defer from.Snapshot.Close()
	to, err := s.Store.Create(ctx, o.Name())
	if err != nil {
		return 0, err
	}
	done := false
	defer func() {
		if !done {
			to.Abort()
		}
	}()
	counted := &counter{to: to}
	w, err := archive.NewWriter(counted, s.header(o))
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	if err := copySnapshot(w, from.Snapshot); err != nil {
		return 0, err
	}
	if err := w.Close(archive.Trailer{Hash: s.hash(ctx, o.Last)}); err != nil {
		return 0, err
	}
	done = true
	return counted.bytes, to.Close()
}

// hash reads from etcd the checksum of its keys at a revision. A full snapshot is usable without it, so errors, such as
// a compaction in the meantime, do not matter.
func (s *session) hash(ctx context.Context, revision int64) *archive.Hash {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	h, err := s.Etcd.HashKV(ctx, s.Etcd.Endpoints()[0], revision)
	if err != nil {
		s.Log.V(1).Info("No checksum of the keys", "revision", revision, "error", err.Error())
		return nil
	}
	return &archive.Hash{Revision: revision, CompactRevision: h.CompactRevision, Hash: h.Hash}
}

// copySnapshot copies a database file and checks the SHA-256 that etcd adds at its end, which is not copied.
func copySnapshot(to io.Writer, from io.Reader) error {
	hash := sha256.New()
	held := make([]byte, 0, copyBuffer+sha256.Size) // The last bytes read so far, which may be the checksum.
	buf := make([]byte, copyBuffer)
	total := int64(0)
	for {
		n, err := from.Read(buf)
		total += int64(n)
		held = append(held, buf[:n]...)
		if ready := len(held) - sha256.Size; ready > 0 {
			hash.Write(held[:ready])
			if _, err := to.Write(held[:ready]); err != nil {
				return err
			}
			held = held[:copy(held, held[ready:])]
		}
		switch {
		case errors.Is(err, io.EOF):
			if total%512 != sha256.Size || !bytes.Equal(held, hash.Sum(nil)) {
				return fmt.Errorf("read snapshot from etcd: its SHA-256 is missing or wrong after %d bytes", total)
			}
			return nil
		case err != nil:
			return fmt.Errorf("read snapshot from etcd: %w", err)
		}
	}
}

// counter counts the bytes written.
type counter struct {
	to    io.Writer
	bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.bytes += int64(n)
	return n, err
}

// guarded uploads only while no newer epoch is claimed, and reports an upload during which one was.
func (s *session) guarded(ctx context.Context, upload func() error) error {
	for _, step := range []func() error{s.owner(ctx), upload, s.owner(ctx)} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) owner(ctx context.Context) func() error {
	return func() error {
		newer, err := s.Store.Claimed(ctx, s.Options.Epoch+1)
		if err == nil && newer {
			err = fmt.Errorf("%w: epoch %d, this is epoch %d", errSuperseded, s.Options.Epoch+1, s.Options.Epoch)
		}
		return err
	}
}

// stored reports a new object.
func (s *session) stored(o chain.Object) {
	s.update(func(st *etcdbackup.Status) {
		if o.Kind == chain.Full {
			st.LastFull = &o
			st.SavedRevision = max(st.SavedRevision, o.Last)
		} else {
			st.LastDelta = &o
		}
	})
	s.Log.Info("Stored backup of etcd", "object", o.String(), "bytes", o.Size)
	s.Stored(&o, nil)
}

// newest is the newest object that is known.
func (s *session) newest() *chain.Object {
	st := s.Status()
	switch {
	case st.LastDelta == nil:
		return st.LastFull
	case st.LastFull == nil || st.LastDelta.Last >= st.LastFull.Last:
		return st.LastDelta
	}
	return st.LastFull
}

// now is the clock's time as it is kept in names.
func (s *session) now() time.Time {
	return s.Clock.Now().UTC().Truncate(time.Millisecond)
}

func (s *session) header(o chain.Object) archive.Header {
	return archive.Header{Kind: o.Kind, Epoch: o.Epoch, Identity: s.Options.Identity, ClusterID: hex(s.clusterID),
		MemberID: hex(s.memberID),
		First:    o.First, Last: o.Last, EtcdVersion: s.version, Created: o.Created}
}
