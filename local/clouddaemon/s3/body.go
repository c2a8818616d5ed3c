package s3

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rclone/gofakes3"
)

const (
	headerContentHash   = "X-Amz-Content-Sha256"
	headerDecodedLength = "X-Amz-Decoded-Content-Length"
	headerTrailer       = "X-Amz-Trailer"
	checksumPrefix      = "X-Amz-Checksum-"

	unsigned        = "UNSIGNED-PAYLOAD"
	unsignedChunks  = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	streamingPrefix = "STREAMING-"

	// maxLine and maxTrailers bound what is read between chunks: a size, and a checksum or two.
	maxLine     = 4 << 10
	maxTrailers = 8
)

// emptyHash is the content hash with which a request without one was signed.
var emptyHash = sha256.Sum256(nil)

// algorithms are the checksums that S3 clients send, by the end of their headers.
var algorithms = map[string]func() hash.Hash{
	"crc32":     func() hash.Hash { return crc32.NewIEEE() },
	"crc32c":    func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
	"crc64nvme": func() hash.Hash { return crc64.New(crc64.MakeTable(0x9a6c9329ac4bc9b5)) },
	"sha1":      sha1.New,
	"sha256":    sha256.New,
}

// Body is the content that a request brings, without the framing around it. It must be read to its end: the Read that
// returns the last byte verifies the announced length, hash or checksum, and fails on a mismatch. So a reader that saw
// no error, even one that stops at the announced length, has the content that the client sent.
type Body struct {
	in      *bufio.Reader
	close   func() error
	chunked bool
	remain  int64 // Of the content.
	chunk   int64 // Of the current chunk.
	first   bool  // No chunk has begun yet.
	done    bool

	contentHash hash.Hash // SHA-256, nil if the signature covers none.
	wantHash    []byte

	algorithm string // Of the checksum, "" for none.
	sum       hash.Hash
	wantSum   []byte // From the header, or nil: it follows in the trailer.
}

type bodyKey struct{}

// BodyOf returns the body of the request with this context, or nil.
func BodyOf(ctx context.Context) *Body {
	b, _ := ctx.Value(bodyKey{}).(*Body)
	return b
}

// Checksum returns the header name and the value of the checksum that came with the content, once that has been read.
func (b *Body) Checksum() (name, value string) {
	if b == nil || b.algorithm == "" || !b.done {
		return "", ""
	}
	return http.CanonicalHeaderKey(checksumPrefix + b.algorithm), base64.StdEncoding.EncodeToString(b.wantSum)
}

// Open converts the request to the form that the library understands: with plain content and its length. The signature
// must have been verified before; it covers the headers looked at here.
func Open(r *http.Request, op Operation) (*http.Request, error) {
	b := &Body{in: bufio.NewReader(r.Body), close: r.Body.Close, remain: r.ContentLength, first: true}
	if err := b.readHeaders(r, op); err != nil {
		return nil, err
	}
	if b.remain == 0 { // An empty body is never read.
		if err := b.finish(); err != nil {
			return nil, err
		}
	}
	out := r.WithContext(context.WithValue(r.Context(), bodyKey{}, b))
	out.Header = r.Header.Clone()
	packConditions(out.Header)
	if op.SourceBucket != "" { // In the form that the library parses.
		out.Header.Set(headerCopySource, "/"+op.SourceBucket+"/"+url.QueryEscape(op.SourceKey))
	}
	out.Header.Set(headerContentHash, unsigned)
	out.Header.Del(headerDecodedLength)
	out.Header.Set("Content-Length", strconv.FormatInt(b.remain, 10))
	out.Body, out.ContentLength, out.TransferEncoding = b, b.remain, nil
	return out, nil
}

func (b *Body) readHeaders(r *http.Request, op Operation) error {
	content := r.Header.Get(headerContentHash)
	switch {
	case content == unsignedChunks:
		length, err := strconv.ParseInt(r.Header.Get(headerDecodedLength), 10, 64)
		if err != nil || length < 0 {
			return bad(gofakes3.ErrMissingContentLength, "header x-amz-decoded-content-length has no length")
		}
		b.chunked, b.remain = true, length
	case strings.HasPrefix(content, streamingPrefix):
		return bad(gofakes3.ErrNotImplemented, "signed chunks are not supported: send %s instead", unsignedChunks)
	case content == unsigned || presigned(r):
	case content == "":
		b.contentHash, b.wantHash = sha256.New(), emptyHash[:]
	default:
		want, err := hex.DecodeString(content)
		if err != nil || len(want) != sha256.Size {
			return bad(gofakes3.ErrInvalidArgument, "header x-amz-content-sha256 is no hash")
		}
		b.contentHash, b.wantHash = sha256.New(), want
	}
	if b.remain < 0 {
		return bad(gofakes3.ErrMissingContentLength, "the request has no Content-Length")
	}
	if op.Name == "CompleteMultipartUpload" { // The checksum in the request is that of the object.
		return nil
	}
	return b.readChecksum(r.Header)
}

// readChecksum determines the checksum of the content, in a header or in the trailer.
func (b *Body) readChecksum(h http.Header) error {
	names := strings.Split(h.Get(headerTrailer), ",")
	for name := range h {
		names = append(names, name)
	}
	for _, name := range names {
		algorithm, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(name)), strings.ToLower(checksumPrefix))
		if !ok || algorithm == "type" || algorithm == "mode" || algorithm == "algorithm" {
			continue
		}
		newHash, known := algorithms[algorithm]
		if !known || b.algorithm != "" {
			return bad(gofakes3.ErrInvalidRequest, "%s: want one checksum of crc32, crc32c, crc64nvme, sha1, sha256", name)
		}
		b.algorithm, b.sum = algorithm, newHash()
		if value := h.Get(name); value != "" {
			want, err := base64.StdEncoding.DecodeString(value)
			if err != nil || len(want) != b.sum.Size() {
				return bad(gofakes3.ErrInvalidRequest, "header %s is no checksum", name)
			}
			b.wantSum = want
		}
	}
	if b.algorithm != "" && b.wantSum == nil && !b.chunked {
		return bad(gofakes3.ErrInvalidRequest, "a checksum in the trailer needs %s", unsignedChunks)
	}
	return nil
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (int, error) {
	if b.remain == 0 {
		return 0, io.EOF
	}
	limit := b.remain
	if b.chunked {
		if b.chunk == 0 {
			if err := b.nextChunk(); err != nil {
				return 0, err
			}
		}
		limit = min(limit, b.chunk)
	}
	if int64(len(p)) > limit {
		p = p[:limit]
	}
	n, err := b.in.Read(p)
	b.remain -= int64(n)
	b.chunk -= int64(n)
	for _, h := range []hash.Hash{b.contentHash, b.sum} {
		if h != nil {
			_, _ = h.Write(p[:n]) // Never fails.
		}
	}
	if n > 0 && b.remain == 0 {
		return n, b.finish()
	}
	return n, cutOff(err)
}

// Close implements [io.Closer].
func (b *Body) Close() error { return b.close() }

// cutOff translates the error of a connection that ended within the content.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return bad(gofakes3.ErrIncompleteBody, "the content is shorter than announced")
	}
	return err
}

// nextChunk reads the line with the size of a chunk.
func (b *Body) nextChunk() error {
	if !b.first {
		line, err := b.line()
		if err != nil {
			return err
		}
		if line != "" {
			return bad(gofakes3.ErrInvalidRequest, "a chunk is longer than its size")
		}
	}
	b.first = false
	line, err := b.line()
	if err != nil {
		return err
	}
	digits, _, _ := strings.Cut(line, ";")
	size, err := strconv.ParseInt(digits, 16, 64)
	if err != nil || size < 0 || size > b.remain || (size == 0 && b.remain > 0) {
		return bad(gofakes3.ErrIncompleteBody, "chunk of size %.20q with %d bytes left", digits, b.remain)
	}
	b.chunk = size
	return nil
}

// line reads a line without its end.
func (b *Body) line() (string, error) {
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return "", bad(gofakes3.ErrInvalidRequest, "a line between chunks has more than %d bytes", maxLine)
		}
		if err == nil {
			return strings.TrimRight(string(line), "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", cutOff(err)
		}
	}
}

// finish reads the rest after the content and verifies everything that was announced.
func (b *Body) finish() error {
	if b.chunked {
		if err := b.readTrailers(); err != nil {
			return err
		}
	}
	if b.contentHash != nil && !bytes.Equal(b.contentHash.Sum(nil), b.wantHash) {
		return bad(gofakes3.ErrBadDigest, "the content does not have the SHA-256 it was signed with")
	}
	if b.sum != nil && !bytes.Equal(b.sum.Sum(nil), b.wantSum) {
		return bad(gofakes3.ErrBadDigest, "the content does not have the checksum %s", strings.ToUpper(b.algorithm))
	}
	b.done = true
	return nil
}

// readTrailers reads the empty chunk and the trailers.
func (b *Body) readTrailers() error {
	if err := b.nextChunk(); err != nil {
		return err
	}
	for range maxTrailers {
		line, err := b.line()
		if err != nil {
			return err
		}
		if line == "" {
			return nil
		}
		name, value, _ := strings.Cut(line, ":")
		if b.algorithm == "" || !strings.EqualFold(strings.TrimSpace(name), checksumPrefix+b.algorithm) {
			continue
		}
		if b.wantSum, err = base64.StdEncoding.DecodeString(strings.TrimSpace(value)); err != nil {
			return bad(gofakes3.ErrInvalidRequest, "trailer %s is no checksum", name)
		}
	}
	return bad(gofakes3.ErrInvalidRequest, "more than %d trailers", maxTrailers)
}
