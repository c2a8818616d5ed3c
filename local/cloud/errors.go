package cloud

import (
	"errors"
	"fmt"
	"net/http"
)

// Code classifies an Error. The codes are those of public clouds, so that Gardener's text-based error classification
// recognizes them.
type Code string

const (
	// CodeAuthFailure means that the credentials are missing or unknown.
	CodeAuthFailure Code = "AuthFailure"
	// CodeUnauthorized means that the credentials are known but may not do this.
	CodeUnauthorized Code = "UnauthorizedOperation"
	// CodeQuotaExceeded means that the account's quota leaves no room.
	CodeQuotaExceeded Code = "QuotaExceeded"
	// CodeRateLimited means that the caller should slow down and retry.
	CodeRateLimited Code = "RequestLimitExceeded"
	// CodeDepleted means that the cloud has no capacity for this machine type in this zone at the moment.
	CodeDepleted Code = "InsufficientInstanceCapacity"
	// CodeDependency means that other objects still use this one.
	CodeDependency Code = "DependencyViolation"
	// CodeBusy means that another operation of the cloud on which this one depends is still in progress.
	CodeBusy Code = "RetryableError"
	// CodeInvalid means that the request itself is wrong.
	CodeInvalid Code = "InvalidParameterValue"
	// CodeNotFound means that the object does not exist. It is not called "notFound", which text-based classification
	// takes for a configuration problem.
	CodeNotFound Code = "NoSuchResource"
	// CodeAlreadyExists means that the name is taken by an object with other parameters.
	CodeAlreadyExists Code = "AlreadyExists"
	// CodeUnavailable means that the cloud could not answer; the operation may or may not have happened.
	CodeUnavailable Code = "Unavailable"
	// CodeInternal means that the cloud failed.
	CodeInternal Code = "InternalError"
)

// Error is the error of every failed call, wrapped or not; use errors.As or CodeOf.
type Error struct {
	// code classifies the error.
	Code Code `json:"code"`
	// message describes the problem, for people.
	Message string `json:"message"`
	// retryable is true when the same request may succeed later without user action.
	Retryable bool `json:"retryable"`
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Errorf makes an Error; whether it is retryable follows from the code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: retryable(code)}
}

func retryable(code Code) bool {
	switch code {
	case CodeRateLimited, CodeDepleted, CodeUnavailable, CodeInternal, CodeDependency, CodeBusy:
		return true
	default:
		return false
	}
}

// HTTPStatus returns the HTTP status of the API for a code.
func HTTPStatus(code Code) int {
	switch code {
	case CodeAuthFailure:
		return http.StatusUnauthorized
	case CodeUnauthorized, CodeQuotaExceeded:
		return http.StatusForbidden
	case CodeRateLimited:
		return http.StatusTooManyRequests
	case CodeDependency, CodeBusy, CodeAlreadyExists:
		return http.StatusConflict
	case CodeInvalid:
		return http.StatusBadRequest
	case CodeNotFound:
		return http.StatusNotFound
	case CodeDepleted, CodeUnavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// CodeOf returns the code of the Error in err's chain, or "" if there is none.
func CodeOf(err error) Code {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// IsNotFound reports whether err says that the object does not exist.
func IsNotFound(err error) bool { return CodeOf(err) == CodeNotFound }

// IgnoreNotFound returns nil if err says that the object does not exist, and err otherwise.
func IgnoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}
