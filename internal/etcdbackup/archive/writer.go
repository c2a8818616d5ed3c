package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Writer writes one object. It is not safe for concurrent use.
type Writer struct {
	zstd   *zstd.Encoder
	hash   hash.Hash
	bytes  int64
	events int64
}

// NewWriter writes the header. The caller has to call Close, or Abort when something failed.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.FormatVersion = Version
	encoder, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window))
	if err != nil {
		return nil, fmt.Errorf("begin compression: %w", err)
	}
	writer := &Writer{zstd: encoder, hash: sha256.New()}
	payload, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode header: %w", err)
	}
	return writer, writer.record(typeHeader, payload)
}

// Write adds a piece of a full snapshot's database file.
func (w *Writer) Write(data []byte) (int, error) {
	written := 0
	for len(data) > 0 {
		piece := data[:min(len(data), maxData)]
		if err := w.record(typeData, piece); err != nil {
			return written, err
		}
		data, written = data[len(piece):], written+len(piece)
	}
	return written, nil
}

// Records adds records made by AppendEvent and AppendLease; events is the number of events among them.
func (w *Writer) Records(records []byte, events int64) error {
	w.events += events
	return w.write(records)
}

// Close writes the trailer and ends the compressed stream; it does not close the underlying writer.
func (w *Writer) Close(t Trailer) error {
	t.SHA256, t.Bytes, t.Events = hex.EncodeToString(w.hash.Sum(nil)), w.bytes, w.events
	payload, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode trailer: %w", err)
	}
	if err := w.record(typeTrailer, payload); err != nil {
		return err
	}
	return w.zstd.Close()
}

// Abort releases the writer's resources. Readers recognise the object as truncated.
func (w *Writer) Abort() {
	w.zstd.Reset(nil)
}

func (w *Writer) record(kind byte, payload []byte) error {
	var head [1 + binary.MaxVarintLen64]byte
	head[0] = kind
	n := 1 + binary.PutUvarint(head[1:], uint64(len(payload)))
	if err := w.write(head[:n]); err != nil {
		return err
	}
	return w.write(payload)
}

func (w *Writer) write(data []byte) error {
	w.hash.Write(data)
	w.bytes += int64(len(data))
	_, err := w.zstd.Write(data)
	return err
}
