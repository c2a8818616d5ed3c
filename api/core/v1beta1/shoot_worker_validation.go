package v1beta1

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Lengths that leave room for what is put before and after the names of pools and volumes.
const (
	maxWorkerNameLength = 15
	maxVolumeNameLength = 15
)

var (
	volumeSize = regexp.MustCompile(`^[0-9]+Gi$`)
	percentage = regexp.MustCompile(`^[0-9]+%$`)
	// sysctlKey is what the kernel's interface takes, with dots or slashes between the names.
	sysctlKey = regexp.MustCompile(`^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9*]([-_a-z0-9*]*[a-z0-9*])?)*$`)
)

// IsSelfHosted reports whether a pool of the Shoot hosts its control plane.
func (s *Shoot) IsSelfHosted() bool {
	return slices.ContainsFunc(s.Spec.Provider.Workers, func(w Worker) bool { return w.ControlPlane != nil })
}

func (v ShootValidation) workers(shoot, old *Shoot) field.ErrorList {
	workers, path := shoot.Spec.Provider.Workers, specPath.Child("provider", "workers")
	if len(workers) == 0 {
		return nil
	}
	errs := validateUnique(workers, path, func(w *Worker) string { return w.Name }, child("name"))
	for i := range workers {
		errs = append(errs, v.worker(shoot, &workers[i], path.Index(i))...)
		if workers[i].UpdatesInPlace() && !v.Features.InPlaceNodeUpdates && !hadInPlacePool(old, workers[i].Name) {
			errs = append(errs, field.Invalid(path.Index(i).Child("updateStrategy"), *workers[i].UpdateStrategy,
				"updates in place are switched off in this landscape"))
		}
	}
	errs = append(errs, validateContainerRuntimeNames(workers, path)...)
	return append(errs, validateSystemPools(workers, path)...)
}

// validateContainerRuntimeNames refuses container runtimes of different types and pools whose objects have one name:
// the contract of extensions names them <type>-<pool>.
func validateContainerRuntimeNames(workers []Worker, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	pools := map[string]string{}
	for i, w := range workers {
		if w.CRI == nil {
			continue
		}
		for j, r := range w.CRI.ContainerRuntimes {
			name := r.Type + "-" + w.Name
			if other, taken := pools[name]; taken && other != w.Name {
				at := path.Index(i).Child("cri", "containerRuntimes").Index(j).Child("type")
				errs = append(errs, field.Invalid(at, r.Type, fmt.Sprintf(
					"type and pool make the name %q, as those of pool %q do; rename the pool", name, other)))
			}
			pools[name] = w.Name
		}
	}
	return errs
}

func hadInPlacePool(old *Shoot, name string) bool {
	if old == nil {
		return false
	}
	before := workerNamed(old, name)
	return before != nil && before.UpdatesInPlace()
}

func (v ShootValidation) worker(shoot *Shoot, worker *Worker, path *field.Path) field.ErrorList {
	errs := shortLabel(worker.Name, maxWorkerNameLength, path.Child("name"))
	errs = append(errs, v.machine(&worker.Machine, path.Child("machine"))...)
	errs = append(errs, v.poolVersion(shoot, worker, path)...)
	if worker.Kubernetes != nil {
		errs = append(errs, validateKubelet(worker.Kubernetes.Kubelet, effectiveVersion(shoot, worker),
			path.Child("kubernetes", "kubelet"))...)
	}
	errs = append(errs, validateOptionalEnum(worker.UpdateStrategy, path.Child("updateStrategy"), AutoRollingUpdate,
		AutoInPlaceUpdate, ManualInPlaceUpdate)...)
	errs = append(errs, validateWorkerSize(worker, path)...)
	errs = append(errs, metav1validation.ValidateLabels(worker.Labels, path.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(worker.Annotations, path.Child("annotations"))...)
	errs = append(errs, validateTaints(worker.Taints, path.Child("taints"))...)
	errs = append(errs, validateCABundle(worker.CABundle, path.Child("caBundle"))...)
	errs = append(errs, validateVolumes(worker, path)...)
	errs = append(errs, validateCRI(worker.CRI, path.Child("cri"))...)
	errs = append(errs, validateMachineController(worker, path.Child("machineControllerManager"))...)
	if options := worker.ClusterAutoscaler; options != nil {
		path := path.Child("autoscaler")
		errs = append(errs, between(options.ScaleDownUtilizationThreshold, 0, 1,
			path.Child("scaleDownUtilizationThreshold"))...)
		errs = append(errs, between(options.ScaleDownGpuUtilizationThreshold, 0, 1,
			path.Child("scaleDownGpuUtilizationThreshold"))...)
		errs = append(errs, durationsNotNegative(path, []namedDuration{
			{"scaleDownUnneededTime", options.ScaleDownUnneededTime},
			{"scaleDownUnreadyTime", options.ScaleDownUnreadyTime},
			{"maxNodeProvisionTime", options.MaxNodeProvisionTime},
		})...)
	}
	errs = append(errs, atLeast(worker.Priority, -1, path.Child("priority"))...)
	return append(errs, validateSysctls(worker.Sysctls, path.Child("sysctls"))...)
}

func shortLabel(name string, length int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		return field.ErrorList{field.Required(path, "must be given")}
	}
	errs = append(errs, validateLabel(name, path)...)
	if len(name) > length {
		errs = append(errs, field.TooLong(path, name, length))
	}
	return errs
}

func (v ShootValidation) machine(machine *Machine, path *field.Path) field.ErrorList {
	errs := validateRequired(machine.Type, path.Child("type"))
	errs = append(errs, validateOptionalEnum(machine.Architecture, path.Child("architecture"), ArchitectureAMD64,
		ArchitectureARM64)...)
	if v.BeforeAdmission {
		return errs
	}
	path = path.Child("image")
	if machine.Image == nil {
		return append(errs, field.Required(path, "must be given"))
	}
	errs = append(errs, validateRequired(machine.Image.Name, path.Child("name"))...)
	return append(errs, validateRequired(deref(machine.Image.Version), path.Child("version"))...)
}

func validateWorkerSize(worker *Worker, path *field.Path) field.ErrorList {
	errs := atLeast(&worker.Minimum, 0, path.Child("minimum"))
	errs = append(errs, atLeast(&worker.Maximum, 0, path.Child("maximum"))...)
	if worker.Maximum < worker.Minimum {
		errs = append(errs, field.Forbidden(path.Child("maximum"), "must be at least minimum, which is "+
			strconv.Itoa(int(worker.Minimum))))
	}
	surge, surgeErrs := validateIntOrPercent(worker.MaxSurge, path.Child("maxSurge"))
	unavailable, unavailableErrs := validateIntOrPercent(worker.MaxUnavailable, path.Child("maxUnavailable"))
	errs = append(append(errs, surgeErrs...), unavailableErrs...)
	if m := worker.MaxUnavailable; m != nil && m.Type == intstr.String && unavailableErrs == nil && unavailable > 100 {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), m.StrVal, "must be at most 100%"))
	}
	// Whoever updates machines one by one decides himself how many are missing.
	manual := deref(worker.UpdateStrategy) == ManualInPlaceUpdate
	if !manual && surge == 0 && unavailable == 0 && surgeErrs == nil && unavailableErrs == nil {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), unavailable,
			"may not be 0 when maxSurge is 0: no machine could be updated"))
	}
	return errs
}

// validateIntOrPercent returns the number, or the number before the percent sign.
func validateIntOrPercent(value *intstr.IntOrString, path *field.Path) (int, field.ErrorList) {
	if value == nil {
		return 0, nil
	}
	if value.Type == intstr.Int {
		if value.IntVal < 0 {
			return 0, field.ErrorList{field.Invalid(path, value.IntVal, "must be at least 0")}
		}
		return int(value.IntVal), nil
	}
	if percentage.MatchString(value.StrVal) {
		if n, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%")); err == nil {
			return n, nil
		}
	}
	return 0, field.ErrorList{field.Invalid(path, value.StrVal, "must be a whole number or a percentage such as 10%")}
}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	errs := validateUnique(taints, path, func(t *corev1.Taint) string {
		if t.Key == "" {
			return ""
		}
		return t.Key + ":" + string(t.Effect)
	}, itself)
	for i, taint := range taints {
		path := path.Index(i)
		switch taint.Key {
		case "":
			errs = append(errs, field.Required(path.Child("key"), "must be given"))
		case TaintNodeCriticalComponentsNotReady:
			errs = append(errs, field.Forbidden(path.Child("key"), "the taint is reserved"))
		default:
			errs = append(errs, invalid(taint.Key, path.Child("key"), validation.IsQualifiedName(taint.Key))...)
		}
		if taint.Value != "" {
			errs = append(errs, invalid(taint.Value, path.Child("value"), validation.IsValidLabelValue(taint.Value))...)
		}
		if taint.Effect == "" {
			errs = append(errs, field.Required(path.Child("effect"), "must be NoSchedule, PreferNoSchedule or NoExecute"))
			continue
		}
		errs = append(errs, validateEnum(taint.Effect, path.Child("effect"),
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
	}
	return errs
}

// validateCABundle demands PEM certificates and nothing else.
func validateCABundle(bundle *string, path *field.Path) field.ErrorList {
	if bundle == nil {
		return nil
	}
	const want = "must be one or more certificates in PEM form"
	rest, certificates := []byte(*bundle), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return field.ErrorList{field.Invalid(path, block.Type, want)}
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return field.ErrorList{field.Invalid(path, "certificate "+strconv.Itoa(certificates+1), want+": "+err.Error())}
		}
		certificates++
	}
	if certificates == 0 {
		return field.ErrorList{field.Invalid(path, *bundle, want)}
	}
	return nil
}

func validateVolumes(worker *Worker, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if worker.Volume != nil {
		errs = append(errs, validateVolumeSize(worker.Volume.VolumeSize, path.Child("volume", "size"))...)
	}
	volumes, volumesPath := worker.DataVolumes, path.Child("dataVolumes")
	if len(volumes) > 0 && worker.Volume == nil {
		errs = append(errs, field.Required(path.Child("volume"), "must be given together with dataVolumes"))
	}
	errs = append(errs, validateUnique(volumes, volumesPath, func(v *DataVolume) string { return v.Name },
		child("name"))...)
	for i, volume := range volumes {
		errs = append(errs, shortLabel(volume.Name, maxVolumeNameLength, volumesPath.Index(i).Child("name"))...)
		errs = append(errs, validateVolumeSize(volume.VolumeSize, volumesPath.Index(i).Child("size"))...)
	}
	if name := worker.KubeletDataVolumeName; name != nil &&
		!slices.ContainsFunc(volumes, func(v DataVolume) bool { return v.Name == *name }) {
		errs = append(errs, field.Invalid(path.Child("kubeletDataVolumeName"), *name,
			"must be the name of a data volume of the pool"))
	}
	return errs
}

func validateVolumeSize(size string, path *field.Path) field.ErrorList {
	if volumeSize.MatchString(size) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, size, "must have the form 50Gi")}
}

func validateCRI(cri *CRI, path *field.Path) field.ErrorList {
	if cri == nil {
		return nil
	}
	errs := validateEnum(cri.Name, path.Child("name"), CRINameContainerD)
	path = path.Child("containerRuntimes")
	errs = append(errs, validateUnique(cri.ContainerRuntimes, path, func(r *ContainerRuntime) string { return r.Type },
		child("type"))...)
	for i, runtime := range cri.ContainerRuntimes {
		errs = append(errs, validateRequired(runtime.Type, path.Index(i).Child("type"))...)
		if runtime.Type != "" {
			errs = append(errs, invalid(runtime.Type, path.Index(i).Child("type"), validation.IsQualifiedName(runtime.Type))...)
		}
	}
	return errs
}

func validateMachineController(worker *Worker, path *field.Path) field.ErrorList {
	settings := worker.MachineControllerManagerSettings
	if settings == nil {
		return nil
	}
	errs := durationsNotNegative(path, []namedDuration{
		{"machineDrainTimeout", settings.MachineDrainTimeout},
		{"machineHealthTimeout", settings.MachineHealthTimeout},
		{"machineCreationTimeout", settings.MachineCreationTimeout},
		{"inPlaceUpdateTimeout", settings.MachineInPlaceUpdateTimeout},
		{"machinePreserveTimeout", settings.MachinePreserveTimeout},
	})
	errs = append(errs, atLeast(settings.MaxEvictRetries, 0, path.Child("maxEvictRetries"))...)
	if !worker.UpdatesInPlace() {
		const only = "only for the update strategies AutoInPlaceUpdate and ManualInPlaceUpdate"
		if settings.MachineInPlaceUpdateTimeout != nil {
			errs = append(errs, field.Forbidden(path.Child("inPlaceUpdateTimeout"), only))
		}
		if deref(settings.DisableHealthTimeout) {
			errs = append(errs, field.Forbidden(path.Child("disableHealthTimeout"), only))
		}
	}
	if preserved := settings.AutoPreserveFailedMachineMax; preserved != nil {
		most := worker.Maximum
		if allowsSystemComponents(worker) {
			most-- // One machine is left to run them.
		}
		if *preserved < 0 || *preserved > max(most, 0) {
			errs = append(errs, field.Invalid(path.Child("autoPreserveFailedMachineMax"), *preserved,
				"must be between 0 and "+strconv.Itoa(int(max(most, 0)))))
		}
	}
	return errs
}

func validateSysctls(sysctls map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range sortedKeys(sysctls) {
		path := path.Key(key)
		if !sysctlKey.MatchString(key) {
			errs = append(errs, field.Invalid(path, key, "must be the name of a kernel setting such as net.core.somaxconn"))
		}
		if sysctls[key] == "" {
			errs = append(errs, field.Required(path, "must have a value"))
		}
	}
	return errs
}

func allowsSystemComponents(worker *Worker) bool {
	return worker.SystemComponents == nil || worker.SystemComponents.Allow
}

// validateSystemPools demands a place for the components of kube-system, and in each zone where they are allowed.
func validateSystemPools(workers []Worker, path *field.Path) field.ErrorList {
	zonesOf := func(w *Worker) string {
		zones := slices.Clone(w.Zones)
		slices.Sort(zones)
		return strings.Join(slices.Compact(zones), ",")
	}
	var allowed []int
	covered := map[string]bool{}
	for i := range workers {
		if worker := &workers[i]; allowsSystemComponents(worker) && worker.Maximum > 0 {
			allowed = append(allowed, i)
			covered[zonesOf(worker)] = covered[zonesOf(worker)] || int(worker.Maximum) >= len(worker.Zones)
		}
	}
	if len(allowed) == 0 {
		return field.ErrorList{field.Forbidden(path, "at least one pool with maximum over 0 must allow system components")}
	}
	var errs field.ErrorList
	for _, i := range allowed {
		if !covered[zonesOf(&workers[i])] {
			errs = append(errs, field.Forbidden(path.Index(i).Child("maximum"),
				"must be at least the number of zones, "+strconv.Itoa(len(workers[i].Zones))+
					", so that each zone can run system components"))
		}
	}
	return errs
}
