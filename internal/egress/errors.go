package egress

import "errors"

// Result is the result of a request to connect; a label value of metrics.
type Result string

// Results.
const (
	Allowed        Result = "allowed"
	RefusedAddress Result = "refused_address"
	RefusedName    Result = "refused_name"
	Unresolved     Result = "unresolved"
	Failed         Result = "failed"
)

// Error is a connection that was not made.
type Error struct {
	Result Result
	// Reason is a short text for the requester of the connection. It contains no internal information, such as the
	// addresses that a name was resolved to.
	Reason string
	// Expired: the time was up.
	Expired bool
	// Err is the cause, for the operator's log; nil if there is none.
	Err error
}

// Error returns the reason with its cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the time was up.
func (e *Error) Timeout() bool { return e.Expired }

// ResultOf returns the result that err stands for: Allowed for nil, Failed for errors of other packages.
func ResultOf(err error) Result {
	var e *Error
	switch {
	case err == nil:
		return Allowed
	case errors.As(err, &e):
		return e.Result
	default:
		return Failed
	}
}
