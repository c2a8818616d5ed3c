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

// Base holds what all plugins share: the operations they handle and the objects they read.
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

// Concerns reports whether a request is for the resource or one of the given subresources. If so it waits for the
// caches, and fails if they are not filled in time.
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

// Await waits for the caches. If that takes too long the status is 403, as for any plugin of a Kubernetes API server.
func (b *Base) Await(a admission.Attributes) error {
	if !b.WaitForReady() {
		return admission.NewForbidden(a,
			errors.New("the server is starting: the caches of admission are not filled yet; try again"))
	}
	return nil
}

// Forbid turns field errors into the status 403 with one message for all of them; nil if there are none.
func Forbid(a admission.Attributes, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return admission.NewForbidden(a, errs.ToAggregate())
}

// InternalError returns the status 500. An error that already has this status is returned unchanged.
func InternalError(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) && apierrors.IsInternalError(status) {
		return status
	}
	return apierrors.NewInternalError(err)
}

// maxNamed bounds how many objects an error lists. A Seed may have thousands of Shoots.
const maxNamed = 10

// Named lists names for an error: sorted, at most 10, with the number of the others.
func Named(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Refuse turns field errors into the status 422 with one cause per error; nil if there are none.
func Refuse(a admission.Attributes, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(a.GetKind().GroupKind(), a.GetName(), errs)
}
