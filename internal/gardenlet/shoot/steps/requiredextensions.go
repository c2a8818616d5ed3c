package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/controllermanager/controllerregistration"
	"hortus.dev/hortus/internal/flow"
)

// RequiredExtensions waits until every extension that the Shoot requires is installed in the seed and ready.
var RequiredExtensions = &flow.Step[*Scope]{
	Name:    "required-extensions",
	Ensure:  use1(ensureRequiredExtensions),
	Limit:   time.Minute,
	Recheck: recheck,
}

func ensureRequiredExtensions(_ context.Context, s *Values) (flow.Outcome, error) {
	if missing := missingExtensions(s.Shoot, s.SeedObject, s.Registered, s.Installations); len(missing) > 0 {
		return flow.Waiting(waitExtension, "Extensions are not ready in the seed: "+strings.Join(missing, ", ")), nil
	}
	return flow.Done(), nil
}

// missingExtensions are the extensions that the Shoot needs but the seed does not have yet, as kind/type, sorted, each
// with the condition of its ControllerInstallation that shows it. The condition's message is for operators only.
func missingExtensions(
	shoot *corev1beta1.Shoot, seed *corev1beta1.Seed, registrations []corev1beta1.ControllerRegistration,
	installations []corev1beta1.ControllerInstallation,
) []string {
	ready, problems := map[controllerregistration.KindType]bool{}, map[controllerregistration.KindType]string{}
	for _, i := range installations {
		isReady, problem := installationReady(&i), problemOf(&i)
		for _, r := range registrations {
			if r.Name != i.Spec.RegistrationRef.Name {
				continue
			}
			for _, resource := range r.Spec.Resources {
				of := controllerregistration.KindType{Kind: resource.Kind, Type: resource.Type}
				ready[of] = ready[of] || isReady
				problems[of] = problem
			}
		}
	}
	var missing []string
	for kindType := range neededExtensions(shoot, seed, registrations) {
		if ready[kindType] {
			continue
		}
		text := kindType.Kind + "/" + kindType.Type
		if problem := problems[kindType]; problem != "" {
			text += " (" + problem + ")"
		}
		missing = append(missing, text)
	}
	slices.Sort(missing)
	return missing
}

// neededExtensions are the kinds and types of extension objects of the Shoot.
func neededExtensions(
	shoot *corev1beta1.Shoot, seed *corev1beta1.Seed, registrations []corev1beta1.ControllerRegistration,
) controllerregistration.Set {
	needed := controllerregistration.NeededByShoot(shoot)
	for _, e := range wantedExtensions(shoot, registrations) { // Includes extensions that are enabled for all Shoots.
		needed[controllerregistration.KindType{Kind: extensionsv1alpha1.ExtensionKind, Type: e.spec.Type}] = struct{}{}
	}
	for kindType := range controllerregistration.NeededBySeed(seed) {
		if kindType.Kind == extensionsv1alpha1.DNSRecordKind {
			needed[kindType] = struct{}{}
		}
	}
	return needed
}

// usedExtensions are the names of the ControllerRegistrations that the Shoot uses, sorted: those of the kinds and types
// that it needs, and those without any, which are for everything in a seed.
func usedExtensions(
	shoot *corev1beta1.Shoot, seed *corev1beta1.Seed, registrations []corev1beta1.ControllerRegistration,
) []string {
	needed := neededExtensions(shoot, seed, registrations)
	var names []string
	for _, r := range registrations {
		if len(r.Spec.Resources) == 0 || slices.ContainsFunc(r.Spec.Resources, func(c corev1beta1.ControllerResource) bool {
			_, used := needed[controllerregistration.KindType{Kind: c.Kind, Type: c.Type}]
			return used
		}) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// problemOf names the condition that keeps a ControllerInstallation from being ready, the first cause first.
func problemOf(i *corev1beta1.ControllerInstallation) string {
	for _, row := range []struct {
		kind corev1beta1.ConditionType
		bad  corev1beta1.ConditionStatus
	}{
		{corev1beta1.ControllerInstallationValid, corev1beta1.ConditionFalse},
		{corev1beta1.ControllerInstallationInstalled, corev1beta1.ConditionFalse},
		{corev1beta1.ControllerInstallationHealthy, corev1beta1.ConditionFalse},
		{corev1beta1.ControllerInstallationProgressing, corev1beta1.ConditionTrue},
	} {
		if c := corev1beta1.FindCondition(i.Status.Conditions, row.kind); c != nil && c.Status == row.bad {
			return fmt.Sprintf("condition %s of ControllerInstallation %s is %s", row.kind, i.Name, row.bad)
		}
	}
	return ""
}

// installationReady: installed, healthy and not in the middle of a roll-out.
func installationReady(i *corev1beta1.ControllerInstallation) bool {
	for kind, want := range map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{
		corev1beta1.ControllerInstallationInstalled:   corev1beta1.ConditionTrue,
		corev1beta1.ControllerInstallationHealthy:     corev1beta1.ConditionTrue,
		corev1beta1.ControllerInstallationProgressing: corev1beta1.ConditionFalse,
	} {
		if c := corev1beta1.FindCondition(i.Status.Conditions, kind); c == nil || c.Status != want {
			return false
		}
	}
	return true
}
