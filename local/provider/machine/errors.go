package machine

import (
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"

	"hortus.dev/hortus/local/cloud"
)

// statusError gives an error of the cloud the code by which the machine controller chooses when to retry. The text is
// kept: users read it in the Worker, and its words determine the error class.
func statusError(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(code(cloud.CodeOf(err)), err.Error())
}

func code(c cloud.Code) codes.Code {
	switch c {
	case cloud.CodeAuthFailure:
		return codes.Unauthenticated
	case cloud.CodeUnauthorized:
		return codes.PermissionDenied
	case cloud.CodeQuotaExceeded, cloud.CodeDepleted:
		return codes.ResourceExhausted // The autoscaler then tries another pool.
	case cloud.CodeRateLimited, cloud.CodeBusy, cloud.CodeUnavailable:
		return codes.Unavailable
	case cloud.CodeDependency:
		return codes.FailedPrecondition
	case cloud.CodeInvalid:
		return codes.InvalidArgument
	case cloud.CodeNotFound:
		return codes.NotFound
	case cloud.CodeAlreadyExists:
		return codes.AlreadyExists
	case cloud.CodeInternal:
		return codes.Internal
	default:
		return codes.Unknown // No answer of the cloud, for example a broken connection: retried soon.
	}
}
