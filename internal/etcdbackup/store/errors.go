package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
)

// Reason is the kind of failure of an Error.
type Reason string

// The reasons.
const (
	// Refused means that the credentials are wrong or lack a permission.
	Refused Reason = "CredentialsRefused"
	// BucketMissing means that the bucket or folder does not exist.
	BucketMissing Reason = "BucketMissing"
	// ObjectMissing means that one object does not exist.
	ObjectMissing Reason = "ObjectMissing"
	// Exists means that an object that must be new already exists.
	Exists Reason = "ObjectExists"
	// Unreachable means no answer, a too slow one, or an overloaded server.
	Unreachable Reason = "Unreachable"
	// Unsupported means that the server lacks a feature that is needed.
	Unsupported Reason = "Unsupported"
	// Misconfigured means that the credentials folder cannot be used.
	Misconfigured Reason = "Misconfigured"
	// Failed is everything else.
	Failed Reason = "Failed"
)

// advice is the next step for people.
var advice = map[Reason]string{
	Refused:       "Check the keys and that they may list, read, write and delete objects.",
	BucketMissing: "Create the bucket or correct bucketName, region and endpoint.",
	Unreachable:   "Check the endpoint, DNS, firewalls and the provider's status.",
	Unsupported:   "The object store must support conditional writes (If-None-Match: *).",
	Misconfigured: "Correct the credentials.",
}

// Error is a failure of the object store. Its text has no secrets.
type Error struct {
	Reason Reason
	// Op is the failed operation, such as `list objects`.
	Op string
	// Location names provider, bucket and endpoint.
	Location string
	detail   string
	cause    error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s in %s: %s", e.Op, e.Location, e.detail)
	if a := advice[e.Reason]; a != "" {
		text += ". " + a
	}
	return text
}

// Unwrap returns the cause if it carries no text of the provider: the end of a context.
func (e *Error) Unwrap() error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(e.cause, known) {
			return known
		}
	}
	return nil
}

// ReasonOf returns the reason of an Error within err, or Failed.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return Failed
}

// answer returns the provider's HTTP status and its own error code; status 0 if there was no response.
func answer(err error) (status int, code string) {
	var aws *smithyhttp.ResponseError
	var api smithy.APIError
	var azure *azcore.ResponseError
	var gcs *googleapi.Error
	var token *oauth2.RetrieveError
	switch {
	case errors.As(err, &azure):
		return azure.StatusCode, azure.ErrorCode
	case errors.As(err, &gcs):
		if len(gcs.Errors) > 0 {
			code = gcs.Errors[0].Reason
		}
		return gcs.Code, code
	case errors.As(err, &token):
		return http.StatusUnauthorized, token.ErrorCode
	case errors.Is(err, storage.ErrObjectNotExist), errors.Is(err, storage.ErrBucketNotExist):
		return http.StatusNotFound, ""
	case errors.As(err, &aws):
		if errors.As(err, &api) {
			code = api.ErrorCode()
		}
		return aws.HTTPStatusCode(), code
	case errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound, ""
	case errors.Is(err, fs.ErrPermission):
		return http.StatusForbidden, ""
	case errors.Is(err, fs.ErrExist):
		return http.StatusPreconditionFailed, ""
	}
	return 0, ""
}

// explain classifies err. list says that the operation concerned the bucket, not one object.
func explain(err error, op, location string, c credentials, list bool) *Error {
	status, code := answer(err)
	e := &Error{Op: op, Location: location, cause: err}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, code == "InvalidAccessKeyId":
		e.Reason, e.detail = Refused, "the credentials are refused"
	case status == http.StatusNotFound && (list || code == "NoSuchBucket" || code == "ContainerNotFound"):
		e.Reason, e.detail = BucketMissing, "it does not exist"
	case status == http.StatusNotFound:
		e.Reason, e.detail = ObjectMissing, "the object does not exist"
	case status == http.StatusPreconditionFailed, code == "BlobAlreadyExists", code == "ConditionalRequestConflict":
		e.Reason, e.detail = Exists, "the object exists"
	case status == http.StatusNotImplemented:
		e.Reason, e.detail = Unsupported, "the server does not implement the request"
	case status == http.StatusMovedPermanently, status == http.StatusTemporaryRedirect,
		status == http.StatusPermanentRedirect:
		e.Reason, e.detail = BucketMissing, "it is in another region"
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		e.Reason, e.detail = Unreachable, fmt.Sprintf("the server is overloaded or failing: HTTP %d", status)
	case status != 0:
		e.Reason, e.detail = Failed, fmt.Sprintf("HTTP %d", status)
	case errors.Is(err, context.Canceled):
		e.Reason, e.detail = Failed, "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		e.Reason, e.detail = Unreachable, "no answer in time"
	default:
		e.Reason, e.detail = transportFailure(err)
		e.detail = c.scrub(e.detail)
	}
	if status != 0 && code != "" {
		e.detail += " (" + code + ")"
	}
	return e
}

func transportFailure(err error) (Reason, string) {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return Unreachable, "the server's certificate is signed by an unknown authority; add the authority as " +
			keyTrustedCA
	case errors.As(err, &host):
		return Unreachable, "the server's certificate is for another name"
	case errors.As(err, &record):
		return Unreachable, "the server does not speak TLS"
	}
	text := innermost(err).Error()
	if line, _, more := strings.Cut(text, "\n"); more {
		text = line
	}
	return Unreachable, text
}

// innermost avoids the long chain of prefixes that the libraries add.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
