package v1beta1

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of the kubelet's settings.
const (
	minPodPIDsLimit         = 100 // Fewer processes do not start a runtime with its shim and an application.
	minContainerLogMaxFiles = 2
	minStreamingIdleTimeout = 30 * time.Second
	maxStreamingIdleTimeout = 4 * time.Hour
)

func validateKubelet(config *KubeletConfig, version string, path *field.Path) field.ErrorList {
	if config == nil {
		return nil
	}
	errs := validateFeatureGates(config.FeatureGates, version, path.Child("featureGates"))
	errs = append(errs, validateOptionalEnum(config.CPUManagerPolicy, path.Child("cpuManagerPolicy"), "none", "static")...)
	errs = append(errs, atLeast(config.PodPIDsLimit, minPodPIDsLimit, path.Child("podPidsLimit"))...)
	errs = append(errs, atLeast(config.MaxPods, 0, path.Child("maxPods"))...)
	errs = append(errs, validateReserved(config.KubeReserved, path.Child("kubeReserved"))...)
	errs = append(errs, validateReserved(config.SystemReserved, path.Child("systemReserved"))...)
	errs = append(errs, validateKubeletEviction(config, path)...)
	errs = append(errs, validateKubeletImages(config, path)...)
	if size := config.ContainerLogMaxSize; size != nil && size.Sign() <= 0 {
		errs = append(errs, field.Invalid(path.Child("containerLogMaxSize"), size.String(), "must be more than 0"))
	}
	errs = append(errs, atLeast(config.ContainerLogMaxFiles, minContainerLogMaxFiles,
		path.Child("containerLogMaxFiles"))...)
	if timeout := config.StreamingConnectionIdleTimeout; timeout != nil &&
		(timeout.Duration < minStreamingIdleTimeout || timeout.Duration > maxStreamingIdleTimeout) {
		errs = append(errs, field.Invalid(path.Child("streamingConnectionIdleTimeout"), timeout.Duration.String(),
			"must be between 30s and 4h"))
	}
	return append(errs, validateSwap(config, path)...)
}

func validateSwap(config *KubeletConfig, path *field.Path) field.ErrorList {
	swap := config.MemorySwap
	if swap == nil {
		return nil
	}
	path = path.Child("memorySwap")
	var errs field.ErrorList
	if config.FailSwapOn == nil || *config.FailSwapOn {
		errs = append(errs, field.Forbidden(path, "needs failSwapOn to be false"))
	}
	if !config.FeatureGates["NodeSwap"] {
		errs = append(errs, field.Forbidden(path, "needs the feature gate NodeSwap of the kubelet"))
	}
	return append(errs, validateOptionalEnum(swap.SwapBehavior, path.Child("swapBehavior"), NoSwap, LimitedSwap)...)
}

func validateReserved(reserved *KubeletConfigReserved, path *field.Path) field.ErrorList {
	if reserved == nil {
		return nil
	}
	return notNegative(path, []namedQuantity{
		{"cpu", reserved.CPU}, {"memory", reserved.Memory},
		{"ephemeralStorage", reserved.EphemeralStorage}, {"pid", reserved.PID},
	})
}

type namedQuantity struct {
	name  string
	value *resource.Quantity
}

func notNegative(path *field.Path, quantities []namedQuantity) field.ErrorList {
	var errs field.ErrorList
	for _, q := range quantities {
		if q.value != nil && q.value.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Child(q.name), q.value.String(), "must not be negative"))
		}
	}
	return errs
}

func validateKubeletEviction(config *KubeletConfig, path *field.Path) field.ErrorList {
	errs := validateEviction(config.EvictionHard, path.Child("evictionHard"))
	errs = append(errs, validateEviction(config.EvictionSoft, path.Child("evictionSoft"))...)
	if grace := config.EvictionSoftGracePeriod; grace != nil {
		path := path.Child("evictionSoftGracePeriod")
		errs = append(errs, durationsNotNegative(path, []namedDuration{
			{"memoryAvailable", grace.MemoryAvailable},
			{"imageFSAvailable", grace.ImageFSAvailable}, {"imageFSInodesFree", grace.ImageFSInodesFree},
			{"nodeFSAvailable", grace.NodeFSAvailable}, {"nodeFSInodesFree", grace.NodeFSInodesFree},
		})...)
	}
	if reclaim := config.EvictionMinimumReclaim; reclaim != nil {
		errs = append(errs, notNegative(path.Child("evictionMinimumReclaim"), []namedQuantity{
			{"memoryAvailable", reclaim.MemoryAvailable},
			{"imageFSAvailable", reclaim.ImageFSAvailable}, {"imageFSInodesFree", reclaim.ImageFSInodesFree},
			{"nodeFSAvailable", reclaim.NodeFSAvailable}, {"nodeFSInodesFree", reclaim.NodeFSInodesFree},
		})...)
	}
	errs = append(errs, atLeast(config.EvictionMaxPodGracePeriod, 0, path.Child("evictionMaxPodGracePeriod"))...)
	return append(errs, durationsNotNegative(path, []namedDuration{
		{"evictionPressureTransitionPeriod", config.EvictionPressureTransitionPeriod},
	})...)
}

func validateEviction(eviction *KubeletConfigEviction, path *field.Path) field.ErrorList {
	if eviction == nil {
		return nil
	}
	var errs field.ErrorList
	for _, threshold := range []struct {
		name  string
		value *string
	}{
		{"memoryAvailable", eviction.MemoryAvailable},
		{"imageFSAvailable", eviction.ImageFSAvailable}, {"imageFSInodesFree", eviction.ImageFSInodesFree},
		{"nodeFSAvailable", eviction.NodeFSAvailable}, {"nodeFSInodesFree", eviction.NodeFSInodesFree},
	} {
		if threshold.value != nil && !quantityOrPercentage(*threshold.value) {
			errs = append(errs, field.Invalid(path.Child(threshold.name), *threshold.value,
				"must be a quantity such as 100Mi, or a percentage from 0% to 100%"))
		}
	}
	return errs
}

func quantityOrPercentage(text string) bool {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		return err == nil && percent >= 0 && percent <= 100
	}
	quantity, err := resource.ParseQuantity(text)
	return err == nil && quantity.Sign() >= 0
}

func validateKubeletImages(config *KubeletConfig, path *field.Path) field.ErrorList {
	errs := between(config.ImageGCHighThresholdPercent, 0, 100, path.Child("imageGCHighThresholdPercent"))
	errs = append(errs, between(config.ImageGCLowThresholdPercent, 0, 100, path.Child("imageGCLowThresholdPercent"))...)
	if high, low := config.ImageGCHighThresholdPercent, config.ImageGCLowThresholdPercent; high != nil && low != nil &&
		*low >= *high {
		errs = append(errs, field.Forbidden(path.Child("imageGCLowThresholdPercent"),
			"must be lower than imageGCHighThresholdPercent"))
	}
	errs = append(errs, durationsNotNegative(path, []namedDuration{
		{"imageMinimumGCAge", config.ImageMinimumGCAge}, {"imageMaximumGCAge", config.ImageMaximumGCAge},
	})...)
	if oldest := config.ImageMaximumGCAge; oldest != nil && oldest.Duration > 0 &&
		config.ImageMinimumGCAge != nil && oldest.Duration <= config.ImageMinimumGCAge.Duration {
		errs = append(errs, field.Invalid(path.Child("imageMaximumGCAge"), oldest.Duration.String(),
			"must be more than imageMinimumGCAge, or 0 to keep images for ever"))
	}
	errs = append(errs, atLeast(config.MaxParallelImagePulls, 1, path.Child("maxParallelImagePulls"))...)
	if pulls := config.MaxParallelImagePulls; pulls != nil && *pulls > 1 && deref(config.SerializeImagePulls) {
		errs = append(errs, field.Forbidden(path.Child("maxParallelImagePulls"),
			"cannot be more than 1 while serializeImagePulls is true"))
	}
	errs = append(errs, atLeast(config.RegistryPullQPS, 0, path.Child("registryPullQPS"))...)
	errs = append(errs, atLeast(config.RegistryBurst, 0, path.Child("registryBurst"))...)
	const allowlisted = "NeverVerifyAllowlistedImages"
	errs = append(errs, validateOptionalEnum(config.ImagePullCredentialsVerificationPolicy,
		path.Child("imagePullCredentialsVerificationPolicy"),
		"NeverVerify", "NeverVerifyPreloadedImages", allowlisted, "AlwaysVerify")...)
	if len(config.PreloadedImagesVerificationAllowlist) > 0 &&
		deref(config.ImagePullCredentialsVerificationPolicy) != allowlisted {
		errs = append(errs, field.Forbidden(path.Child("preloadedImagesVerificationAllowlist"),
			"needs imagePullCredentialsVerificationPolicy "+allowlisted))
	}
	return errs
}

type namedDuration struct {
	name  string
	value *metav1.Duration
}

func durationsNotNegative(path *field.Path, durations []namedDuration) field.ErrorList {
	var errs field.ErrorList
	for _, d := range durations {
		if d.value != nil && d.value.Duration < 0 {
			errs = append(errs, field.Invalid(path.Child(d.name), d.value.Duration.String(), "must not be negative"))
		}
	}
	return errs
}
