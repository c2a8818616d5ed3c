package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"hortus.dev/hortus/internal/etcdbackup/archive"
	"hortus.dev/hortus/internal/etcdbackup/chain"
)

const (
	// parallel downloads of deltas hide the latency of the store, which is tens of milliseconds an object.
	parallel = 8
	// fetchBytes bounds what downloaded deltas may occupy before they are applied.
	fetchBytes = 32 << 20
)

// Source is the store from which objects are read.
type Source interface {
	Open(ctx context.Context, name string) (io.ReadCloser, error)
}

// badObject is an error caused by one object, so that a restore from other objects may succeed.
type badObject struct {
	object chain.Object
	err    error
}

func (e *badObject) Error() string { return fmt.Sprintf("%s: %v", e.object, e.err) }
func (e *badObject) Unwrap() error { return e.err }

// openObject reads and checks the header of an object. clusterID is the cluster ID of the chain's full snapshot, empty
// for any.
func openObject(r io.Reader, o chain.Object, identity, clusterID string) (*archive.Reader, error) {
	reader, err := archive.NewReader(r)
	if err != nil {
		return nil, err
	}
	h := reader.Header
	switch {
	case identity != "" && h.Identity != identity:
		err = fmt.Errorf("%w: identity %q, not %q", archive.ErrForeign, h.Identity, identity)
	case clusterID != "" && h.ClusterID != clusterID:
		err = fmt.Errorf("%w: cluster ID %s, not %s", archive.ErrForeign, h.ClusterID, clusterID)
	case h.Kind != o.Kind || h.Epoch != o.Epoch || h.First != o.First || h.Last != o.Last:
		err = fmt.Errorf("%w: its name does not match its header", archive.ErrDamaged)
	}
	if err != nil {
		reader.Close()
		return nil, err
	}
	return reader, nil
}

// writeFull writes the database file of a full snapshot, and returns header and trailer.
func writeFull(ctx context.Context, from Source, o chain.Object, identity, file string,
	wrote func(bytes int64)) (h archive.Header, t archive.Trailer, err error) {
	in, err := from.Open(ctx, o.Name())
	if err != nil {
		return h, t, err
	}
	defer in.Close()
	r, err := openObject(in, o, identity, "")
	if err != nil {
		return h, t, err
	}
	defer r.Close()
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return h, t, fmt.Errorf("create database file: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for {
		record, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return r.Header, r.Trailer, nil
		case err != nil:
			return h, t, err
		case record.Data == nil:
			return h, t, fmt.Errorf("%w: a full snapshot contains events", archive.ErrDamaged)
		}
		if _, err := out.Write(record.Data); err != nil {
			return h, t, fmt.Errorf("write database file: %w", err)
		}
		wrote(int64(len(record.Data)))
	}
}

// fetched is a delta in memory, still compressed.
type fetched struct {
	object chain.Object
	data   []byte
	err    error
	weight int64
}

// fetch downloads deltas ahead, several at a time, and passes them to use in order.
func fetch(ctx context.Context, from Source, deltas []chain.Object, use func(fetched) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	room := semaphore.NewWeighted(fetchBytes)
	var group errgroup.Group
	group.SetLimit(parallel)
	results := make(chan chan fetched, parallel)
	go func() {
		defer close(results)
		for _, d := range deltas {
			weight := min(max(d.Size, 1), fetchBytes)
			if room.Acquire(ctx, weight) != nil {
				return
			}
			result := make(chan fetched, 1)
			select {
			case results <- result:
			case <-ctx.Done():
				return
			}
			group.Go(func() error {
				data, err := readAll(ctx, from, d)
				result <- fetched{object: d, data: data, err: err, weight: weight}
				return nil
			})
		}
	}()
	defer func() {
		cancel()
		for range results { // Until the goroutine above has ended.
		}
		_ = group.Wait()
	}()
	for result := range results {
		f := <-result
		if f.err != nil {
			return &badObject{f.object, f.err}
		}
		if err := use(f); err != nil {
			return err
		}
		room.Release(f.weight)
	}
	return ctx.Err()
}

func readAll(ctx context.Context, from Source, o chain.Object) ([]byte, error) {
	in, err := from.Open(ctx, o.Name())
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(in)
}
