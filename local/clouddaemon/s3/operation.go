package s3

import (
	"net/http"
	"net/url"
	"strings"
)

// Names of operations that other code refers to. All names are those of the S3 API, without the version of lists.
const (
	ListBuckets  = "ListBuckets"
	CreateBucket = "CreateBucket"
	DeleteBucket = "DeleteBucket"
	// Other is every operation that the table of operations lacks, such as requests for policies.
	Other = "Other"
)

// Operation is the operation that a request calls.
type Operation struct {
	// Name is the operation's name in the S3 API; lists have the same name in all versions.
	Name string
	// Bucket and Key are the object of the operation, path-style. They may be empty.
	Bucket, Key string
	// SourceBucket and SourceKey are the source of a copy, otherwise empty.
	SourceBucket, SourceKey string
}

// IsRequest reports whether a request is signed as S3 requests are, in its header or its query.
func IsRequest(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-") || presigned(r)
}

// presigned reports whether the signature is in the query.
func presigned(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && r.URL.Query().Has("X-Amz-Signature")
}

// OperationOf returns the operation of a request.
func OperationOf(r *http.Request) Operation {
	bucket, key, _ := strings.Cut(strings.TrimLeft(r.URL.Path, "/"), "/")
	out := Operation{Bucket: bucket, Key: key}
	query := r.URL.Query()
	switch {
	case bucket == "":
		out.Name = named(r.Method, map[string]string{http.MethodGet: ListBuckets})
	case key == "":
		out.Name = bucketOperation(r.Method, query)
	default:
		out.Name = objectOperation(r.Method, query, r.Header)
		out.SourceBucket, out.SourceKey = copySource(r.Header)
	}
	return out
}

const headerCopySource = "X-Amz-Copy-Source"

// copySource returns the source of a copy. Some clients escape the slash between bucket and key, others do not.
func copySource(h http.Header) (bucket, key string) {
	path, _, _ := strings.Cut(h.Get(headerCopySource), "?") // The rest is a version.
	if unescaped, err := url.QueryUnescape(path); err == nil {
		path = unescaped
	}
	bucket, key, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return bucket, key
}

// plainQuery are the query parameters that do not change the operation of a request.
var plainQuery = map[string]bool{
	"list-type": true, "prefix": true, "delimiter": true, "max-keys": true, "marker": true, "continuation-token": true,
	"start-after": true, "encoding-type": true, "fetch-owner": true, "x-id": true, "partnumber": true, "versionid": true,
}

func isPlain(query url.Values) bool {
	for name := range query {
		name = strings.ToLower(name)
		if !plainQuery[name] && !strings.HasPrefix(name, "x-amz-") && !strings.HasPrefix(name, "response-") {
			return false
		}
	}
	return true
}

func bucketOperation(method string, query url.Values) string {
	switch {
	case query.Has("delete"):
		return named(method, map[string]string{http.MethodPost: "DeleteObjects"})
	case query.Has("uploads"):
		return named(method, map[string]string{http.MethodGet: "ListMultipartUploads"})
	case query.Has("location"):
		return named(method, map[string]string{http.MethodGet: "GetBucketLocation"})
	case !isPlain(query):
		return Other
	}
	return named(method, map[string]string{
		http.MethodGet: "ListObjects", http.MethodHead: "HeadBucket",
		http.MethodPut: CreateBucket, http.MethodDelete: DeleteBucket,
	})
}

func objectOperation(method string, query url.Values, header http.Header) string {
	isCopy := header.Get(headerCopySource) != ""
	switch {
	case query.Has("uploads"):
		return named(method, map[string]string{http.MethodPost: "CreateMultipartUpload"})
	case query.Has("uploadId"):
		part := "UploadPart"
		if isCopy {
			part = "UploadPartCopy"
		}
		return named(method, map[string]string{
			http.MethodPut: part, http.MethodPost: "CompleteMultipartUpload",
			http.MethodDelete: "AbortMultipartUpload", http.MethodGet: "ListParts",
		})
	case query.Has("attributes"):
		return named(method, map[string]string{http.MethodGet: "GetObjectAttributes"})
	case !isPlain(query):
		return Other
	}
	put := "PutObject"
	if isCopy {
		put = "CopyObject"
	}
	return named(method, map[string]string{
		http.MethodGet: "GetObject", http.MethodHead: "HeadObject", http.MethodPut: put, http.MethodDelete: "DeleteObject",
	})
}

func named(method string, names map[string]string) string {
	if name, ok := names[method]; ok {
		return name
	}
	return Other
}
