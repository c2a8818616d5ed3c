package s3

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

// An object that was uploaded in parts has an entity tag of the form <hash>-<number of parts>, by which clients see
// that it is no MD5 of the content. The library only writes entity tags that are hexadecimal: for it such a tag is
// the hash followed by the number in 4 digits, and the two forms are exchanged on the way in and out.

var (
	inParts  = regexp.MustCompile(`\b([0-9a-f]{32})-([0-9]{1,5})\b`)
	packed   = regexp.MustCompile(`^"([0-9a-f]{36})"$`)
	hashSize = 16
)

// ETagHash returns what the library is to use as the hash of an object with this entity tag, which has no quotes.
func ETagHash(etag string) []byte {
	hash, _ := hex.DecodeString(PackETag(etag))
	return hash
}

// PartsETag is the entity tag, without quotes, of an object made of parts; hash is the MD5 of their MD5 sums.
func PartsETag(hash []byte, parts int) string { return fmt.Sprintf("%x-%d", hash, parts) }

// PackETag brings all entity tags in a text into the form for the library.
func PackETag(text string) string {
	return inParts.ReplaceAllStringFunc(text, func(tag string) string {
		m := inParts.FindStringSubmatch(tag)
		parts, err := strconv.ParseUint(m[2], 10, 16)
		if err != nil {
			return tag
		}
		return m[1] + hex.EncodeToString(binary.BigEndian.AppendUint16(nil, uint16(parts)))
	})
}

// conditions are the headers that hold entity tags.
var conditions = []string{
	"If-Match", "If-None-Match", "X-Amz-Copy-Source-If-Match", "X-Amz-Copy-Source-If-None-Match",
}

// packConditions brings entity tags in a request into the form for the library.
func packConditions(h http.Header) {
	for _, name := range conditions {
		if v := h.Get(name); v != "" {
			h.Set(name, PackETag(v))
		}
	}
}

// Serve lets the library answer a request, with entity tags in the form for clients.
func Serve(library http.Handler, w http.ResponseWriter, r *http.Request) {
	a := &answers{ResponseWriter: w}
	library.ServeHTTP(a, r)
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
}

type answers struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (a *answers) WriteHeader(status int) {
	if m := packed.FindStringSubmatch(a.Header().Get("ETag")); m != nil && !a.begun {
		hash, _ := hex.DecodeString(m[1])
		parts := int(binary.BigEndian.Uint16(hash[hashSize:]))
		a.Header().Set("ETag", `"`+PartsETag(hash[:hashSize], parts)+`"`)
	}
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answers) Write(p []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap gives [http.ResponseController] the connection.
func (a *answers) Unwrap() http.ResponseWriter { return a.ResponseWriter }
