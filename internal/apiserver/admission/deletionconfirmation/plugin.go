// Package deletionconfirmation requires a confirmation before the deletion of objects that cannot be restored. Projects
// with spec.dualApprovalForDeletion require it from a second person.
package deletionconfirmation

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "DeletionConfirmation"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update, admission.Delete)}, nil
}

type plugin struct{ hortusadmission.Base }

// Admit records the user who confirmed a deletion. Users cannot change the record.
func (p *plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerned(a) || a.GetOperation() == admission.Delete {
		return nil
	}
	switch a.GetSubresource() {
	case "", "status", "binding": // All of them can write annotations.
	default:
		return nil
	}
	object, ok := a.GetObject().(metav1.Object)
	if !ok {
		return nil
	}
	var old map[string]string
	if before, ok := a.GetOldObject().(metav1.Object); ok && a.GetOperation() == admission.Update {
		old = before.GetAnnotations()
	}
	record(object, old, a.GetUserInfo().GetName())
	return nil
}

func record(object metav1.Object, old map[string]string, user string) {
	annotations := object.GetAnnotations()
	switch {
	case !confirmed(annotations):
		delete(annotations, corev1beta1.AnnotationDeletionConfirmedBy)
	case confirmed(old) && old[corev1beta1.AnnotationDeletionConfirmedBy] != "":
		annotations[corev1beta1.AnnotationDeletionConfirmedBy] = old[corev1beta1.AnnotationDeletionConfirmedBy]
	default:
		annotations[corev1beta1.AnnotationDeletionConfirmedBy] = user
	}
	object.SetAnnotations(annotations)
}

// Validate checks a deletion. For a deletion of a collection it is called once per object.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerned(a) || a.GetOperation() != admission.Delete || a.GetSubresource() != "" {
		return nil
	}
	object, ok := a.GetOldObject().(metav1.Object)
	if !ok {
		return nil
	}
	if state, ok := object.(*corev1beta1.ShootState); ok && !confirmed(state.Annotations) {
		if orphan, err := p.orphan(ctx, state); err != nil || orphan {
			return err
		}
	}
	if !confirmed(object.GetAnnotations()) {
		return hortusadmission.Forbid(a, field.ErrorList{unconfirmed(strings.ToLower(a.GetKind().Kind), object)})
	}
	if a.GetResource().Resource != "shoots" {
		return nil
	}
	if err := p.Await(a); err != nil {
		return err
	}
	project, err := p.ProjectOf(ctx, object.GetNamespace())
	if err != nil || project == nil {
		return err
	}
	if needsSecondPerson(project, object, a.GetUserInfo().GetName()) {
		return hortusadmission.Forbid(a, field.ErrorList{samePerson(project.Name, a.GetUserInfo().GetName())})
	}
	return nil
}

// orphan reports whether the Shoot of a ShootState is gone. The deletion of that Shoot was confirmed, and the garbage
// collector, which deletes the ShootState, confirms nothing.
func (p *plugin) orphan(ctx context.Context, state *corev1beta1.ShootState) (bool, error) {
	owner := metav1.GetControllerOf(state)
	if owner == nil {
		return false, nil
	}
	shoot := &corev1beta1.Shoot{}
	err := p.Objects.Live.Get(ctx, client.ObjectKey{Namespace: state.Namespace, Name: owner.Name}, shoot)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read Shoot %s/%s: %w", state.Namespace, owner.Name, err)
	}
	return shoot.UID != owner.UID, nil
}

var annotationsPath = field.NewPath("metadata", "annotations")

// unconfirmed returns an error with the command that confirms the deletion of an object.
func unconfirmed(kind string, object metav1.Object) *field.Error {
	path, namespace := annotationsPath.Key(corev1beta1.AnnotationConfirmationDeletion), ""
	if object.GetNamespace() != "" {
		namespace = "-n " + object.GetNamespace() + " "
	}
	how := fmt.Sprintf("must be true before the %s can be deleted: kubectl %sannotate --overwrite %s %s %s=true",
		kind, namespace, kind, object.GetName(), corev1beta1.AnnotationConfirmationDeletion)
	if value, set := object.GetAnnotations()[corev1beta1.AnnotationConfirmationDeletion]; set {
		return field.Invalid(path, value, how)
	}
	return field.Required(path, how)
}

// samePerson returns the error that the user who confirmed a deletion also requests it.
func samePerson(project, user string) *field.Error {
	return field.Invalid(annotationsPath.Key(corev1beta1.AnnotationDeletionConfirmedBy), user,
		fmt.Sprintf("spec.dualApprovalForDeletion of Project %q demands that another person deletes the Shoot than the one who confirmed it", project))
}

func concerned(a admission.Attributes) bool {
	if a.GetResource().Group != corev1beta1.GroupName {
		return false
	}
	switch a.GetResource().Resource {
	case "shoots", "projects", "shootstates":
		return true
	}
	return false
}

func confirmed(annotations map[string]string) bool {
	yes, err := strconv.ParseBool(annotations[corev1beta1.AnnotationConfirmationDeletion])
	return err == nil && yes
}

func needsSecondPerson(project *corev1beta1.Project, object metav1.Object, user string) bool {
	if object.GetAnnotations()[corev1beta1.AnnotationDeletionConfirmedBy] != user {
		return false
	}
	for _, rule := range project.Spec.DualApprovalForDeletion {
		selector, err := metav1.LabelSelectorAsSelector(&rule.Selector)
		if rule.Resource != "shoots" || err != nil || !selector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		if rule.IncludeServiceAccounts == nil || *rule.IncludeServiceAccounts ||
			!strings.HasPrefix(user, "system:serviceaccount:") {
			return true
		}
	}
	return false
}
