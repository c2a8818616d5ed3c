package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Record is a piece of a database file, an event or a lease.
type Record struct {
	// Data is a piece of a database file; nil for the others. It is valid until the next call of Next.
	Data []byte
	// Revision and Value are an entry of etcd's key bucket; nil for the others. They are valid until the next call.
	Revision, Value []byte
	// Lease and TTL in seconds of a lease; Lease is 0 for the others.
	Lease, TTL int64
}

// Main is the main revision of an event.
func (r Record) Main() int64 {
	return int64(binary.BigEndian.Uint64(r.Revision))
}

// Reader reads one object. It is not safe for concurrent use.
type Reader struct {
	// Header of the object.
	Header Header
	// Trailer is set when Next has returned io.EOF.
	Trailer Trailer

	source *source
	zstd   *zstd.Decoder
	in     *bufio.Reader
	hash   hash.Hash
	bytes  int64
	events int64
	buf    []byte
	// want are hash, length and number of events before the trailer.
	want Trailer
}

// NewReader reads the header. The caller has to call Close. Errors wrap ErrDamaged unless reading itself failed.
func NewReader(r io.Reader) (*Reader, error) {
	src := &source{Reader: r}
	decoder, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, fmt.Errorf("begin decompression: %w", err)
	}
	reader := &Reader{source: src, zstd: decoder, in: bufio.NewReaderSize(decoder, maxData), hash: sha256.New()}
	kind, payload, err := reader.record()
	switch {
	case err != nil:
	case kind != typeHeader:
		err = fmt.Errorf("%w: it does not begin with a header", ErrDamaged)
	default:
		if err = json.Unmarshal(payload, &reader.Header); err != nil {
			err = fmt.Errorf("%w: header: %w", ErrDamaged, err)
		} else if v := reader.Header.FormatVersion; v != Version {
			err = fmt.Errorf("unsupported format version: %d (supported: %d)", v, Version)
		}
	}
	if err != nil {
		decoder.Close()
		return nil, err
	}
	return reader, nil
}

// Close releases the reader's resources; it does not close the underlying reader.
func (r *Reader) Close() {
	r.zstd.Close()
}

// Next returns the next record, or io.EOF when the object is complete and its hash is right.
func (r *Reader) Next() (Record, error) {
	kind, payload, err := r.record()
	if err != nil {
		return Record{}, err
	}
	switch kind {
	case typeData:
		return Record{Data: payload}, nil
	case typeEvent:
		if n := int(first(payload)); (n == revisionLength || n == tombstoneLength) && len(payload) > n {
			r.events++
			return Record{Revision: payload[1 : 1+n], Value: payload[1+n:]}, nil
		}
	case typeLease:
		if len(payload) == 16 {
			return Record{Lease: int64(binary.BigEndian.Uint64(payload)), TTL: int64(binary.BigEndian.Uint64(payload[8:]))}, nil
		}
	case typeTrailer:
		return Record{}, r.finish(payload)
	}
	return Record{}, fmt.Errorf("%w: invalid record of type %q", ErrDamaged, kind)
}

func first(payload []byte) byte {
	if len(payload) == 0 {
		return 0
	}
	return payload[0]
}

// finish checks the trailer against what was read before it, and that nothing follows.
func (r *Reader) finish(payload []byte) error {
	if err := json.Unmarshal(payload, &r.Trailer); err != nil {
		return fmt.Errorf("%w: trailer: %w", ErrDamaged, err)
	}
	if t := r.Trailer; t.SHA256 != r.want.SHA256 || t.Bytes != r.want.Bytes || t.Events != r.want.Events {
		return fmt.Errorf("%w: contents do not match the SHA-256 in the trailer", ErrDamaged)
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more data after the trailer", ErrDamaged)
	}
	return io.EOF
}

func (r *Reader) record() (kind byte, payload []byte, err error) {
	kind, err = r.in.ReadByte()
	if err != nil {
		return 0, nil, r.failure(err)
	}
	if kind == typeTrailer {
		r.want = Trailer{SHA256: hex.EncodeToString(r.hash.Sum(nil)), Bytes: r.bytes, Events: r.events}
	}
	size, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, nil, r.failure(err)
	}
	if size > maxRecord {
		return 0, nil, fmt.Errorf("%w: record of %d bytes", ErrDamaged, size)
	}
	if uint64(cap(r.buf)) < size {
		r.buf = make([]byte, size)
	}
	payload = r.buf[:size]
	if _, err := io.ReadFull(r.in, payload); err != nil {
		return 0, nil, r.failure(err)
	}
	head := binary.AppendUvarint([]byte{kind}, size)
	r.hash.Write(head)
	r.hash.Write(payload)
	r.bytes += int64(len(head)) + int64(len(payload))
	return kind, payload, nil
}

// source records errors of reading the object, as opposed to errors in its contents.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// failure distinguishes contents that end too early or cannot be decompressed from a source that cannot be read.
func (r *Reader) failure(err error) error {
	switch {
	case r.source.err != nil:
		return r.source.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it is truncated", ErrDamaged)
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}
