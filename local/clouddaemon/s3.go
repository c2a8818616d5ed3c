package clouddaemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/signature"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/s3"
)

// newS3 makes the library's server. Everything that the library does less strictly than S3, or not at all, is done
// before a request reaches it: credentials and accounts, faults, checksums and lengths of bodies.
func (c *Cloud) newS3() *gofakes3.GoFakeS3 {
	return gofakes3.New(&s3Backend{c},
		gofakes3.WithTimeSkewLimit(0), // The signature has been checked.
		gofakes3.WithUploadOwner(func(ctx context.Context) string { return callerOf(ctx).account }),
		gofakes3.WithLogger(s3Log{c}),
	)
}

// s3Log passes on what is worth a look; refused requests are the client's business.
type s3Log struct{ c *Cloud }

// Print implements [gofakes3.Logger].
func (l s3Log) Print(level gofakes3.LogLevel, v ...any) {
	if level == gofakes3.LogErr {
		l.c.log.Error("S3 request failed", "error", fmt.Sprint(v...))
	}
}

type callerKey struct{}

func withCaller(ctx context.Context, who caller) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// callerOf returns the caller of the S3 request with this context.
func callerOf(ctx context.Context) caller {
	who, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		panic("an S3 request without a caller has reached the buckets")
	}
	return who
}

// serveS3 answers one S3 request: credentials, permission, faults, body, operation.
func (c *Cloud) serveS3(w http.ResponseWriter, r *http.Request) {
	op := s3.OperationOf(r)
	who, err := c.authenticateS3(r)
	if err == nil {
		err = c.permitS3(who, op)
	}
	var fault api.Fault
	if err == nil {
		in := call{operation: op.Name, account: who.account, targets: []string{op.Bucket, op.Key}}
		fault, err = c.applyFaults(r.Context(), in)
	}
	var opened *http.Request
	if err == nil {
		opened, err = s3.Open(r.WithContext(withCaller(r.Context(), who)), op)
	}
	if err != nil {
		s3.WriteError(w, r, s3Error(err))
		return
	}
	if fault.Type == api.FaultLost {
		s3.Serve(c.s3.Server(), discard{http.Header{}}, opened)
		panic(http.ErrAbortHandler) // The server cuts the connection without an answer.
	}
	s3.Serve(c.s3.Server(), w, opened)
}

// discard is a response that is not sent.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// authenticateS3 verifies the signature of a request with the secret key it claims to be made with.
func (c *Cloud) authenticateS3(r *http.Request) (caller, error) {
	var found credentials
	result := signature.V4SignVerifyWithLookup(r, func(accessKey string) (string, bool) {
		c.store.view(func() { found, _ = c.store.credentials.get(accessKey) })
		return found.SecretKey, found.SecretKey != ""
	})
	if result != signature.ErrNone {
		refused := signature.GetAPIError(result)
		return caller{}, s3.Refuse(refused.HTTPStatusCode, refused.Code, "%s", refused.Description)
	}
	return found.caller(), nil
}

// permitS3 refuses operations on buckets of other accounts, and on any bucket but the one that the credentials are
// limited to.
func (c *Cloud) permitS3(who caller, op s3.Operation) error {
	limited := who.bucket != "" && (op.Bucket != who.bucket || op.Name == s3.CreateBucket || op.Name == s3.DeleteBucket)
	buckets := []string{op.Bucket, op.SourceBucket}
	if op.Name == s3.CreateBucket { // The answer is that the name is taken.
		buckets = nil
	}
	c.store.view(func() {
		for _, name := range buckets {
			b, exists := c.store.buckets.get(name)
			limited = limited || (exists && !who.may(b.Account)) || (name != "" && who.bucket != "" && name != who.bucket)
		}
	})
	if limited {
		return s3.Refuse(http.StatusForbidden, "AccessDenied", "account %q may not call %s on %q",
			who.account, op.Name, op.Bucket)
	}
	return nil
}

// s3Error is the response to a request that failed before it reached the library. It has the code of S3 if there is
// one, and the cloud's own otherwise, so that text-based classification finds the same class as for other operations.
func s3Error(err error) *s3.Error {
	var refused *s3.Error
	var body gofakes3.Error
	var own *api.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &body):
		return s3.Refuse(body.ErrorCode().Status(), string(body.ErrorCode()), "%s", body.Error())
	case !errors.As(err, &own):
		return s3.Refuse(http.StatusInternalServerError, "InternalError", "%s", err)
	}
	switch own.Code {
	case api.CodeUnauthorized:
		return s3.Refuse(http.StatusForbidden, "AccessDenied", "%s", own.Message)
	case api.CodeRateLimited:
		return s3.Refuse(http.StatusServiceUnavailable, "SlowDown", "%s", own)
	default:
		return s3.Refuse(api.HTTPStatus(own.Code), string(own.Code), "%s", own.Message)
	}
}
