package v1beta1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var expanders = []string{
	string(ClusterAutoscalerExpanderLeastWaste), string(ClusterAutoscalerExpanderMostPods),
	string(ClusterAutoscalerExpanderPriority),
	string(ClusterAutoscalerExpanderRandom), string(ClusterAutoscalerExpanderLeastNodes),
}

// reservedTaints have a meaning of their own for the autoscaler or for us.
var reservedTaints = []string{
	TaintNodeCriticalComponentsNotReady, "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler",
}

// noMaxEmptyBulkDelete is the first minor version whose autoscaler has no such flag.
const noMaxEmptyBulkDelete = 33

// AcceptsMaxEmptyBulkDelete reports whether the deprecated field may have its value. It has no effect in any case.
func (c *ClusterAutoscaler) AcceptsMaxEmptyBulkDelete(version string) bool {
	return c.MaxEmptyBulkDelete == nil || *c.MaxEmptyBulkDelete >= 0 && minorOf(version) < noMaxEmptyBulkDelete
}

func validateClusterAutoscaler(config *ClusterAutoscaler, version string, path *field.Path) field.ErrorList {
	if config == nil {
		return nil
	}
	errs := durationsNotNegative(path, []namedDuration{
		{"scaleDownDelayAfterAdd", config.ScaleDownDelayAfterAdd},
		{"scaleDownDelayAfterDelete", config.ScaleDownDelayAfterDelete},
		{"scaleDownDelayAfterFailure", config.ScaleDownDelayAfterFailure},
		{"scaleDownUnneededTime", config.ScaleDownUnneededTime},
		{"scanInterval", config.ScanInterval},
		{"maxNodeProvisionTime", config.MaxNodeProvisionTime},
		{"newPodScaleUpDelay", config.NewPodScaleUpDelay},
		{"initialNodeGroupBackoffDuration", config.InitialNodeGroupBackoffDuration},
		{"maxNodeGroupBackoffDuration", config.MaxNodeGroupBackoffDuration},
		{"nodeGroupBackoffResetTimeout", config.NodeGroupBackoffResetTimeout},
		{"maxBinpackingTime", config.MaxBinpackingTime},
	})
	errs = append(errs, between(config.ScaleDownUtilizationThreshold, 0, 1,
		path.Child("scaleDownUtilizationThreshold"))...)
	if config.Expander != nil {
		errs = append(errs, validateExpander(string(*config.Expander), path.Child("expander"))...)
	}
	for _, count := range []struct {
		name  string
		value *int32
	}{
		{"maxGracefulTerminationSeconds", config.MaxGracefulTerminationSeconds},
		{"maxEmptyBulkDelete", config.MaxEmptyBulkDelete},
		{"verbosity", config.Verbosity},
		{"maxScaleDownParallelism", config.MaxScaleDownParallelism},
		{"maxDrainParallelism", config.MaxDrainParallelism},
	} {
		errs = append(errs, atLeast(count.value, 0, path.Child(count.name))...)
	}
	if config.MaxEmptyBulkDelete != nil && minorOf(version) >= noMaxEmptyBulkDelete {
		errs = append(errs, field.Forbidden(path.Child("maxEmptyBulkDelete"),
			"not supported from Kubernetes 1.33 on; use maxScaleDownParallelism"))
	}
	errs = append(errs, validateTaintKeys(config.IgnoreTaints, path.Child("ignoreTaints"))...)
	errs = append(errs, validateTaintKeys(config.StartupTaints, path.Child("startupTaints"))...)
	errs = append(errs, validateTaintKeys(config.StatusTaints, path.Child("statusTaints"))...)
	return append(errs, validateMinAllowed(config.Autoscaling, path.Child("autoscaling", "minAllowed"),
		minAllowedClusterAutoscaler)...)
}

func validateExpander(expander string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen []string
	for name := range strings.SplitSeq(expander, ",") {
		errs = append(errs, validateEnum(name, path, expanders...)...)
		if slices.Contains(seen, name) {
			errs = append(errs, field.Duplicate(path, name))
		}
		seen = append(seen, name)
	}
	return errs
}

func validateTaintKeys(keys []string, path *field.Path) field.ErrorList {
	errs := validateUniqueStrings(keys, path)
	for i, key := range keys {
		path := path.Index(i)
		errs = append(errs, invalid(key, path, validation.IsQualifiedName(key))...)
		if slices.Contains(reservedTaints, key) {
			errs = append(errs, field.Forbidden(path, "the taint is reserved"))
		}
	}
	return errs
}

func validateVerticalPodAutoscaler(config *VerticalPodAutoscaler, path *field.Path) field.ErrorList {
	if config == nil {
		return nil
	}
	errs := durationsNotNegative(path, []namedDuration{
		{"evictAfterOOMThreshold", config.EvictAfterOOMThreshold},
		{"updaterInterval", config.UpdaterInterval},
		{"recommenderInterval", config.RecommenderInterval},
		{"cpuHistogramDecayHalfLife", config.CPUHistogramDecayHalfLife},
		{"memoryHistogramDecayHalfLife", config.MemoryHistogramDecayHalfLife},
		{"memoryAggregationInterval", config.MemoryAggregationInterval},
	})
	for _, fraction := range []struct {
		name  string
		value *float64
	}{
		{"evictionTolerance", config.EvictionTolerance},
		{"recommendationMarginFraction", config.RecommendationMarginFraction},
	} {
		if fraction.value != nil && !(*fraction.value >= 0 && *fraction.value < 1) {
			errs = append(errs, field.Invalid(path.Child(fraction.name), *fraction.value, "must be at least 0 and less than 1"))
		}
	}
	for _, percentile := range []struct {
		name  string
		value *float64
	}{
		{"targetCPUPercentile", config.TargetCPUPercentile},
		{"recommendationLowerBoundCPUPercentile", config.RecommendationLowerBoundCPUPercentile},
		{"recommendationUpperBoundCPUPercentile", config.RecommendationUpperBoundCPUPercentile},
		{"targetMemoryPercentile", config.TargetMemoryPercentile},
		{"recommendationLowerBoundMemoryPercentile", config.RecommendationLowerBoundMemoryPercentile},
		{"recommendationUpperBoundMemoryPercentile", config.RecommendationUpperBoundMemoryPercentile},
	} {
		errs = append(errs, between(percentile.value, 0, 1, path.Child(percentile.name))...)
	}
	errs = append(errs, atLeast(config.EvictionRateBurst, 0, path.Child("evictionRateBurst"))...)
	errs = append(errs, atLeast(config.MemoryAggregationIntervalCount, 0, path.Child("memoryAggregationIntervalCount"))...)
	errs = append(errs, atLeast(config.RecommenderUpdateWorkerCount, 0, path.Child("recommenderUpdateWorkerCount"))...)
	for _, name := range sortedKeys(config.MaxAllowed) {
		path, amount := path.Child("maxAllowed").Key(string(name)), config.MaxAllowed[name]
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			errs = append(errs, field.NotSupported(path, name, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}))
		} else if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(path, amount.String(), "must not be negative"))
		}
	}
	return errs
}
