package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
)

// Base is what the plugins share: the operations they handle and the objects they read.
type Base struct {
	*admission.Handler
	*Objects
}

// NewBase returns the base of a plugin that handles the given operations.
func NewBase(operations ...admission.Operation) Base {
	return Base{Handler: admission.NewHandler(operations...)}
}

// SetObjects implements WantsObjects.
func (b *Base) SetObjects(objects *Objects) {
	b.Objects = objects
	b.SetReadyFunc(objects.Ready)
}

// ValidateInitialization implements admission.InitializationValidator.
func (b *Base) ValidateInitialization() error {
	if b.Objects == nil {
		return errors.New("the plugin has no objects to read")
	}
	return nil
}

// Concerns says whether a request is on the resource itself or on one of the given subresources, and can be decided
// now. It waits for the caches.
func (b *Base) Concerns(a admission.Attributes, resource string, subresources ...string) (bool, error) {
	if a.GetResource().Resource != resource || a.GetSubresource() != "" &&
		!slices.Contains(subresources, a.GetSubresource()) {
		return false, nil
	}
	if err := b.Await(a); err != nil {
		return false, err
	}
	return true, nil
}

// Await waits for the caches. The answer is 403 when they take too long, as of any plugin of a Kubernetes API server.
func (b *Base) Await(a admission.Attributes) error {
	if !b.WaitForReady() {
		return admission.NewForbidden(a,
			errors.New("the server is starting: the caches of admission are not filled yet; try again"))
	}
	return nil
}

// Forbid turns field errors into the answer 403, as one message with all of them. No errors make no answer.
func Forbid(a admission.Attributes, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return admission.NewForbidden(a, errs.ToAggregate())
}

// InternalError is the answer 500. An answer that says already that it is one stays as it is.
func InternalError(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) && apierrors.IsInternalError(status) {
		return status
	}
	return apierrors.NewInternalError(err)
}

// maxNamed bounds how many objects an answer names. A Seed may have thousands of Shoots.
const maxNamed = 10

// Named lists names for an answer: sorted, at most ten, and how many more there are.
func Named(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Refuse turns field errors into the answer 422 with one cause per error.
func Refuse(a admission.Attributes, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(a.GetKind().GroupKind(), a.GetName(), errs)
}
