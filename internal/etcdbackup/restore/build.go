package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"hortus.dev/hortus/internal/etcdbackup/archive"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/store"
)

// ErrNoChain means that no chain reaches the target.
var ErrNoChain = errors.New("no backup reaches the target")

// Built is a database file made from a chain.
type Built struct {
	// Chain that was used; deltas that turned out to be damaged are not in it.
	Chain chain.Chain
	// Skipped are damaged and foreign objects.
	Skipped []chain.Object
	// Revision of the last entry in the file.
	Revision int64
	// Events applied from deltas.
	Events int64
	// Header and Trailer of the full snapshot.
	Header  archive.Header
	Trailer archive.Trailer
}

// Build writes the database file of the best chain among objects for a target. Objects that are damaged or foreign are
// left out, and replaced: first by another delta that closes the gap, then by another chain.
func Build(ctx context.Context, from Source, objects []chain.Object, target chain.Target, identity, file string,
	progress Progress) (*Built, error) {
	b := &builder{from: from, identity: identity, file: file, progress: progress}
	defer b.discard()
	for {
		c, ok := chain.Select(chain.Build(objects), target)
		if !ok {
			return nil, fmt.Errorf("%w (%s)", ErrNoChain, describe(target, objects, b.skipped))
		}
		err := b.build(ctx, c, target)
		var bad *badObject
		switch {
		case err == nil:
			return b.finish(c, target)
		case errors.As(err, &bad) && excusable(bad.err):
			progress.Printf("Skipping %s: %v", bad.object, bad.err)
			objects, b.skipped = chain.Without(objects, bad.object), append(b.skipped, bad.object)
		default:
			return nil, err
		}
	}
}

// excusable errors concern one object; others, such as a store that cannot be reached, end the restore.
func excusable(err error) bool {
	return errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrForeign) ||
		store.ReasonOf(err) == store.ObjectMissing
}

func describe(t chain.Target, objects, skipped []chain.Object) string {
	text := "any revision"
	switch {
	case t.Revision > 0:
		text = fmt.Sprintf("revision %d", t.Revision)
	case !t.Time.IsZero():
		text = "time " + t.Time.Format("2006-01-02T15:04:05Z07:00")
	}
	return fmt.Sprintf("%s; %d objects, %d of them unusable", text, len(objects)+len(skipped), len(skipped))
}

type builder struct {
	from     Source
	identity string
	file     string
	progress Progress
	skipped  []chain.Object

	// The objects that the file was built from so far. A replacement for a damaged delta may share its beginning.
	db    *database
	built Built
}

func (b *builder) build(ctx context.Context, c chain.Chain, target chain.Target) error {
	if b.db == nil || b.built.Chain.Full != c.Full {
		if err := b.full(ctx, c.Full); err != nil {
			return err
		}
	}
	var missing []chain.Object
	for _, d := range c.Deltas {
		if d.Last > b.db.revision {
			missing = append(missing, d)
		}
	}
	step := b.progress.steps("Applying deltas", int64(len(missing)))
	return fetch(ctx, b.from, missing, func(f fetched) error {
		r, err := openObject(bytes.NewReader(f.data), f.object, b.identity, b.built.Header.ClusterID)
		if err != nil {
			return &badObject{f.object, err}
		}
		defer r.Close()
		events, err := b.db.apply(r, target.Revision)
		switch {
		case err == nil:
		case errors.Is(err, archive.ErrDamaged):
			return &badObject{f.object, err}
		default:
			return fmt.Errorf("apply %s: %w", f.object, err)
		}
		b.built.Events += events
		step(1)
		return nil
	})
}

func (b *builder) full(ctx context.Context, o chain.Object) error {
	b.discard()
	b.progress.Printf("Reading %s, created %s, %d bytes", o, o.Created.Format("2006-01-02T15:04:05Z07:00"), o.Size)
	wrote := b.progress.bytes("Writing database file")
	h, t, err := writeFull(ctx, b.from, o, b.identity, b.file, wrote)
	if err != nil {
		return &badObject{o, err}
	}
	if b.db, err = openDatabase(b.file); err != nil {
		return &badObject{o, fmt.Errorf("%w: %w", archive.ErrDamaged, err)}
	}
	if b.db.revision < o.Last {
		return &badObject{o, fmt.Errorf("%w: it ends at revision %d", archive.ErrDamaged, b.db.revision)}
	}
	b.built = Built{Chain: chain.Chain{Full: o}, Header: h, Trailer: t}
	return nil
}

func (b *builder) finish(c chain.Chain, target chain.Target) (*Built, error) {
	if err := b.db.cut(target.Revision); err != nil {
		return nil, err
	}
	if err := b.db.finish(); err != nil {
		return nil, err
	}
	built := b.built
	built.Chain, built.Skipped, built.Revision = c, b.skipped, b.db.revision
	err := b.db.close()
	b.db = nil
	return &built, err
}

// discard closes and removes an unfinished file.
func (b *builder) discard() {
	if b.db != nil {
		_ = b.db.bolt.Close()
		_ = os.Remove(b.file)
		b.db = nil
	}
}
