// Package shoot serves Shoots.
package shoot

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how Shoots are served.
func Kind(features corev1beta1.Features) *registry.Kind[*corev1beta1.Shoot] {
	validation := corev1beta1.ShootValidation{Features: features}
	return &registry.Kind[*corev1beta1.Shoot]{
		Resource:   corev1beta1.Resource("shoots"),
		Version:    corev1beta1.SchemeGroupVersion.Version,
		Singular:   "shoot",
		New:        func() *corev1beta1.Shoot { return &corev1beta1.Shoot{} },
		NewList:    func() runtime.Object { return &corev1beta1.ShootList{} },
		Namespaced: true,
		Categories: []string{"all"},

		Spec:                   func(s *corev1beta1.Shoot) any { return &s.Spec },
		CopyStatus:             func(to, from *corev1beta1.Shoot) { to.Status = from.Status },
		CopySpec:               func(to, from *corev1beta1.Shoot) { to.Spec = from.Spec },
		SpecBumps:              specBumps,
		DeletionBumps:          true,
		PrepareForCreate:       prepareForCreate,
		PrepareForUpdate:       prepareForUpdate,
		PrepareForStatusUpdate: prepareForStatusUpdate,

		Validate:             validation.Create,
		ValidateUpdate:       validation.Update,
		ValidateStatusUpdate: corev1beta1.ValidateShootStatusUpdate,

		Fields:  selectable,
		Indexed: []string{"spec.seedName", "status.seedName", "spec.cloudProfile.Name"},
		// Field selectors may also spell the field as manifests do.
		FieldSpellings: map[string]string{
			"spec.cloudProfile.name": "spec.cloudProfile.Name", "spec.cloudProfile.kind": "spec.cloudProfile.Kind",
		},
		Columns: columns(),
		Row:     row,
	}
}

// selectable returns the selectable fields. Some names have capital letters that clients of this API use.
func selectable(s *corev1beta1.Shoot) fields.Set {
	set := fields.Set{
		"spec.seedName":          ptr.Deref(s.Spec.SeedName, ""),
		"status.seedName":        ptr.Deref(s.Status.SeedName, ""),
		"spec.cloudProfileName":  ptr.Deref(s.Spec.CloudProfileName, ""),
		"spec.cloudProfile.Name": "",
		"spec.cloudProfile.Kind": "",
	}
	if ref := s.Spec.CloudProfile; ref != nil {
		set["spec.cloudProfile.Name"], set["spec.cloudProfile.Kind"] = ref.Name, ref.Kind
	}
	return set
}

func prepareForCreate(_ context.Context, s *corev1beta1.Shoot) {
	syncSpellings(s, nil)
	canonicalize(s)
}

func prepareForUpdate(_ context.Context, s, old *corev1beta1.Shoot) bool {
	deduplicateOperations(s)
	syncSpellings(s, old)
	canonicalize(s)
	if specChangeRolls(s, old) || old.DeletionTimestamp == nil && s.DeletionTimestamp != nil {
		return true // An operation in the same request stays in the annotations until the next update.
	}
	if isTrue(s, corev1beta1.AnnotationConfirmationForceDeletion) &&
		!isTrue(old, corev1beta1.AnnotationConfirmationForceDeletion) {
		return true
	}
	restores := s.Annotations[corev1beta1.AnnotationRestoreBackup]
	return takeOperations(s) || restores != "" && restores != old.Annotations[corev1beta1.AnnotationRestoreBackup]
}

// prepareForStatusUpdate keeps annotations as sent: a gardenlet records in the status that it has started an operation,
// and removes the annotation that requested it in the same write.
func prepareForStatusUpdate(_ context.Context, s, old *corev1beta1.Shoot) bool {
	canonicalizeLabels(s)
	return migrationEnded(s, old) || rotationCompletes(s, old)
}

func isTrue(s *corev1beta1.Shoot, annotation string) bool {
	yes, err := strconv.ParseBool(s.Annotations[annotation])
	return err == nil && yes
}

func columns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		registry.Column("CloudProfile", "Profile that the cluster is made from."),
		registry.Column("Provider", "Type of the infrastructure."),
		registry.Column("Region", "Region of the infrastructure."),
		registry.WideColumn("Seed", "Seed that hosts the control plane."),
		registry.Column("K8S Version", "Kubernetes version of the control plane."),
		registry.Column("Hibernation", "Whether the cluster is stopped."),
		registry.Column("Last Operation", "Type, state and progress of the last operation."),
		registry.Column("Status", "Summary of the cluster's health."),
		registry.WideColumn("Purpose", "What the cluster is used for."),
		registry.WideColumn("Gardener Version", "Version of the gardenlet that worked on the cluster last."),
		registry.WideColumn("APIServer", "Status of the condition APIServerAvailable."),
		registry.WideColumn("Control", "Status of the condition ControlPlaneHealthy."),
		registry.WideColumn("Observability", "Status of the condition ObservabilityComponentsHealthy."),
		registry.WideColumn("Nodes", "Status of the condition EveryNodeReady."),
		registry.WideColumn("System", "Status of the condition SystemComponentsHealthy."),
		registry.WideColumn("Message", "What the last operation does or waits for, or its first error; the beginning of it."),
	}
}

func row(s *corev1beta1.Shoot) []any {
	status := s.Labels[corev1beta1.LabelShootStatus]
	var purpose *string
	if s.Spec.Purpose != nil {
		p := string(*s.Spec.Purpose)
		purpose = &p
	}
	return []any{
		profileName(s), s.Spec.Provider.Type, s.Spec.Region, registry.Or(s.Spec.SeedName, registry.None),
		s.Spec.Kubernetes.Version, hibernation(s), lastOperation(s.Status.LastOperation),
		registry.Or(&status, registry.Pending),
		registry.Or(purpose, registry.Unknown), registry.Or(&s.Status.Gardener.Version, registry.Unknown),
		condition(s, corev1beta1.ShootAPIServerAvailable), condition(s, corev1beta1.ShootControlPlaneHealthy),
		condition(s, corev1beta1.ShootObservabilityComponentsHealthy), condition(s, corev1beta1.ShootEveryNodeReady),
		condition(s, corev1beta1.ShootSystemComponentsHealthy), message(&s.Status),
	}
}

func profileName(s *corev1beta1.Shoot) string {
	switch ref := s.Spec.CloudProfile; {
	case ref == nil:
		return registry.Or(s.Spec.CloudProfileName, registry.Unknown)
	case ref.Kind == corev1beta1.NamespacedCloudProfileKind:
		return s.Namespace + "/" + ref.Name
	default:
		return ref.Name
	}
}

func hibernation(s *corev1beta1.Shoot) string {
	switch wanted, is := s.HibernationEnabled(), s.Status.IsHibernated; {
	case wanted && is:
		return "Hibernated"
	case wanted:
		return "Hibernating"
	case is:
		return "Waking Up"
	default:
		return "Awake"
	}
}

func lastOperation(op *corev1beta1.LastOperation) string {
	if op == nil {
		return registry.Pending
	}
	return fmt.Sprintf("%s %s (%d%%)", op.Type, op.State, op.Progress)
}

const (
	// maxMessage is the length of the column of messages, in characters.
	maxMessage = 120
	// maxError is the length of an error in that column, in characters. Its cause comes last: after the step, the object
	// and the request.
	maxError = 240
)

// message is what the last operation does or waits for; if it has failed, its first error, since the description only
// names the steps that have failed. It is one line.
func message(s *corev1beta1.ShootStatus) string {
	op := s.LastOperation
	if op == nil {
		return registry.Pending
	}
	failed := op.State == corev1beta1.LastOperationStateError || op.State == corev1beta1.LastOperationStateFailed
	if failed && len(s.LastErrors) > 0 {
		return shortened(strings.Join(strings.Fields(s.LastErrors[0].Description), " "), maxError)
	}
	line, _, _ := strings.Cut(op.Description, "\n")
	return shortened(line, maxMessage)
}

// shortened is the beginning of a line, of this length in characters at most.
func shortened(line string, length int) string {
	if text := []rune(line); len(text) > length {
		return string(text[:length-1]) + "…"
	}
	return line
}

func condition(s *corev1beta1.Shoot, kind corev1beta1.ConditionType) string {
	for _, c := range s.Status.Conditions {
		if c.Type == kind {
			return string(c.Status)
		}
	}
	return registry.Unknown
}
