package unit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Handler serves the supervisor's operations to [Client]:
//
//	GET  /v1/units                   all units
//	GET  /v1/units/{name}            one unit
//	POST /v1/units/{name}/{action}   action: start, stop, restart, enable, disable
//	POST /v1/daemon-reload
//
// Every client that can reach it can run any program as the supervisor's user.
func (s *Supervisor) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/units", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.List()
		reply(w, list, err)
	})
	mux.HandleFunc("GET /v1/units/{name}", func(w http.ResponseWriter, r *http.Request) {
		status, err := s.Status(r.PathValue("name"))
		reply(w, status, err)
	})
	mux.HandleFunc("POST /v1/units/{name}/{action}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, s.do(r.Context(), r.PathValue("name"), r.PathValue("action")))
	})
	mux.HandleFunc("POST /v1/daemon-reload", func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, s.Reload())
	})
	return mux
}

var errUnknownAction = errors.New("the action is not one of start, stop, restart, enable, disable")

func (s *Supervisor) do(ctx context.Context, name, action string) error {
	// A unit may request its own restart; the stop ends the client, and must not end the request.
	ctx = context.WithoutCancel(ctx)
	switch action {
	case "start":
		return s.Start(ctx, name)
	case "stop":
		return s.Stop(ctx, name)
	case "restart":
		return s.Restart(ctx, name)
	case "enable":
		return s.Enable(name)
	case "disable":
		return s.Disable(name)
	}
	return errUnknownAction
}

type failure struct {
	Message string `json:"message"`
}

func reply(w http.ResponseWriter, value any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		status := http.StatusInternalServerError
		switch {
		case errors.Is(err, ErrNotFound):
			status = http.StatusNotFound
		case errors.Is(err, errUnknownAction):
			status = http.StatusBadRequest
		case errors.Is(err, ErrClosed):
			status = http.StatusServiceUnavailable
		}
		w.WriteHeader(status)
		value = failure{Message: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(value) // It only fails if the client has disconnected.
}
