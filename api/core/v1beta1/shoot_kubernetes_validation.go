package v1beta1

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// kubernetes checks the settings of the control plane's components and of what runs on nodes.
func (v ShootValidation) kubernetes(shoot *Shoot) field.ErrorList {
	kubernetes, path := &shoot.Spec.Kubernetes, specPath.Child("kubernetes")
	errs := v.versionForm(kubernetes.Version, path.Child("version"))
	errs = append(errs, v.kubeAPIServer(shoot)...)
	errs = append(errs, validateKubeControllerManager(shoot)...)
	errs = append(errs, validateKubeScheduler(kubernetes.KubeScheduler, kubernetes.Version,
		path.Child("kubeScheduler"))...)
	errs = append(errs, validateKubeProxy(kubernetes.KubeProxy, kubernetes.Version, path.Child("kubeProxy"))...)
	errs = append(errs, validateKubelet(kubernetes.Kubelet, kubernetes.Version, path.Child("kubelet"))...)
	errs = append(errs, validateClusterAutoscaler(kubernetes.ClusterAutoscaler, kubernetes.Version,
		path.Child("clusterAutoscaler"))...)
	errs = append(errs, validateVerticalPodAutoscaler(kubernetes.VerticalPodAutoscaler,
		path.Child("verticalPodAutoscaler"))...)
	if etcd := kubernetes.ETCD; etcd != nil {
		if etcd.Main != nil {
			errs = append(errs, validateMinAllowed(etcd.Main.Autoscaling,
				path.Child("etcd", "main", "autoscaling", "minAllowed"), minAllowedETCDMain)...)
		}
		if etcd.Events != nil {
			errs = append(errs, validateMinAllowed(etcd.Events.Autoscaling,
				path.Child("etcd", "events", "autoscaling", "minAllowed"), minAllowedETCDEvents)...)
		}
	}
	return errs
}

// Bounds of a node's share of the pod range. The IPv6 ones are those of the controller manager.
const (
	minNodeCIDRMaskSize, maxNodeCIDRMaskSize         = 16, 28
	minNodeCIDRMaskSizeIPv6, maxNodeCIDRMaskSizeIPv6 = 64, 124
)

func validateKubeControllerManager(shoot *Shoot) field.ErrorList {
	config, version := shoot.Spec.Kubernetes.KubeControllerManager, shoot.Spec.Kubernetes.Version
	if config == nil {
		return nil
	}
	path := specPath.Child("kubernetes", "kubeControllerManager")
	errs := validateFeatureGates(config.FeatureGates, version, path.Child("featureGates"))
	errs = append(errs, validateNodeCIDRMask(shoot, config, path)...)
	if timeout := config.PodEvictionTimeout; timeout != nil {
		if timeout.Duration <= 0 {
			errs = append(errs, field.Invalid(path.Child("podEvictionTimeout"), timeout.Duration.String(),
				"must be more than 0s"))
		}
		if minorOf(version) >= 33 {
			errs = append(errs, field.Forbidden(path.Child("podEvictionTimeout"),
				"not supported from Kubernetes 1.33 on; use kubeAPIServer.defaultNotReadyTolerationSeconds and defaultUnreachableTolerationSeconds"))
		}
	}
	if period := config.NodeMonitorGracePeriod; period != nil && period.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("nodeMonitorGracePeriod"), period.Duration.String(),
			"must be more than 0s"))
	}
	return append(errs, validateHorizontalPodAutoscaler(config.HorizontalPodAutoscalerConfig,
		path.Child("horizontalPodAutoscaler"))...)
}

func validateNodeCIDRMask(shoot *Shoot, config *KubeControllerManagerConfig, path *field.Path) field.ErrorList {
	var families []IPFamily
	if shoot.Spec.Networking != nil {
		families = shoot.Spec.Networking.IPFamilies
	}
	onlyIPv6 := len(families) == 1 && families[0] == IPFamilyIPv6
	errs := between(config.NodeCIDRMaskSizeIPv6, minNodeCIDRMaskSizeIPv6, maxNodeCIDRMaskSizeIPv6,
		path.Child("nodeCIDRMaskSizeIPv6"))
	path = path.Child("nodeCIDRMaskSize")
	if onlyIPv6 {
		return append(errs, between(config.NodeCIDRMaskSize, minNodeCIDRMaskSizeIPv6, maxNodeCIDRMaskSizeIPv6, path)...)
	}
	if outside := between(config.NodeCIDRMaskSize, minNodeCIDRMaskSize, maxNodeCIDRMaskSize, path); outside != nil {
		return append(errs, outside...)
	}
	if config.NodeCIDRMaskSize != nil {
		// Two addresses of each range belong to the network itself.
		addresses, pods := int64(1)<<(32-*config.NodeCIDRMaskSize)-2, int64(largestMaxPods(&shoot.Spec))
		if addresses < pods {
			errs = append(errs, field.Invalid(path, *config.NodeCIDRMaskSize,
				"leaves a node "+strconv.FormatInt(addresses, 10)+" addresses, too few for maxPods "+strconv.FormatInt(pods, 10)))
		}
	}
	return errs
}

func validateNodeCIDRMaskUpdate(spec, before *ShootSpec) field.ErrorList {
	now, old := spec.Kubernetes.KubeControllerManager, before.Kubernetes.KubeControllerManager
	if old == nil {
		return nil
	}
	if now == nil {
		now = &KubeControllerManagerConfig{}
	}
	path := specPath.Child("kubernetes", "kubeControllerManager")
	errs := validateImmutableOnceSet(now.NodeCIDRMaskSize, old.NodeCIDRMaskSize, path.Child("nodeCIDRMaskSize"))
	// Leaving the second IP family takes its mask along.
	if now.NodeCIDRMaskSizeIPv6 != nil {
		errs = append(errs, validateImmutableOnceSet(now.NodeCIDRMaskSizeIPv6, old.NodeCIDRMaskSizeIPv6,
			path.Child("nodeCIDRMaskSizeIPv6"))...)
	}
	return errs
}

func validateHorizontalPodAutoscaler(config *HorizontalPodAutoscalerConfig, path *field.Path) field.ErrorList {
	if config == nil {
		return nil
	}
	var errs field.ErrorList
	for _, period := range []struct {
		name  string
		value *metav1.Duration
	}{
		{"cpuInitializationPeriod", config.CPUInitializationPeriod},
		{"downscaleStabilization", config.DownscaleStabilization},
		{"syncPeriod", config.SyncPeriod},
	} {
		if period.value != nil && period.value.Duration < time.Second {
			errs = append(errs, field.Invalid(path.Child(period.name), period.value.Duration.String(), "must be at least 1s"))
		}
	}
	if delay := config.InitialReadinessDelay; delay != nil && delay.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("initialReadinessDelay"), delay.Duration.String(),
			"must be more than 0s"))
	}
	if tolerance := config.Tolerance; tolerance != nil && *tolerance <= 0 {
		errs = append(errs, field.Invalid(path.Child("tolerance"), *tolerance, "must be more than 0"))
	}
	return errs
}

func validateKubeScheduler(config *KubeSchedulerConfig, version string, path *field.Path) field.ErrorList {
	if config == nil {
		return nil
	}
	errs := validateFeatureGates(config.FeatureGates, version, path.Child("featureGates"))
	errs = append(errs, validateOptionalEnum(config.Profile, path.Child("profile"), SchedulingProfileBalanced,
		SchedulingProfileBinPacking)...)
	if volumes := config.KubeMaxPDVols; volumes != nil {
		if n, err := strconv.Atoi(*volumes); err != nil || n < 1 {
			errs = append(errs, field.Invalid(path.Child("kubeMaxPDVols"), *volumes, "must be a whole number of at least 1"))
		}
		if minorOf(version) >= 35 {
			errs = append(errs, field.Forbidden(path.Child("kubeMaxPDVols"),
				"not supported from Kubernetes 1.35 on, where CSI drivers report the limit"))
		}
	}
	return errs
}

func validateKubeProxy(config *KubeProxyConfig, version string, path *field.Path) field.ErrorList {
	if config == nil {
		return nil
	}
	errs := validateFeatureGates(config.FeatureGates, version, path.Child("featureGates"))
	if config.Mode == nil {
		return append(errs, field.Required(path.Child("mode"), "must be given"))
	}
	return append(errs, validateEnum(*config.Mode, path.Child("mode"), ProxyModeIPTables, ProxyModeIPVS,
		ProxyModeNFTables)...)
}
