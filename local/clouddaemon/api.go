package clouddaemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/s3"
)

// maxRequestBytes bounds the body of a request: user data plus its JSON quoting and the rest.
const maxRequestBytes = 4 << 20

// request is an authenticated request.
type request struct {
	*http.Request
	who   caller
	body  []byte    // Empty for streaming operations.
	fault api.Fault // The fault that strikes the request; its type is empty if there is none.
}

// decode reads the body as JSON and rejects unknown fields.
func decode[T any](r *request) (T, error) {
	var out T
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return out, invalid("request body: %v", err)
	}
	return out, nil
}

// filter reads the filter of a list call.
func (r *request) filter() api.Filter {
	q := r.URL.Query()
	f := api.Filter{Name: q.Get("name"), NetworkID: q.Get("networkID"), Tags: map[string]string{}}
	for _, t := range q["tag"] {
		k, v, _ := strings.Cut(t, "=")
		f.Tags[k] = v
	}
	return f
}

// raw is an answer that is not JSON.
type raw struct{ io.ReadCloser }

// Handler returns the HTTP handler of the API, the registry, the health check and the S3 API. Requests with a signature
// belong to the S3 API, whatever their path, so that buckets can have any name and paths remain as they were signed.
func (c *Cloud) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { c.serve(w, req, r) })
	}
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, req *http.Request) {
		writeError(w, api.Errorf(api.CodeNotFound, "path: not found: %s %s", req.Method, req.URL.Path))
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	if c.images != nil {
		mux.Handle("/v2/", c.guardImages(c.images))
	}
	buckets := http.HandlerFunc(c.serveS3)
	mux.Handle("/", buckets) // Rejects other requests as S3 does.
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if s3.IsRequest(req) {
			buckets.ServeHTTP(w, req)
			return
		}
		mux.ServeHTTP(w, req)
	})
}

// serve answers one request: credentials, body, faults, operation.
func (c *Cloud) serve(w http.ResponseWriter, req *http.Request, r route) {
	who, err := c.authenticate(req)
	switch {
	case err != nil:
	case r.admin && !who.admin:
		err = api.Errorf(api.CodeUnauthorized, "Unauthorized: only administrators may call %s", r.operation)
	case who.bucket != "" && (!r.inBucket || req.PathValue("name") != who.bucket):
		err = api.Errorf(api.CodeUnauthorized, "Unauthorized: the credentials are limited to bucket %q", who.bucket)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	in := &request{Request: req, who: who}
	if !r.streams && req.Body != nil {
		in.body, err = io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequestBytes))
		if err != nil {
			writeError(w, invalid("request body: %v", err))
			return
		}
	}
	if !strings.HasSuffix(r.operation, "Fault") && !strings.HasSuffix(r.operation, "Faults") {
		// Faults can always be ended.
		strikes := call{operation: r.operation, account: who.account, targets: requestTargets(in)}
		if in.fault, err = c.applyFaults(req.Context(), strikes); err != nil {
			writeError(w, err)
			return
		}
	}
	out, err := r.handle(c, in)
	if in.fault.Type == api.FaultLost {
		if content, ok := out.(raw); ok {
			content.Close()
		}
		panic(http.ErrAbortHandler) // The server cuts the connection without an answer.
	}
	if err != nil {
		c.logFailure(r.operation, who, err)
		writeError(w, err)
		return
	}
	writeAnswer(w, out)
}

// applyFaults applies the matching fault to the request, and returns it. The response of one that is lost must not be
// sent.
func (c *Cloud) applyFaults(ctx context.Context, in call) (api.Fault, error) {
	f, hit, err := c.strike(in)
	if err != nil || !hit {
		return api.Fault{}, err
	}
	c.log.Info("Fault strikes", "fault", f.Name, "operation", in.operation, "account", in.account)
	if f.Type == api.FaultSlow {
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-c.clock.After(time.Duration(f.DelaySeconds * float64(time.Second))):
		}
	}
	return f, faultError(f, in)
}

// requestTargets returns the names and IDs in a request that the target of a fault can match.
func requestTargets(r *request) []string {
	var body struct{ Name, Zone, MachineType, NetworkID, Cluster string }
	_ = json.Unmarshal(r.body, &body) // Only the operation reports errors of the body.
	var out []string
	for _, v := range []string{
		r.PathValue("id"), r.PathValue("name"), r.PathValue("key"), body.Name, body.Zone, body.MachineType, body.NetworkID,
		body.Cluster,
	} {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}

// logFailure logs an error unless the caller caused it.
func (c *Cloud) logFailure(operation string, who caller, err error) {
	if code := api.CodeOf(err); code == "" || code == api.CodeInternal {
		c.log.Error("Operation failed", "operation", operation, "account", who.account, "error", err)
	}
}

func writeAnswer(w http.ResponseWriter, out any) {
	if content, ok := out.(raw); ok {
		defer content.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.Copy(w, content) // The client notices the cut.
		return
	}
	if out == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

func writeError(w http.ResponseWriter, err error) {
	var e *api.Error
	if !errors.As(err, &e) {
		e = api.Errorf(api.CodeInternal, "%v", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(api.HTTPStatus(e.Code))
	_ = json.NewEncoder(w).Encode(e)
}

// maxEventWait bounds a long poll.
const maxEventWait = time.Minute

// waitForEvents returns when there is an event after since that the caller may see, or when the wait has expired.
func (c *Cloud) waitForEvents(ctx context.Context, who caller, since int64, wait time.Duration) api.EventList {
	deadline := c.clock.After(min(wait, maxEventWait))
	for {
		list, changed := c.store.eventsSince(since)
		list.Events = slices.DeleteFunc(list.Events, func(e api.Event) bool { return !who.may(e.Account) })
		if since == 0 || list.Reset || len(list.Events) > 0 {
			return list
		}
		since = list.Revision
		select {
		case <-changed:
		case <-deadline:
			return list
		case <-ctx.Done():
			return list
		}
	}
}
