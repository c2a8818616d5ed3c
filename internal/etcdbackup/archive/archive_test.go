package archive

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

func write(t testing.TB, events int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Kind: chain.Delta, Epoch: 3, Identity: "a", ClusterID: "b", First: 5, Last: 7})
	if err != nil {
		t.Fatal(err)
	}
	records := AppendLease(nil, 77, 60)
	for i := range events {
		kv := &mvccpb.KeyValue{Key: []byte("k"), Value: bytes.Repeat([]byte{byte(i)}, i), ModRevision: 5, Version: int64(i +
			1), Lease: 77}
		if records, err = AppendEvent(records, i%3 == 2, kv, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Records(records, int64(events)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(Trailer{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(r io.Reader) (events, leases int, err error) {
	reader, err := NewReader(r)
	if err != nil {
		return 0, 0, err
	}
	defer reader.Close()
	for {
		record, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return events, leases, nil
		case err != nil:
			return events, leases, err
		case record.Lease != 0:
			leases++
		case record.Revision != nil:
			events++
		}
	}
}

func TestDeltaRoundTrip(t *testing.T) {
	data := write(t, 9)
	if events, leases, err := read(bytes.NewReader(data)); err != nil || events != 9 || leases != 1 {
		t.Fatalf("read %d events, %d leases, %v", events, leases, err)
	}
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := Header{FormatVersion: 1, Kind: chain.Delta, Epoch: 3, Identity: "a", ClusterID: "b", First: 5, Last: 7}
	if diff := cmp.Diff(want, r.Header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	for i := -1; i < 9; i++ {
		record, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if i < 0 {
			if record.Lease != 77 || record.TTL != 60 {
				t.Errorf("lease %+v", record)
			}
			continue
		}
		var kv mvccpb.KeyValue
		if err := kv.Unmarshal(record.Value); err != nil {
			t.Fatal(err)
		}
		if deleted := i%3 == 2; record.Main() != 5 || (len(record.Revision) == tombstoneLength) != deleted ||
			deleted != (kv.Version == 0) {
			t.Errorf("event %d: revision %q, %v", i, record.Revision, kv)
		}
	}
}

func TestFullRoundTrip(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Kind: chain.Full})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(random.IntN(20))
	}
	if _, err := io.Copy(w, bytes.NewReader(want)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(Trailer{Hash: &Hash{Revision: 9, Hash: 8}}); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []byte
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, record.Data...)
	}
	if !bytes.Equal(want, got) || r.Trailer.Hash == nil || r.Trailer.Hash.Hash != 8 {
		t.Errorf("read %d of %d bytes, trailer %+v", len(got), len(want), r.Trailer)
	}
}

func TestTruncationAtEveryByteIsDetected(t *testing.T) {
	data := write(t, 50)
	for n := range data {
		if _, _, err := read(bytes.NewReader(data[:n])); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
}

func TestCorruptionOfEveryByteIsDetected(t *testing.T) {
	data := write(t, 50)
	for n := range data {
		bad := bytes.Clone(data)
		bad[n] ^= 0x55
		_, _, err := read(bytes.NewReader(bad))
		if err == nil {
			t.Fatalf("byte %d of %d: the damage was not detected", n, len(data))
		}
	}
}

func TestAddedDataIsDetected(t *testing.T) {
	data := write(t, 5)
	for _, added := range [][]byte{{0}, write(t, 1), bytes.Repeat([]byte{0}, 100)} {
		if _, _, err := read(bytes.NewReader(append(bytes.Clone(data), added...))); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes added: %v", len(added), err)
		}
	}
}

func TestReadErrorsAreNotDamage(t *testing.T) {
	data := write(t, 50)
	broken := errors.New("connection reset")
	for n := range data {
		_, _, err := read(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || errors.Is(err, ErrDamaged) {
			t.Fatalf("error after %d bytes: %v", n, err)
		}
	}
}

func TestAbortedObjectIsTruncated(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Kind: chain.Full})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if _, _, err := read(&out); !errors.Is(err, ErrDamaged) {
		t.Errorf("read: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(write(f, 3))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _, _ = read(bytes.NewReader(data)) })
}
