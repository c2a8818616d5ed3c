package v1beta1

import (
	"fmt"
	"net/mail"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// ShootValidation holds the inputs of the validation of Shoots other than the objects.
//
// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false
type ShootValidation struct {
	Features Features
	// BeforeAdmission is true for a Shoot as written by its author: admission has not yet completed versions, machine
	// images and architectures, nor set the fields that it sets on creation.
	BeforeAdmission bool
}

// ValidateShoot checks a new Shoot under the default features, after defaulting and mutating admission.
func ValidateShoot(shoot *Shoot) field.ErrorList {
	return ShootValidation{Features: DefaultFeatures()}.Create(shoot)
}

// ValidateShootUpdate checks a changed Shoot under the default features, after defaulting and mutating admission. The
// new object must carry the stored status.
func ValidateShootUpdate(shoot, old *Shoot) field.ErrorList {
	return ShootValidation{Features: DefaultFeatures()}.Update(shoot, old)
}

// Create checks a new Shoot.
func (v ShootValidation) Create(shoot *Shoot) field.ErrorList {
	errs := validateMeta(&shoot.ObjectMeta, true, nameIsLabel)
	errs = append(errs, noDoubleHyphen(shoot.Name, metadataPath.Child("name"))...)
	for i, finalizer := range shoot.Finalizers {
		if finalizer == FinalizerName || finalizer == FinalizerReferenceProtection {
			errs = append(errs, field.Forbidden(metadataPath.Child("finalizers").Index(i), "is set by the system only"))
		}
	}
	if shoot.Spec.Kubernetes.Version == "" && !v.BeforeAdmission {
		errs = append(errs, field.Required(specPath.Child("kubernetes", "version"), "must be a version such as 1.36.3"))
	}
	errs = append(errs, v.annotations(shoot, nil)...)
	errs = append(errs, v.spec(shoot, nil)...)
	return errs
}

// Update checks a changed Shoot. While a Shoot is being deleted its spec is frozen and not checked again, so that
// rules that came after it cannot block its deletion.
func (v ShootValidation) Update(shoot, old *Shoot) field.ErrorList {
	errs := validateMetaUpdate(&shoot.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, v.annotations(shoot, old)...)
	if old.DeletionTimestamp != nil {
		return append(errs, v.specOfDeleted(shoot, old)...)
	}
	if shoot.Spec.Kubernetes.Version == "" && !v.BeforeAdmission {
		errs = append(errs, field.Invalid(specPath.Child("kubernetes", "version"), "", "cannot be unset"))
	}
	errs = append(errs, v.spec(shoot, old)...)
	errs = append(errs, v.specUpdate(shoot, old)...)
	return errs
}

// specOfDeleted lets only the Seed of a Shoot change that is being deleted, and only if the one that has to delete it
// is lost, or has never begun with it. Naming it again reverts the change.
func (v ShootValidation) specOfDeleted(shoot, old *Shoot) field.ErrorList {
	if equality.Semantic.DeepEqual(shoot.Spec, old.Spec) {
		return nil
	}
	on, to := ptr.Deref(old.Status.SeedName, ""), ptr.Deref(shoot.Spec.SeedName, "")
	other := shoot.Spec.DeepCopy()
	other.SeedName = old.Spec.SeedName
	switch {
	case !equality.Semantic.DeepEqual(*other, old.Spec):
		return field.ErrorList{field.Forbidden(specPath, "cannot be changed while the Shoot is being deleted")}
	case to != "" && (on == "" || shoot.SourceIsDead() || old.SourceIsDead() && to == on):
		return nil
	}
	return field.ErrorList{field.Forbidden(specPath.Child("seedName"),
		fmt.Sprintf("cannot be changed while Seed %q deletes the Shoot; "+
			"if that Seed is lost, set the annotation %s in the same request", on, AnnotationSourceIsDead))}
}

// spec checks a spec as a whole, whether it has changed or not. old is nil on creation; it lets existing pools keep
// what new ones may not have.
func (v ShootValidation) spec(shoot, old *Shoot) field.ErrorList {
	spec := &shoot.Spec
	var errs field.ErrorList
	errs = append(errs, validateCloudProfileReference(spec.CloudProfile, specPath.Child("cloudProfile"))...)
	errs = append(errs, validateRequired(spec.Region, specPath.Child("region"))...)
	errs = append(errs, validateProviderType(spec.Provider.Type, specPath.Child("provider", "type"))...)
	errs = append(errs, validateShootBindings(shoot)...)
	if spec.SeedName != nil && *spec.SeedName == "" {
		errs = append(errs, field.Invalid(specPath.Child("seedName"), "", "must not be empty when given"))
	}
	errs = append(errs, validateSeedSelector(spec.SeedSelector, specPath.Child("seedSelector"))...)
	errs = append(errs, validatePurpose(shoot)...)
	if spec.ExposureClassName != nil {
		errs = append(errs, validateSubdomain(*spec.ExposureClassName, specPath.Child("exposureClassName"))...)
	}
	if spec.SchedulerName != nil {
		errs = append(errs, validateLabel(*spec.SchedulerName, specPath.Child("schedulerName"))...)
	}
	errs = append(errs, validateTolerations(spec.Tolerations, specPath.Child("tolerations"))...)
	errs = append(errs, validateMonitoring(spec.Monitoring, specPath.Child("monitoring"))...)
	errs = append(errs, validateExtensions(spec.Extensions, specPath.Child("extensions"))...)
	errs = append(errs, validateNamedResources(spec.Resources, specPath.Child("resources"),
		"v1/Secret", "v1/ConfigMap", "security.gardener.cloud/v1alpha1/WorkloadIdentity")...)
	errs = append(errs, validateControlPlane(spec.ControlPlane, specPath.Child("controlPlane"))...)
	errs = append(errs, v.addons(spec, specPath.Child("addons"))...)

	errs = append(errs, v.kubernetes(shoot)...)
	errs = append(errs, validateShootNetworking(shoot)...)
	errs = append(errs, validateSystemComponents(spec.SystemComponents, specPath.Child("systemComponents"))...)
	errs = append(errs, validateDNS(spec.DNS, specPath.Child("dns"))...)
	errs = append(errs, validateMaintenance(spec.Maintenance, specPath.Child("maintenance"))...)
	errs = append(errs, validateHibernation(shoot)...)
	errs = append(errs, v.workers(shoot, old)...)
	if !shoot.HasWorkers() {
		errs = append(errs, validateWorkerless(spec)...)
	}
	return errs
}

// specUpdate checks how a spec changes.
func (v ShootValidation) specUpdate(shoot, old *Shoot) field.ErrorList {
	spec, before := &shoot.Spec, &old.Spec
	var errs field.ErrorList
	errs = append(errs, validateImmutable(spec.Region, before.Region, specPath.Child("region"))...)
	errs = append(errs, validateImmutable(spec.Provider.Type, before.Provider.Type, specPath.Child("provider", "type"))...)
	if shoot.HasWorkers() != old.HasWorkers() {
		errs = append(errs, field.Forbidden(specPath.Child("provider", "workers"),
			"a cluster cannot change between having worker pools and having none"))
	}
	errs = append(errs, validateShootBindingsUpdate(spec, before)...)
	if before.SchedulerName != nil || deref(spec.SchedulerName) != DefaultSchedulerName {
		errs = append(errs, validateImmutable(spec.SchedulerName, before.SchedulerName, specPath.Child("schedulerName"))...)
	}
	errs = append(errs, validateControlPlaneUpdate(shoot, old)...)
	errs = append(errs, validateShootNetworkingUpdate(spec, before)...)
	errs = append(errs, v.nodeLocalDNSUpdate(shoot, old)...)
	errs = append(errs, validateDNSUpdate(spec, before)...)
	errs = append(errs, validateHibernationUpdate(shoot, old)...)
	errs = append(errs, validateVersionUpdate(shoot, old)...)
	errs = append(errs, validateNodeCIDRMaskUpdate(spec, before)...)
	errs = append(errs, validateEncryptionUpdate(shoot, old)...)
	errs = append(errs, validateWorkersUpdate(shoot, old)...)
	return errs
}

func validateCloudProfileReference(ref *CloudProfileReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return field.ErrorList{field.Required(path.Child("name"), "must name a CloudProfile or NamespacedCloudProfile")}
	}
	errs := validateEnum(ref.Kind, path.Child("kind"), CloudProfileKind, NamespacedCloudProfileKind)
	if ref.Name == "" {
		return append(errs, field.Required(path.Child("name"), "must name a CloudProfile or NamespacedCloudProfile"))
	}
	return append(errs, validateSubdomain(ref.Name, path.Child("name"))...)
}

func validateProviderType(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "must be the type of the cloud profile")}
	}
	return validateLabel(value, path)
}

// validateShootBindings demands exactly one binding for a Shoot with workers. Self-hosted Shoots may have none.
func validateShootBindings(shoot *Shoot) field.ErrorList {
	spec := &shoot.Spec
	if !shoot.HasWorkers() {
		return nil // Both are forbidden, see validateWorkerless.
	}
	secret, credentials := deref(spec.SecretBindingName), deref(spec.CredentialsBindingName)
	switch path := specPath.Child("secretBindingName"); {
	case secret != "" && credentials != "":
		return field.ErrorList{field.Forbidden(path, "must not be given together with credentialsBindingName")}
	case secret == "" && credentials == "" && !shoot.IsSelfHosted():
		return field.ErrorList{
			field.Required(path, "secretBindingName or credentialsBindingName must be given; the latter is the newer one"),
		}
	}
	return nil
}

// validateShootBindingsUpdate allows a SecretBinding to be replaced by a CredentialsBinding, and that by another.
func validateShootBindingsUpdate(spec, before *ShootSpec) field.ErrorList {
	var errs field.ErrorList
	if before.CredentialsBindingName != nil && deref(spec.CredentialsBindingName) == "" {
		errs = append(errs, field.Forbidden(specPath.Child("credentialsBindingName"),
			"cannot be unset; it may name another CredentialsBinding"))
	}
	migrates := deref(spec.SecretBindingName) == "" && deref(spec.CredentialsBindingName) != ""
	if !migrates {
		errs = append(errs, validateImmutable(spec.SecretBindingName, before.SecretBindingName,
			specPath.Child("secretBindingName"))...)
	}
	return errs
}

func validatePurpose(shoot *Shoot) field.ErrorList {
	allowed := []ShootPurpose{ShootPurposeEvaluation, ShootPurposeTesting, ShootPurposeDevelopment, ShootPurposeProduction}
	if shoot.Namespace == GardenNamespace {
		allowed = append(allowed, ShootPurposeInfrastructure)
	}
	return validateOptionalEnum(shoot.Spec.Purpose, specPath.Child("purpose"), allowed...)
}

func validateMonitoring(monitoring *Monitoring, path *field.Path) field.ErrorList {
	if monitoring == nil || monitoring.Alerting == nil {
		return nil
	}
	path = path.Child("alerting", "emailReceivers")
	receivers := monitoring.Alerting.EmailReceivers
	errs := validateUniqueStrings(receivers, path)
	for i, receiver := range receivers {
		if address, err := mail.ParseAddress(receiver); err != nil || address.Address != receiver {
			errs = append(errs, field.Invalid(path.Index(i), receiver, "must be a plain address such as ops@example.org"))
		}
	}
	return errs
}

func validateExtensions(extensions []Extension, path *field.Path) field.ErrorList {
	errs := validateUnique(extensions, path, func(e *Extension) string { return e.Type }, child("type"))
	for i, extension := range extensions {
		path := path.Index(i).Child("type")
		if extension.Type == "" {
			errs = append(errs, field.Required(path, "must be given"))
			continue
		}
		errs = append(errs, validateLabel(extension.Type, path)...)
	}
	return errs
}

// zonesOfZoneTolerance is the number of zones over which etcd keeps its quorum when one fails.
const zonesOfZoneTolerance = 3

func validateControlPlane(controlPlane *ControlPlane, path *field.Path) field.ErrorList {
	if controlPlane == nil {
		return nil
	}
	var errs field.ErrorList
	if ha := controlPlane.HighAvailability; ha != nil {
		errs = append(errs, validateEnum(ha.FailureTolerance.Type, path.Child("highAvailability", "failureTolerance", "type"),
			FailureToleranceTypeNode, FailureToleranceTypeZone)...)
	}
	if len(controlPlane.Zones) == 0 {
		return errs
	}
	path = path.Child("zones")
	errs = append(errs, validateUniqueStrings(controlPlane.Zones, path)...)
	want := 1
	if failureTolerance(controlPlane) == FailureToleranceTypeZone {
		want = zonesOfZoneTolerance
	}
	if len(controlPlane.Zones) != want {
		errs = append(errs, field.Invalid(path, controlPlane.Zones, "must list "+strconv.Itoa(want)+
			" zones: three with failure tolerance zone, otherwise one"))
	}
	return errs
}

func failureTolerance(controlPlane *ControlPlane) FailureToleranceType {
	if controlPlane == nil || controlPlane.HighAvailability == nil {
		return ""
	}
	return controlPlane.HighAvailability.FailureTolerance.Type
}

func validateControlPlaneUpdate(shoot, old *Shoot) field.ErrorList {
	var errs field.ErrorList
	path := specPath.Child("controlPlane")
	now, before := failureTolerance(shoot.Spec.ControlPlane), failureTolerance(old.Spec.ControlPlane)
	if now != "" && before == "" && (shoot.HibernationEnabled() || shoot.Status.IsHibernated) {
		errs = append(errs, field.Forbidden(path.Child("highAvailability"),
			"cannot be switched on while the cluster is hibernated"))
	}
	if before != "" && now != before { // Members of etcd cannot be taken away, and their volumes stay in their zones.
		errs = append(errs, field.Invalid(path.Child("highAvailability", "failureTolerance", "type"), now, immutableText+
			" once it is set"))
	}
	if old.Spec.ControlPlane == nil || len(old.Spec.ControlPlane.Zones) == 0 {
		return errs
	}
	var zones []string
	if shoot.Spec.ControlPlane != nil {
		zones = shoot.Spec.ControlPlane.Zones
	}
	zonesBefore := old.Spec.ControlPlane.Zones
	upgrade := now == FailureToleranceTypeZone && before != now && len(zonesBefore) == 1 && containsAll(zones, zonesBefore)
	if !upgrade && !equality.Semantic.DeepEqual(zones, zonesBefore) {
		errs = append(errs, field.Invalid(path.Child("zones"), zones,
			immutableText+", except that zones are added when the failure tolerance becomes zone"))
	}
	return errs
}

// addons are deprecated and for evaluation only.
func (v ShootValidation) addons(spec *ShootSpec, path *field.Path) field.ErrorList {
	addons := spec.Addons
	if addons == nil {
		return nil
	}
	var errs field.ErrorList
	dashboard, nginx := addons.KubernetesDashboard, addons.NginxIngress
	enabled := dashboard != nil && dashboard.Enabled || nginx != nil && nginx.Enabled
	if enabled && deref(spec.Purpose) != ShootPurposeEvaluation {
		errs = append(errs, field.Forbidden(path, "addons can be enabled only with purpose evaluation"))
	}
	if dashboard != nil {
		errs = append(errs, validateOptionalEnum(dashboard.AuthenticationMode,
			path.Child("kubernetesDashboard", "authenticationMode"), "token")...)
	}
	if nginx == nil {
		return errs
	}
	path = path.Child("nginxIngress")
	if nginx.Enabled && v.Features.DisableNginxIngressInShoot {
		errs = append(errs, field.Forbidden(path.Child("enabled"), "the addon is switched off in this landscape"))
	}
	errs = append(errs, validateOptionalEnum(nginx.ExternalTrafficPolicy, path.Child("externalTrafficPolicy"),
		ServiceExternalTrafficPolicyCluster, ServiceExternalTrafficPolicyLocal)...)
	for i, cidr := range nginx.LoadBalancerSourceRanges {
		errs = append(errs, validateCIDR(cidr, path.Child("loadBalancerSourceRanges").Index(i))...)
	}
	return errs
}

// validateWorkerless forbids what only nodes give a meaning to.
func validateWorkerless(spec *ShootSpec) field.ErrorList {
	kubernetes, controllerManager := &spec.Kubernetes, spec.Kubernetes.KubeControllerManager
	if controllerManager == nil {
		controllerManager = &KubeControllerManagerConfig{}
	}
	networking := spec.Networking
	if networking == nil {
		networking = &Networking{}
	}
	autoUpdateImage, rotateSSH := false, false
	if m := spec.Maintenance; m != nil {
		autoUpdateImage = m.AutoUpdate != nil && m.AutoUpdate.MachineImageVersion != nil
		rotateSSH = m.AutoRotation != nil && m.AutoRotation.Credentials != nil && m.AutoRotation.Credentials.SSHKeypair != nil
	}
	var errs field.ErrorList
	for _, f := range []struct {
		given bool
		path  *field.Path
	}{
		{spec.SecretBindingName != nil, specPath.Child("secretBindingName")},
		{spec.CredentialsBindingName != nil, specPath.Child("credentialsBindingName")},
		{spec.Addons != nil, specPath.Child("addons")},
		{spec.Provider.InfrastructureConfig != nil, specPath.Child("provider", "infrastructureConfig")},
		{spec.Provider.ControlPlaneConfig != nil, specPath.Child("provider", "controlPlaneConfig")},
		{spec.Provider.WorkersSettings != nil, specPath.Child("provider", "workersSettings")},
		{networking.Type != nil, specPath.Child("networking", "type")},
		{networking.ProviderConfig != nil, specPath.Child("networking", "providerConfig")},
		{networking.Pods != nil, specPath.Child("networking", "pods")},
		{networking.Nodes != nil, specPath.Child("networking", "nodes")},
		{kubernetes.KubeScheduler != nil, specPath.Child("kubernetes", "kubeScheduler")},
		{kubernetes.KubeProxy != nil, specPath.Child("kubernetes", "kubeProxy")},
		{kubernetes.Kubelet != nil, specPath.Child("kubernetes", "kubelet")},
		{kubernetes.ClusterAutoscaler != nil, specPath.Child("kubernetes", "clusterAutoscaler")},
		{kubernetes.VerticalPodAutoscaler != nil, specPath.Child("kubernetes", "verticalPodAutoscaler")},
		{controllerManager.NodeCIDRMaskSize != nil,
			specPath.Child("kubernetes", "kubeControllerManager", "nodeCIDRMaskSize")},
		{controllerManager.NodeCIDRMaskSizeIPv6 != nil,
			specPath.Child("kubernetes", "kubeControllerManager", "nodeCIDRMaskSizeIPv6")},
		{controllerManager.HorizontalPodAutoscalerConfig != nil,
			specPath.Child("kubernetes", "kubeControllerManager", "horizontalPodAutoscaler")},
		{controllerManager.PodEvictionTimeout != nil,
			specPath.Child("kubernetes", "kubeControllerManager", "podEvictionTimeout")},
		{controllerManager.NodeMonitorGracePeriod != nil,
			specPath.Child("kubernetes", "kubeControllerManager", "nodeMonitorGracePeriod")},
		{autoUpdateImage, specPath.Child("maintenance", "autoUpdate", "machineImageVersion")},
		{rotateSSH, specPath.Child("maintenance", "autoRotation", "credentials", "sshKeypair")},
		{spec.SystemComponents != nil, specPath.Child("systemComponents")},
	} {
		if f.given {
			errs = append(errs, field.Forbidden(f.path, "should not be set for a cluster without worker pools"))
		}
	}
	return errs
}
