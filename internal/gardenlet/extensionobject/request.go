package extensionobject

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// AnnotationChecksum is a checksum of the extension's inputs other than the spec, such as credentials. It is written
// together with the request, so that a process that stops between the change of a Secret and the request loses nothing.
const AnnotationChecksum = "hortus.dev/input-checksum"

// AnnotationSpecChecksum is a checksum of the spec as the gardenlet has written it. The object's spec may differ from
// it, since webhooks of extensions may change it.
const AnnotationSpecChecksum = "hortus.dev/spec-checksum"

// Wanted is the desired state of an extension object.
type Wanted struct {
	// Object has the metadata and the spec. Ensure replaces it with the object as returned by the server.
	Object extensionsv1alpha1.Object
	// Restore requests the operation restore, which adopts resources made by another seed, instead of reconcile.
	Restore bool
	// Checksum of the extension's inputs other than the spec.
	Checksum string
	// Force requests the operation even if nothing has changed.
	Force bool
	// FailingSince is the time at which the present error first occurred; zero without an error.
	FailingSince time.Time
}

func (w *Wanted) operation() string {
	if w.Restore {
		return extensionsv1alpha1.OperationRestore
	}
	return extensionsv1alpha1.OperationReconcile
}

// Ensure creates the object or updates its spec, requests the operation if that is due, and returns its progress. A
// conflict with another writer is returned unchanged.
func Ensure(ctx context.Context, c client.Client, w Wanted, now time.Time) (Progress, error) {
	kind := KindOf(w.Object)
	current := w.Object.DeepCopyObject().(extensionsv1alpha1.Object)
	found, err := kube.Exists(ctx, c, current)
	if err != nil {
		return Progress{}, err
	}
	request := Request{Operation: w.operation(), At: now}
	annotate(w.Object, AnnotationChecksum, w.Checksum)
	if !found {
		request.Reason = "the object is new"
		return waiting("%s %s is being created", kind, w.Object.GetName()), request.Create(ctx, c, w.Object)
	}
	if current.GetDeletionTimestamp() != nil {
		return waiting("%s %s is being deleted before it can be created again", kind, current.GetName()), nil
	}
	if request.Reason = due(current, w, now); request.Reason != "" {
		before := SpecOf(current)
		if err := request.Update(ctx, c, current, w.Object); err != nil {
			return Progress{}, err
		}
		failed := failure(kind, current, w.FailingSince)
		if failed != nil && !w.Force && SameJSON(before, SpecOf(current)) {
			return *failed, nil // The error stays visible until the retry has ended.
		}
		return waiting("%s %s is being reconciled", kind, current.GetName()), nil
	}
	reflect.ValueOf(w.Object).Elem().Set(reflect.ValueOf(current).Elem())
	return observe(kind, current, w.FailingSince), nil
}

// due returns why a request to the extension is due; "" if none is.
func due(current extensionsv1alpha1.Object, w Wanted, now time.Time) string {
	at, ok := RequestedAt(current)
	last := current.GetDefaultStatus().LastOperation
	switch {
	case !ok:
		return "nothing was requested of it yet"
	case w.Force:
		return "it was requested"
	case current.GetAnnotations()[AnnotationChecksum] != w.Checksum:
		return "its credentials have changed"
	case SpecDiffers(current, w.Object):
		return "its specification has changed"
	case pending(current) && requested(current) != extensionsv1alpha1.OperationRestore:
		return "" // The extension has not begun yet. A request to restore stays until it has succeeded.
	case last != nil && last.Type == corev1beta1.LastOperationTypeMigrate:
		if w.Restore && !pending(current) {
			return "another seed has released it"
		}
		return "" // A migrated object stays as it is.
	case now.Before(retryAt(at, w.FailingSince)):
		return ""
	case failure("", current, w.FailingSince) != nil:
		return "its last operation has failed"
	case !pending(current) && last != nil && last.State == corev1beta1.LastOperationStateSucceeded &&
		olderThan(current, at):
		return "its last request was not answered"
	}
	return ""
}

// Migrate requests the operation migrate, then deletes the object, and returns the progress: done when the object is
// gone.
func Migrate(
	ctx context.Context, c client.Client, o extensionsv1alpha1.Object, failingSince, now time.Time,
) (Progress, error) {
	kind := KindOf(o)
	found, err := kube.Exists(ctx, c, o)
	if err != nil {
		return Progress{}, err
	}
	if !found {
		return Progress{State: Done}, nil
	}
	last := o.GetDefaultStatus().LastOperation
	migrating := last != nil && last.Type == corev1beta1.LastOperationTypeMigrate
	migrated := migrating && last.State == corev1beta1.LastOperationStateSucceeded && !pending(o)
	switch {
	case o.GetDeletionTimestamp() != nil || migrated:
		return Delete(ctx, c, o, failingSince, now)
	case migrating || requested(o) == extensionsv1alpha1.OperationMigrate:
		if failed := failure(kind, o, failingSince); migrating && failed != nil {
			return *failed, again(ctx, c, o, extensionsv1alpha1.OperationMigrate, failed.RetryAt, now)
		}
		return waiting("%s %s is being migrated", kind, o.GetName()), nil
	}
	request := Request{Operation: extensionsv1alpha1.OperationMigrate, Reason: "another seed takes it over", At: now}
	return waiting("%s %s is being migrated", kind, o.GetName()), request.Send(ctx, c, o)
}

// Delete confirms and requests the deletion, and returns its progress: done when the object is gone.
func Delete(
	ctx context.Context, c client.Client, o extensionsv1alpha1.Object, failingSince, now time.Time,
) (Progress, error) {
	kind := KindOf(o)
	found, err := kube.Exists(ctx, c, o)
	if err != nil {
		return Progress{}, err
	}
	if !found {
		return Progress{State: Done}, nil
	}
	if o.GetDeletionTimestamp() != nil {
		last := o.GetDefaultStatus().LastOperation
		deleting := last != nil && last.Type == corev1beta1.LastOperationTypeDelete
		if failed := failure(kind, o, failingSince); deleting && failed != nil {
			return *failed, again(ctx, c, o, "", failed.RetryAt, now)
		}
		return waiting("%s %s is being deleted", kind, o.GetName()), nil
	}
	return waiting("%s %s is being deleted", kind, o.GetName()), RequestDeletion(ctx, c, o, now)
}

// RequestDeletion confirms and requests the deletion of an object.
func RequestDeletion(ctx context.Context, c client.Client, o extensionsv1alpha1.Object, now time.Time) error {
	before := o.DeepCopyObject().(extensionsv1alpha1.Object)
	annotate(o, extensionsv1alpha1.AnnotationConfirmDeletion, "true")
	annotate(o, extensionsv1alpha1.AnnotationTimestamp, now.UTC().Format(time.RFC3339Nano))
	if err := c.Patch(ctx, o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("confirm deletion of %s %q: %w", KindOf(o), o.GetName(), err)
	}
	repeated := o.GetDeletionTimestamp() != nil
	if err := client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
		return fmt.Errorf("delete %s %q: %w", KindOf(o), o.GetName(), err)
	}
	message := "Requested the deletion of extension object"
	if repeated {
		message = "Requested the deletion of extension object again"
	}
	log.FromContext(ctx).Info(message, "object", describe(o))
	return nil
}

// again requests something that fails once more when its pause is over. A deletion is no operation of its own: any
// change of the object makes extensions look at it.
func again(
	ctx context.Context, c client.Client, o extensionsv1alpha1.Object, operation string, due, now time.Time,
) error {
	if now.Before(due) {
		return nil
	}
	before := o.DeepCopyObject().(extensionsv1alpha1.Object)
	annotate(o, extensionsv1alpha1.AnnotationTimestamp, now.UTC().Format(time.RFC3339Nano))
	if operation != "" {
		annotate(o, extensionsv1alpha1.AnnotationOperation, operation)
	}
	if err := c.Patch(ctx, o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("request %s %q again: %w", KindOf(o), o.GetName(), err)
	}
	logRequest(ctx, o, cmp.Or(operation, "delete"), "its last operation has failed")
	return nil
}

// Request is an operation that is requested of the extension of an object, by annotations of the object.
type Request struct {
	Operation string
	Reason    string // For the log.
	At        time.Time
}

// Create creates the object with the request. An object that another client has created in the meantime is no error;
// the next pass sees it.
func (r Request) Create(ctx context.Context, c client.Client, o extensionsv1alpha1.Object) error {
	setSpec(o, o)
	r.annotate(o)
	if err := c.Create(ctx, o); apierrors.IsAlreadyExists(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("create %s %q: %w", KindOf(o), o.GetName(), err)
	}
	logRequest(ctx, o, r.Operation, r.Reason)
	return nil
}

// Update writes the spec, labels and annotations of the wanted object into the current one, together with the request.
func (r Request) Update(ctx context.Context, c client.Client, current, wanted extensionsv1alpha1.Object) error {
	return r.write(ctx, c, current, func() {
		setSpec(current, wanted)
		for key, value := range wanted.GetAnnotations() {
			annotate(current, key, value)
		}
		addLabels(current, wanted.GetLabels())
	})
}

// Send writes nothing but the request.
func (r Request) Send(ctx context.Context, c client.Client, current extensionsv1alpha1.Object) error {
	return r.write(ctx, c, current, func() {})
}

// write fails with a conflict if the object is not the one on which the caller has decided.
func (r Request) write(ctx context.Context, c client.Client, o extensionsv1alpha1.Object, change func()) error {
	before := o.DeepCopyObject().(extensionsv1alpha1.Object)
	change()
	r.annotate(o)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, o, patch); err != nil {
		return fmt.Errorf("request operation %s of %s %q: %w", r.Operation, KindOf(o), o.GetName(), err)
	}
	logRequest(ctx, o, r.Operation, r.Reason)
	return nil
}

func (r Request) annotate(o extensionsv1alpha1.Object) {
	annotate(o, extensionsv1alpha1.AnnotationOperation, r.Operation)
	annotate(o, extensionsv1alpha1.AnnotationTimestamp, r.At.UTC().Format(time.RFC3339Nano))
}

func logRequest(ctx context.Context, o extensionsv1alpha1.Object, operation, why string) {
	log.FromContext(ctx).Info("Requested an operation of an extension", "object", describe(o), "operation", operation,
		"reason", why)
}

// describe names an object for a log line: its kind, namespace and name.
func describe(o extensionsv1alpha1.Object) string { return KindOf(o) + " " + klog.KObj(o).String() }

func annotate(o extensionsv1alpha1.Object, key, value string) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// SpecOf returns the field Spec of the struct that o points to.
func SpecOf(o any) any { return reflect.ValueOf(o).Elem().FieldByName("Spec").Interface() }

// setSpec copies the spec of from, which has the same type and may be o itself, and records its checksum.
func setSpec(o, from extensionsv1alpha1.Object) {
	reflect.ValueOf(o).Elem().FieldByName("Spec").Set(reflect.ValueOf(from).Elem().FieldByName("Spec"))
	annotate(o, AnnotationSpecChecksum, checksum(SpecOf(from)))
}

// SpecDiffers reports whether the wanted spec differs from the one last written. The object's own spec is compared only
// if no checksum of the written spec is recorded.
func SpecDiffers(current, wanted extensionsv1alpha1.Object) bool {
	if written, noted := current.GetAnnotations()[AnnotationSpecChecksum]; noted {
		return written != checksum(SpecOf(wanted))
	}
	return !SameJSON(SpecOf(current), SpecOf(wanted))
}

// checksum of what a value looks like on the wire.
func checksum(v any) string {
	data, err := json.Marshal(normalize(v))
	if err != nil {
		panic(fmt.Sprintf("extensionobject: encode %T: %v", v, err)) // It has been decoded from JSON.
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// SameJSON compares two values by their JSON; formatting of raw JSON does not matter.
func SameJSON(a, b any) bool { return reflect.DeepEqual(normalize(a), normalize(b)) }

func normalize(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("extensionobject: encode %T: %v", v, err)) // API types can always be encoded.
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(fmt.Sprintf("extensionobject: decode %T: %v", v, err))
	}
	return out
}

func addLabels(o extensionsv1alpha1.Object, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	all := maps.Clone(o.GetLabels())
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	o.SetLabels(all)
}
