package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func setDefaultsClusterAutoscaler(config *ClusterAutoscaler) {
	setDefault(&config.ScaleDownDelayAfterAdd, metav1.Duration{Duration: time.Hour})
	setDefault(&config.ScaleDownDelayAfterDelete, metav1.Duration{})
	setDefault(&config.ScaleDownDelayAfterFailure, metav1.Duration{Duration: 3 * time.Minute})
	setDefault(&config.ScaleDownUnneededTime, metav1.Duration{Duration: 30 * time.Minute})
	setDefault(&config.ScaleDownUtilizationThreshold, 0.5)
	setDefault(&config.ScanInterval, metav1.Duration{Duration: 10 * time.Second})
	setDefault(&config.Expander, ClusterAutoscalerExpanderLeastWaste)
	setDefault(&config.MaxNodeProvisionTime, metav1.Duration{Duration: 20 * time.Minute})
	setDefault(&config.MaxGracefulTerminationSeconds, 600)
	setDefault(&config.NewPodScaleUpDelay, metav1.Duration{})
	setDefault(&config.IgnoreDaemonsetsUtilization, false)
	setDefault(&config.Verbosity, 2)
	setDefault(&config.MaxScaleDownParallelism, 10)
	setDefault(&config.MaxDrainParallelism, 1)
	setDefault(&config.InitialNodeGroupBackoffDuration, metav1.Duration{Duration: 5 * time.Minute})
	setDefault(&config.MaxNodeGroupBackoffDuration, metav1.Duration{Duration: 30 * time.Minute})
	setDefault(&config.NodeGroupBackoffResetTimeout, metav1.Duration{Duration: 3 * time.Hour})
	setDefault(&config.EmitPerNodeGroupMetrics, false)
	setDefault(&config.MaxBinpackingTime, metav1.Duration{Duration: 5 * time.Minute})
}

func setDefaultsVerticalPodAutoscaler(config *VerticalPodAutoscaler) {
	setDefault(&config.EvictAfterOOMThreshold, metav1.Duration{Duration: 10 * time.Minute})
	setDefault(&config.EvictionRateBurst, 1)
	setDefault(&config.EvictionRateLimit, -1)
	setDefault(&config.EvictionTolerance, 0.5)
	setDefault(&config.RecommendationMarginFraction, 0.15)
	setDefault(&config.UpdaterInterval, metav1.Duration{Duration: time.Minute})
	setDefault(&config.RecommenderInterval, metav1.Duration{Duration: time.Minute})
	setDefault(&config.TargetCPUPercentile, 0.9)
	setDefault(&config.RecommendationLowerBoundCPUPercentile, 0.5)
	setDefault(&config.RecommendationUpperBoundCPUPercentile, 0.95)
	setDefault(&config.TargetMemoryPercentile, 0.9)
	setDefault(&config.RecommendationLowerBoundMemoryPercentile, 0.5)
	setDefault(&config.RecommendationUpperBoundMemoryPercentile, 0.95)
	setDefault(&config.CPUHistogramDecayHalfLife, metav1.Duration{Duration: 24 * time.Hour})
	setDefault(&config.MemoryHistogramDecayHalfLife, metav1.Duration{Duration: 24 * time.Hour})
	setDefault(&config.MemoryAggregationInterval, metav1.Duration{Duration: 24 * time.Hour})
	setDefault(&config.MemoryAggregationIntervalCount, 8)
	setDefault(&config.RecommenderUpdateWorkerCount, 10)
}
