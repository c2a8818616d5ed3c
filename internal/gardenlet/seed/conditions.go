package seed

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// observed are the inputs of the conditions.
type observed struct {
	deployments   []*appsv1.Deployment
	gateway       *corev1.Service
	installations []corev1beta1.ControllerInstallation
	// installationsRead and controlPlanesRead: the inputs of these conditions are known. Otherwise the conditions stay as
	// they are.
	installationsRead, controlPlanesRead bool
	// extensions are those in the namespace garden, among them the Extensions for the seed itself.
	extensions []extensionsv1alpha1.Extension
	// unknown are the control planes whose Shoots the garden does not know, sorted.
	unknown []string
	// alive: the Lease of the Seed is being renewed.
	alive bool
	// err of the last reconciliation.
	err error
}

// conditions of a Seed whose gardenlet runs. GardenletReady is left out while the Lease is not renewed, since the
// controller manager then sets it to Unknown, and so are conditions whose inputs could not be read.
func conditions(o observed) []corev1beta1.Condition {
	all := []corev1beta1.Condition{systemComponents(o)}
	if o.installationsRead {
		all = append(all, extensions(o.installations))
	}
	if o.controlPlanesRead {
		all = append(all, controlPlanes(o.unknown))
	}
	if o.alive {
		all = append(all, corev1beta1.Condition{
			Type: corev1beta1.SeedGardenletReady, Status: corev1beta1.ConditionTrue, Reason: "GardenletReady",
			Message: "Gardenlet is posting ready status.",
		})
	}
	return all
}

// maxUnknown bounds the control planes that a message names.
const maxUnknown = 5

// controlPlanes reports control planes of unknown Shoots, as after a restore of the garden from a backup that is older
// than them. They continue, and are deleted only on the request of an operator.
func controlPlanes(unknown []string) corev1beta1.Condition {
	c := corev1beta1.Condition{
		Type: corev1beta1.SeedControlPlanesKnown, Status: corev1beta1.ConditionTrue, Reason: "AllControlPlanesKnown",
		Message: "The garden knows the Shoots of all control planes.",
	}
	if len(unknown) == 0 {
		return c
	}
	named, more := unknown, ""
	if n := len(unknown) - maxUnknown; n > 0 {
		named, more = unknown[:maxUnknown], fmt.Sprintf(" and %d more", n)
	}
	c.Status, c.Reason = corev1beta1.ConditionFalse, "UnknownControlPlanes"
	c.Message = fmt.Sprintf("The garden knows no Shoot on this Seed for the control planes %s%s. They continue to run. Create their Shoots "+
		"again to adopt them, from spec.shoot of the Cluster objects of the same names; those of Shoots that are on another Seed "+
		"are left over from a move.", strings.Join(named, ", "), more)
	return c
}

// unknownControlPlanes are the control plane namespaces that no Shoot has, sorted. Namespaces that are being deleted do
// not count.
func unknownControlPlanes(namespaces []metav1.PartialObjectMetadata, shoots []corev1beta1.Shoot) []string {
	known := map[string]bool{}
	for i := range shoots {
		known[shoots[i].Status.TechnicalID] = true
	}
	var unknown []string
	for i := range namespaces {
		if n := &namespaces[i]; n.DeletionTimestamp == nil && !known[n.Name] {
			unknown = append(unknown, n.Name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// emergencyStop is the condition of a Seed while an operator keeps its Shoots from being reconciled.
func emergencyStop() corev1beta1.Condition {
	return corev1beta1.Condition{
		Type: corev1beta1.SeedEmergencyStopShootReconciliations, Status: corev1beta1.ConditionTrue, Reason: "EmergencyStop",
		Message: fmt.Sprintf("No Shoot on this Seed is reconciled, deleted or moved, because of the annotation %s.",
			corev1beta1.AnnotationEmergencyStopShootReconciliations),
	}
}

// systemComponents are healthy while one pod of each serves; the message names one that has fewer than it should.
func systemComponents(o observed) corev1beta1.Condition {
	c := corev1beta1.Condition{Type: corev1beta1.SeedSystemComponentsHealthy, Status: corev1beta1.ConditionFalse}
	switch {
	case o.err != nil:
		c.Reason, c.Message = "SystemComponentsFailed", o.err.Error()
		return c
	case o.gateway == nil || kube.LoadBalancerAddress(o.gateway) == "":
		c.Reason, c.Message = "GatewayAddressMissing", "The load balancer of the gateway has no address yet."
		return c
	}
	for _, d := range o.deployments {
		if d.Status.AvailableReplicas == 0 {
			c.Reason, c.Message = "DeploymentUnhealthy", kube.DeploymentProgress(d)+"."
			return c
		}
	}
	c.Status, c.Reason, c.Message = corev1beta1.ConditionTrue, "SystemComponentsRunning",
		"All system components are healthy."
	for _, d := range o.deployments {
		if d.Status.AvailableReplicas < ptr.Deref(d.Spec.Replicas, 1) {
			c.Message = "All system components are running. " + kube.DeploymentProgress(d) + "."
		}
	}
	return c
}

// extensions sums up the conditions of the installations on the seed. The first kind of trouble decides.
func extensions(installations []corev1beta1.ControllerInstallation) corev1beta1.Condition {
	c := corev1beta1.Condition{Type: corev1beta1.SeedExtensionsReady}
	for _, check := range []struct {
		condition corev1beta1.ConditionType
		want      corev1beta1.ConditionStatus
		status    corev1beta1.ConditionStatus
		reason    string
	}{
		{corev1beta1.ControllerInstallationValid, corev1beta1.ConditionTrue, corev1beta1.ConditionFalse,
			"NotAllExtensionsValid"},
		{corev1beta1.ControllerInstallationInstalled, corev1beta1.ConditionTrue, corev1beta1.ConditionFalse,
			"NotAllExtensionsInstalled"},
		{corev1beta1.ControllerInstallationHealthy, corev1beta1.ConditionTrue, corev1beta1.ConditionFalse,
			"NotAllExtensionsHealthy"},
		{corev1beta1.ControllerInstallationProgressing, corev1beta1.ConditionFalse, corev1beta1.ConditionProgressing,
			"SomeExtensionsProgressing"},
	} {
		var names []string
		for _, i := range installations {
			have := corev1beta1.FindCondition(i.Status.Conditions, check.condition)
			if have == nil || have.Status != check.want {
				names = append(names, i.Spec.RegistrationRef.Name)
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			c.Status, c.Reason = check.status, check.reason
			c.Message = fmt.Sprintf("Condition %s of these extensions is not %s: %s.", check.condition, check.want,
				strings.Join(names, ", "))
			return c
		}
	}
	c.Status, c.Reason, c.Message = corev1beta1.ConditionTrue, "AllExtensionsReady",
		"All extensions are installed and ready."
	return c
}

// failures are the errors of Extensions for the seed itself.
func failures(extensions []extensionsv1alpha1.Extension) error {
	var errs []error
	for i := range extensions {
		ofSeed := extensions[i].Spec.GetClass() == extensionsv1alpha1.ClassSeed
		if e := extensions[i].Status.LastError; ofSeed && e != nil {
			errs = append(errs, fmt.Errorf("extension %s: %s", extensions[i].Name, e.Description))
		}
	}
	return errors.Join(errs...)
}
