package s3_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	library "github.com/rclone/gofakes3"

	"hortus.dev/hortus/local/clouddaemon/s3"
)

func op(name string, object ...string) s3.Operation {
	object = append(object, "", "", "", "")
	return s3.Operation{Name: name, Bucket: object[0], Key: object[1], SourceBucket: object[2], SourceKey: object[3]}
}

func TestOperationOf(t *testing.T) {
	for name, tc := range map[string]struct {
		method, target, copySource string
		want                       s3.Operation
	}{
		"buckets":             {"GET", "/?x-id=ListBuckets", "", op("ListBuckets")},
		"a new bucket":        {"PUT", "/b", "", op("CreateBucket", "b")},
		"a bucket with /":     {"DELETE", "/b/", "", op("DeleteBucket", "b")},
		"a policy":            {"DELETE", "/b?policy", "", op("Other", "b")},
		"list":                {"GET", "/b?list-type=2&prefix=a%2F", "", op("ListObjects", "b")},
		"old list":            {"GET", "/b?marker=x", "", op("ListObjects", "b")},
		"many deletions":      {"POST", "/b?delete", "", op("DeleteObjects", "b")},
		"an object":           {"GET", "/b/a//c?x-id=GetObject", "", op("GetObject", "b", "a//c")},
		"a put":               {"PUT", "/b/k", "", op("PutObject", "b", "k")},
		"a copy":              {"PUT", "/b/k", "/c/d+e", op("CopyObject", "b", "k", "c", "d e")},
		"an escaped copy":     {"PUT", "/b/k", "c%2Fd%3F?versionId=1", op("CopyObject", "b", "k", "c", "d?")},
		"an upload":           {"POST", "/b/k?uploads", "", op("CreateMultipartUpload", "b", "k")},
		"a part":              {"PUT", "/b/k?uploadId=1&partNumber=2", "", op("UploadPart", "b", "k")},
		"the end":             {"POST", "/b/k?uploadId=1", "", op("CompleteMultipartUpload", "b", "k")},
		"an aborted upload":   {"DELETE", "/b/k?uploadId=1", "", op("AbortMultipartUpload", "b", "k")},
		"a tag":               {"PUT", "/b/k?tagging", "", op("Other", "b", "k")},
		"a method unheard-of": {"PATCH", "/b/k", "", op("Other", "b", "k")},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.target, nil)
			if tc.copySource != "" {
				r.Header.Set("X-Amz-Copy-Source", tc.copySource)
			}
			if diff := cmp.Diff(tc.want, s3.OperationOf(r)); diff != "" {
				t.Errorf("OperationOf() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func checksum(content string) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(content))))
}

// chunked frames content as clients do.
func chunked(content string, size int, trailers ...string) string {
	var out strings.Builder
	for rest := content; rest != ""; {
		n := min(size, len(rest))
		fmt.Fprintf(&out, "%x\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	fmt.Fprintf(&out, "0\r\n%s\r\n", strings.Join(append(trailers, ""), "\r\n"))
	return out.String()
}

func TestOpen(t *testing.T) {
	const content, crcTrailer = "the content of an object", "x-amz-checksum-crc32"
	crc, wrong := crcTrailer+":"+checksum(content), crcTrailer+":"+checksum("x")
	chunks := func(length int, trailer string) map[string]string {
		return map[string]string{
			"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Decoded-Content-Length": fmt.Sprint(length),
			"X-Amz-Trailer": trailer,
		}
	}
	plain := func(more ...string) map[string]string {
		out := map[string]string{"X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD"}
		if len(more) == 2 {
			out[more[0]] = more[1]
		}
		return out
	}
	hash := func(value string) map[string]string { return map[string]string{"X-Amz-Content-Sha256": value} }
	const sha = "b76c5c5ea2b2ea8fd4b9a5c2dfe7ff8c5ab4cbdb3f4a9b14bd9f0be5ae3ae0c1" // The checksum of other content.
	for name, tc := range map[string]struct {
		headers map[string]string
		body    string
		want    library.ErrorCode
	}{
		"plain":                 {plain(), content, ""},
		"plain with a checksum": {plain("X-Amz-Checksum-Crc32", checksum(content)), content, ""},
		"plain with a wrong checksum": {
			plain("X-Amz-Checksum-Crc32", checksum("x")), content, library.ErrBadDigest,
		},
		"signed with another hash": {hash(sha), content, library.ErrBadDigest},
		"content without a hash":   {nil, content, library.ErrBadDigest},
		"an unknown checksum": {
			plain("X-Amz-Checksum-Rot13", "x"), content, library.ErrInvalidRequest,
		},
		"one chunk": {
			chunks(len(content), crcTrailer), chunked(content, 100, crc), "",
		},
		"many chunks":               {chunks(len(content), crcTrailer), chunked(content, 5, crc), ""},
		"chunks without a checksum": {chunks(len(content), ""), chunked(content, 5), ""},
		"a checksum that was not announced": {
			chunks(len(content), crcTrailer), chunked(content, 5), library.ErrBadDigest,
		},
		"a wrong checksum in the trailer": {
			chunks(len(content), crcTrailer), chunked(content, 5, wrong), library.ErrBadDigest,
		},
		"chunks that are shorter": {
			chunks(len(content)+1, ""), chunked(content, 5), library.ErrIncompleteBody,
		},
		"chunks that are longer": {
			chunks(len(content)-1, ""), chunked(content, 100), library.ErrIncompleteBody,
		},
		"chunks that are longer by one": {
			chunks(len(content)-1, ""), chunked(content, len(content)-1), library.ErrIncompleteBody,
		},
		"chunks that are cut off": {
			chunks(len(content), ""), chunked(content, 5)[:20], library.ErrIncompleteBody,
		},
		"a chunk longer than its size": {
			chunks(len(content), ""), "5\r\n" + content + "\r\n", library.ErrInvalidRequest,
		},
		"a size that is no number": {
			chunks(len(content), ""), "x\r\n" + content, library.ErrIncompleteBody,
		},
		"an endless line": {
			chunks(len(content), ""), strings.Repeat("1", 1<<20), library.ErrInvalidRequest,
		},
		"trailers without end": {
			chunks(len(content), ""), chunked(content, 5, strings.Repeat("a:b\r\n", 20)), library.ErrInvalidRequest,
		},
		"an empty object": {
			chunks(0, crcTrailer), chunked("", 5, crcTrailer+":"+checksum("")), "",
		},
		"an empty object, wrong checksum": {
			chunks(0, crcTrailer), chunked("", 5, crc), library.ErrBadDigest,
		},
		"chunks without the whole length": {
			hash("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), chunked(content, 5), library.ErrMissingContentLength,
		},
		"signed chunks": {
			hash("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), content, library.ErrNotImplemented,
		},
		"a checksum behind plain content": {
			plain("X-Amz-Trailer", crcTrailer), content, library.ErrInvalidRequest,
		},
		"plain content that is not hashed": {hash("nonsense"), content, library.ErrInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			for how, body := range map[string]io.Reader{
				"at once": strings.NewReader(tc.body), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.body)),
			} {
				r := httptest.NewRequest(http.MethodPut, "/bucket/key", body)
				r.ContentLength = int64(len(tc.body))
				for k, v := range tc.headers {
					r.Header.Set(k, v)
				}
				got, err := read(r)
				if !library.HasErrorCode(err, tc.want) {
					t.Errorf("%s: error = %v, want code %q", how, err, tc.want)
				}
				if err == nil && got != content && got != "" {
					t.Errorf("%s: content = %q", how, got)
				}
			}
		})
	}
}

// read reads a request as the library does: no further than the length.
func read(r *http.Request) (string, error) {
	opened, err := s3.Open(r, s3.OperationOf(r))
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(opened.Body, opened.ContentLength))
	if err == nil && opened.Header.Get("X-Amz-Trailer") != "" {
		name, value := s3.BodyOf(opened.Context()).Checksum()
		if name != "X-Amz-Checksum-Crc32" || value != checksum(string(data)) {
			return "", fmt.Errorf("checksum %s: %s", name, value)
		}
	}
	return string(data), err
}

func TestEntityTagsOfParts(t *testing.T) {
	hash := bytes.Repeat([]byte{0xab}, 16)
	tag := s3.PartsETag(hash, 10_000)
	var seen string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("If-Match")
		w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", s3.ETagHash(tag))))
	})
	r := httptest.NewRequest(http.MethodHead, "/bucket/key", nil)
	r.Header.Set("If-Match", `"`+tag+`"`)
	opened, err := s3.Open(r, s3.OperationOf(r))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s3.Serve(handler, w, opened)
	if got, want := w.Header().Get("ETag"), `"`+tag+`"`; got != want {
		t.Errorf("ETag = %s, want %s", got, want)
	}
	if want := fmt.Sprintf("%q", fmt.Sprintf("%x", s3.ETagHash(tag))); seen != want {
		t.Errorf("the library sees %s, want %s", seen, want)
	}
	const md5 = "9a0364b9e99bb480dd25e1f0284c8555"
	if got := fmt.Sprintf("%x", s3.ETagHash(md5)); got != md5 {
		t.Errorf("the hash of a whole object is %s", got)
	}
}
