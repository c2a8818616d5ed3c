package s3

import (
	"encoding/xml"
	"fmt"
	"net/http"

	"github.com/rclone/gofakes3"
)

// Error is an answer that refuses a request.
type Error struct {
	Code    string
	Message string
	Status  int
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Refuse makes an Error.
func Refuse(status int, code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Status: status}
}

// document is the body of an error answer.
type document struct {
	XMLName  xml.Name `xml:"Error"`
	Code     string
	Message  string
	Resource string
}

// WriteError answers with an error document.
func WriteError(w http.ResponseWriter, r *http.Request, e *Error) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(e.Status)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = fmt.Fprint(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(document{Code: e.Code, Message: e.Message, Resource: r.URL.Path})
}

// bad is an error of a body, in the form in which the library passes it on to the client.
func bad(code gofakes3.ErrorCode, format string, args ...any) error {
	return gofakes3.ErrorMessagef(code, format, args...)
}
