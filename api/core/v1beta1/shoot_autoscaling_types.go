package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExpanderMode is how the cluster autoscaler chooses the pool to grow; a comma separated list is tried in order.
type ExpanderMode string

const (
	ClusterAutoscalerExpanderLeastWaste ExpanderMode = "least-waste"
	ClusterAutoscalerExpanderMostPods   ExpanderMode = "most-pods"
	ClusterAutoscalerExpanderPriority   ExpanderMode = "priority"
	ClusterAutoscalerExpanderRandom     ExpanderMode = "random"
	ClusterAutoscalerExpanderLeastNodes ExpanderMode = "least-nodes"
)

// ClusterAutoscaler holds settings of the cluster autoscaler. The defaults apply only when the block exists.
type ClusterAutoscaler struct {
	// scaleDownDelayAfterAdd is how long after growing the cluster may not shrink. Default 1h.
	// +optional
	ScaleDownDelayAfterAdd *metav1.Duration `json:"scaleDownDelayAfterAdd,omitempty"`
	// scaleDownDelayAfterDelete is how long after removing a node the cluster may not shrink. Default 0s.
	// +optional
	ScaleDownDelayAfterDelete *metav1.Duration `json:"scaleDownDelayAfterDelete,omitempty"`
	// scaleDownDelayAfterFailure is how long after a failed removal the cluster may not shrink. Default 3m.
	// +optional
	ScaleDownDelayAfterFailure *metav1.Duration `json:"scaleDownDelayAfterFailure,omitempty"`
	// scaleDownUnneededTime is how long a node must be unneeded before it is removed. Default 30m.
	// +optional
	ScaleDownUnneededTime *metav1.Duration `json:"scaleDownUnneededTime,omitempty"`
	// scaleDownUtilizationThreshold is the use, 0 to 1, below which a node is unneeded. Default 0.5.
	// +optional
	ScaleDownUtilizationThreshold *float64 `json:"scaleDownUtilizationThreshold,omitempty"`
	// scanInterval is the time between evaluations. Default 10s.
	// +optional
	ScanInterval *metav1.Duration `json:"scanInterval,omitempty"`
	// expander is least-waste, most-pods, priority, random or least-nodes, or a comma separated list of them.
	// Default least-waste.
	// +optional
	Expander *ExpanderMode `json:"expander,omitempty"`
	// maxNodeProvisionTime is how long a new node may take. Default 20m.
	// +optional
	MaxNodeProvisionTime *metav1.Duration `json:"maxNodeProvisionTime,omitempty"`
	// maxGracefulTerminationSeconds bounds the wait for pods of a removed node, in seconds. Default 600.
	// +optional
	MaxGracefulTerminationSeconds *int32 `json:"maxGracefulTerminationSeconds,omitempty"`
	// ignoreTaints are taint keys to ignore in templates. Deprecated: use startupTaints.
	// +optional
	IgnoreTaints []string `json:"ignoreTaints,omitempty"`
	// newPodScaleUpDelay is the age from which pending pods are considered. Default 0s.
	// +optional
	NewPodScaleUpDelay *metav1.Duration `json:"newPodScaleUpDelay,omitempty"`
	// maxEmptyBulkDelete bounds the empty nodes removed at once. Deprecated: use maxScaleDownParallelism.
	// +optional
	MaxEmptyBulkDelete *int32 `json:"maxEmptyBulkDelete,omitempty"`
	// ignoreDaemonsetsUtilization leaves DaemonSet pods out of a node's use. Default false.
	// +optional
	IgnoreDaemonsetsUtilization *bool `json:"ignoreDaemonsetsUtilization,omitempty"`
	// verbosity of the log. Default 2.
	// +optional
	Verbosity *int32 `json:"verbosity,omitempty"`
	// startupTaints are taint keys of nodes that are still starting.
	// +optional
	StartupTaints []string `json:"startupTaints,omitempty"`
	// statusTaints are taint keys that mark a node as unready.
	// +optional
	StatusTaints []string `json:"statusTaints,omitempty"`
	// maxScaleDownParallelism bounds the nodes removed at once. Default 10.
	// +optional
	MaxScaleDownParallelism *int32 `json:"maxScaleDownParallelism,omitempty"`
	// maxDrainParallelism bounds the nodes drained at once. Default 1.
	// +optional
	MaxDrainParallelism *int32 `json:"maxDrainParallelism,omitempty"`
	// initialNodeGroupBackoffDuration is the first wait after a failed growth. Default 5m.
	// +optional
	InitialNodeGroupBackoffDuration *metav1.Duration `json:"initialNodeGroupBackoffDuration,omitempty"`
	// maxNodeGroupBackoffDuration is the longest wait after failed growths. Default 30m.
	// +optional
	MaxNodeGroupBackoffDuration *metav1.Duration `json:"maxNodeGroupBackoffDuration,omitempty"`
	// nodeGroupBackoffResetTimeout is the time after which the back-off is reset. Default 3h.
	// +optional
	NodeGroupBackoffResetTimeout *metav1.Duration `json:"nodeGroupBackoffResetTimeout,omitempty"`
	// emitPerNodeGroupMetrics adds metrics per pool. Default false.
	// +optional
	EmitPerNodeGroupMetrics *bool `json:"emitPerNodeGroupMetrics,omitempty"`
	// maxBinpackingTime bounds the simulation of one evaluation. Default 5m.
	// +optional
	MaxBinpackingTime *metav1.Duration `json:"maxBinpackingTime,omitempty"`
	// autoscaling bounds the vertical scaling of the autoscaler itself.
	// +optional
	Autoscaling *ControlPlaneAutoscaling `json:"autoscaling,omitempty"`
}

// VerticalPodAutoscaler holds settings of the vertical pod autoscaler. The defaults apply when the block exists.
// Fractions and percentiles are 0 to 1.
type VerticalPodAutoscaler struct {
	// enabled switches the autoscaler.
	Enabled bool `json:"enabled"`
	// evictAfterOOMThreshold is the age below which a pod killed for lack of memory is evicted. Default 10m.
	// +optional
	EvictAfterOOMThreshold *metav1.Duration `json:"evictAfterOOMThreshold,omitempty"`
	// evictionRateBurst is the burst of evictions. Default 1.
	// +optional
	EvictionRateBurst *int32 `json:"evictionRateBurst,omitempty"`
	// evictionRateLimit is the number of evictions per second; 0 or -1 is no limit. Default -1.
	// +optional
	EvictionRateLimit *float64 `json:"evictionRateLimit,omitempty"`
	// evictionTolerance is the share of replicas that may be evicted. Default 0.5.
	// +optional
	EvictionTolerance *float64 `json:"evictionTolerance,omitempty"`
	// recommendationMarginFraction is added to recommendations. Default 0.15.
	// +optional
	RecommendationMarginFraction *float64 `json:"recommendationMarginFraction,omitempty"`
	// updaterInterval is the time between rounds of the updater. Default 1m.
	// +optional
	UpdaterInterval *metav1.Duration `json:"updaterInterval,omitempty"`
	// recommenderInterval is the time between rounds of the recommender. Default 1m.
	// +optional
	RecommenderInterval *metav1.Duration `json:"recommenderInterval,omitempty"`
	// targetCPUPercentile of the use is the target. Default 0.9.
	// +optional
	TargetCPUPercentile *float64 `json:"targetCPUPercentile,omitempty"`
	// recommendationLowerBoundCPUPercentile of the use is the lower bound. Default 0.5.
	// +optional
	RecommendationLowerBoundCPUPercentile *float64 `json:"recommendationLowerBoundCPUPercentile,omitempty"`
	// recommendationUpperBoundCPUPercentile of the use is the upper bound. Default 0.95.
	// +optional
	RecommendationUpperBoundCPUPercentile *float64 `json:"recommendationUpperBoundCPUPercentile,omitempty"`
	// targetMemoryPercentile of the use is the target. Default 0.9.
	// +optional
	TargetMemoryPercentile *float64 `json:"targetMemoryPercentile,omitempty"`
	// recommendationLowerBoundMemoryPercentile of the use is the lower bound. Default 0.5.
	// +optional
	RecommendationLowerBoundMemoryPercentile *float64 `json:"recommendationLowerBoundMemoryPercentile,omitempty"`
	// recommendationUpperBoundMemoryPercentile of the use is the upper bound. Default 0.95.
	// +optional
	RecommendationUpperBoundMemoryPercentile *float64 `json:"recommendationUpperBoundMemoryPercentile,omitempty"`
	// cpuHistogramDecayHalfLife is after how long a CPU sample counts half. Default 24h.
	// +optional
	CPUHistogramDecayHalfLife *metav1.Duration `json:"cpuHistogramDecayHalfLife,omitempty"`
	// memoryHistogramDecayHalfLife is after how long a memory sample counts half. Default 24h.
	// +optional
	MemoryHistogramDecayHalfLife *metav1.Duration `json:"memoryHistogramDecayHalfLife,omitempty"`
	// memoryAggregationInterval is the length of one interval of memory samples. Default 24h.
	// +optional
	MemoryAggregationInterval *metav1.Duration `json:"memoryAggregationInterval,omitempty"`
	// memoryAggregationIntervalCount is the number of those intervals. Default 8.
	// +optional
	MemoryAggregationIntervalCount *int64 `json:"memoryAggregationIntervalCount,omitempty"`
	// featureGates of the autoscaler.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// recommenderUpdateWorkerCount is the number of workers that write recommendations. Default 10.
	// +optional
	RecommenderUpdateWorkerCount *int64 `json:"recommenderUpdateWorkerCount,omitempty"`
	// maxAllowed bounds recommendations.
	// +optional
	MaxAllowed corev1.ResourceList `json:"maxAllowed,omitempty"`
}
