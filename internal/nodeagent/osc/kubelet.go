package osc

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
)

func (v Values) kubeletUnit() extensionsv1alpha1.Unit {
	labels := map[string]string{corev1beta1.LabelWorkerKubernetesVersion: v.KubernetesVersion}
	for key, value := range v.Labels {
		labels[key] = value
	}
	command := []string{
		config.KubeletBinary,
		"--bootstrap-kubeconfig=" + config.KubeletBootstrapKubeconfig,
		"--kubeconfig=" + config.KubeletKubeconfig,
		"--config=" + config.KubeletConfigFile,
		"--node-labels=" + labelFlag(labels),
		"--v=2",
		// Where systemd runs containerd; otherwise the kubelet does not report the runtime's resource usage.
		"--runtime-cgroups=/system.slice/" + config.ContainerdUnitName,
	}
	return extensionsv1alpha1.Unit{
		Name: config.KubeletUnitName, Enable: ptr.To(true), Command: ptr.To(extensionsv1alpha1.CommandStart),
		Content: ptr.To(strings.Join([]string{
			"[Unit]",
			"Description=Kubernetes kubelet",
			"After=containerd.service",
			"",
			"[Service]",
			"EnvironmentFile=-" + config.KubeletExtraArgsFile,
			"ExecStart=" + strings.Join(append(command, "$KUBELET_EXTRA_ARGS"), ` \`+"\n    "),
			"Restart=always",
			"RestartSec=5",
			// Pods outlive a restart of their kubelet.
			"KillMode=process",
			"",
			"[Install]",
			"WantedBy=multi-user.target",
			"",
		}, "\n")),
		FilePaths: []string{config.KubeletBinary, config.KubeletConfigFile, config.KubeletCAFile},
	}
}

// kubeletConfig renders the kubelet's configuration file.
func (v Values) kubeletConfig() string {
	c := &kubeletv1beta1.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletv1beta1.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		Authentication: kubeletv1beta1.KubeletAuthentication{
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
			Webhook:   kubeletv1beta1.KubeletWebhookAuthentication{Enabled: ptr.To(true), CacheTTL: seconds(120)},
			X509:      kubeletv1beta1.KubeletX509Authentication{ClientCAFile: config.KubeletCAFile},
		},
		Authorization: kubeletv1beta1.KubeletAuthorization{Mode: kubeletv1beta1.KubeletAuthorizationModeWebhook},
		CgroupDriver:  string(extensionsv1alpha1.CgroupDriverSystemd),
		ClusterDNS:    v.ClusterDNS,
		ClusterDomain: orDefault(v.ClusterDomain, "cluster.local"),

		ContainerRuntimeEndpoint: "unix://" + config.ContainerdSocket,
		ContainerLogMaxSize:      "100Mi",
		EnableServer:             ptr.To(true),
		EvictionHard: map[string]string{
			memoryAvailable: "100Mi", imageFSAvailable: "5%", imageFSInodes: "5%", nodeFSAvailable: "5%", nodeFSInodes: "5%",
		},
		EvictionSoft: map[string]string{
			memoryAvailable: "200Mi", imageFSAvailable: "10%", imageFSInodes: "10%", nodeFSAvailable: "10%", nodeFSInodes: "10%",
		},
		EvictionSoftGracePeriod: map[string]string{
			memoryAvailable: "1m30s", imageFSAvailable: "1m30s", imageFSInodes: "1m30s", nodeFSAvailable: "1m30s",
			nodeFSInodes: "1m30s",
		},
		EvictionMaxPodGracePeriod:        90,
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: 4 * time.Minute},
		FailSwapOn:                       ptr.To(true),
		ImageGCHighThresholdPercent:      ptr.To[int32](50),
		ImageGCLowThresholdPercent:       ptr.To[int32](40),
		KubeReserved:                     map[string]string{"cpu": "80m", "memory": "1Gi"},
		MaxPods:                          110,
		ProtectKernelDefaults:            true,
		RegisterNode:                     ptr.To(true),
		RegisterWithTaints:               v.registerTaints(),
		ResolverConfig:                   ptr.To("/etc/resolv.conf"),
		RotateCertificates:               true,
		SerializeImagePulls:              ptr.To(true),
		ServerTLSBootstrap:               true,
		VolumePluginDir:                  config.KubeletDir + "/volumeplugins",
	}
	if v.Kubelet != nil {
		mergeUserConfig(c, v.Kubelet)
	}
	return string(render(c))
}

// registerTaints returns the pool's taints and the one that keeps pods off until the critical components are ready.
func (v Values) registerTaints() []corev1.Taint {
	return append([]corev1.Taint{{Key: taintCriticalComponents, Effect: corev1.TaintEffectNoSchedule}}, v.Taints...)
}

const (
	memoryAvailable  = "memory.available"
	imageFSAvailable = "imagefs.available"
	imageFSInodes    = "imagefs.inodesFree"
	nodeFSAvailable  = "nodefs.available"
	nodeFSInodes     = "nodefs.inodesFree"
)

// mergeUserConfig applies the kubelet configuration of the Shoot. Maps are merged key by key, so that setting one
// threshold keeps the defaults of the others.
func mergeUserConfig(c *kubeletv1beta1.KubeletConfiguration, user *corev1beta1.KubeletConfig) {
	c.FeatureGates = user.FeatureGates
	c.CPUCFSQuota = user.CPUCFSQuota
	set(&c.CPUManagerPolicy, user.CPUManagerPolicy)
	if e := user.EvictionHard; e != nil {
		mergeThresholds(c.EvictionHard, e)
	}
	if e := user.EvictionSoft; e != nil {
		mergeThresholds(c.EvictionSoft, e)
		for signal := range c.EvictionSoft { // Every soft threshold needs a grace period.
			if c.EvictionSoftGracePeriod[signal] == "" {
				c.EvictionSoftGracePeriod[signal] = "1m30s"
			}
		}
	}
	if e := user.EvictionSoftGracePeriod; e != nil {
		for signal, period := range map[string]*metav1.Duration{
			memoryAvailable: e.MemoryAvailable, imageFSAvailable: e.ImageFSAvailable, imageFSInodes: e.ImageFSInodesFree,
			nodeFSAvailable: e.NodeFSAvailable, nodeFSInodes: e.NodeFSInodesFree,
		} {
			if period != nil && c.EvictionSoft[signal] != "" {
				c.EvictionSoftGracePeriod[signal] = period.Duration.String()
			}
		}
	}
	if e := user.EvictionMinimumReclaim; e != nil {
		c.EvictionMinimumReclaim = quantities(map[string]*resource.Quantity{
			memoryAvailable: e.MemoryAvailable, imageFSAvailable: e.ImageFSAvailable, imageFSInodes: e.ImageFSInodesFree,
			nodeFSAvailable: e.NodeFSAvailable, nodeFSInodes: e.NodeFSInodesFree,
		})
	}
	set(&c.EvictionMaxPodGracePeriod, user.EvictionMaxPodGracePeriod)
	set(&c.EvictionPressureTransitionPeriod, user.EvictionPressureTransitionPeriod)
	set(&c.MaxPods, user.MaxPods)
	setPointer(&c.PodPidsLimit, user.PodPIDsLimit)
	setPointer(&c.FailSwapOn, user.FailSwapOn)
	mergeReserved(c, user)
	setPointer(&c.ImageGCHighThresholdPercent, user.ImageGCHighThresholdPercent)
	setPointer(&c.ImageGCLowThresholdPercent, user.ImageGCLowThresholdPercent)
	setPointer(&c.SerializeImagePulls, user.SerializeImagePulls)
	setPointer(&c.RegistryPullQPS, user.RegistryPullQPS)
	set(&c.RegistryBurst, user.RegistryBurst)
	setPointer(&c.SeccompDefault, user.SeccompDefault)
	if user.ContainerLogMaxSize != nil {
		c.ContainerLogMaxSize = user.ContainerLogMaxSize.String()
	}
	setPointer(&c.ContainerLogMaxFiles, user.ContainerLogMaxFiles)
	set(&c.ProtectKernelDefaults, user.ProtectKernelDefaults)
	set(&c.StreamingConnectionIdleTimeout, user.StreamingConnectionIdleTimeout)
	if user.MemorySwap != nil && user.MemorySwap.SwapBehavior != nil {
		c.MemorySwap.SwapBehavior = string(*user.MemorySwap.SwapBehavior)
	}
	setPointer(&c.MaxParallelImagePulls, user.MaxParallelImagePulls)
	if n := user.MaxParallelImagePulls; n != nil && *n > 1 && user.SerializeImagePulls == nil {
		c.SerializeImagePulls = ptr.To(false)
	}
	set(&c.ImageMinimumGCAge, user.ImageMinimumGCAge)
	set(&c.ImageMaximumGCAge, user.ImageMaximumGCAge)
	setPointer(&c.SingleProcessOOMKill, user.SingleProcessOOMKill)
	set(&c.ImagePullCredentialsVerificationPolicy,
		(*kubeletv1beta1.ImagePullCredentialsVerificationPolicy)(user.ImagePullCredentialsVerificationPolicy))
	c.PreloadedImagesVerificationAllowlist = user.PreloadedImagesVerificationAllowlist
}

// mergeReserved applies the reserved resources of the Shoot. The default of a resource counts only while the user
// reserves none of it under either name: a shift between the two does not change the sum, whose changes replace or
// drain machines.
func mergeReserved(c *kubeletv1beta1.KubeletConfiguration, user *corev1beta1.KubeletConfig) {
	c.SystemReserved = reservations(user.SystemReserved)
	for name := range c.SystemReserved {
		delete(c.KubeReserved, name)
	}
	maps.Copy(c.KubeReserved, reservations(user.KubeReserved))
}

func reservations(r *corev1beta1.KubeletConfigReserved) map[string]string {
	if r == nil {
		return nil
	}
	return quantities(map[string]*resource.Quantity{
		"cpu": r.CPU, "memory": r.Memory, "ephemeral-storage": r.EphemeralStorage, "pid": r.PID,
	})
}

func mergeThresholds(into map[string]string, e *corev1beta1.KubeletConfigEviction) {
	for signal, value := range map[string]*string{
		memoryAvailable: e.MemoryAvailable, imageFSAvailable: e.ImageFSAvailable, imageFSInodes: e.ImageFSInodesFree,
		nodeFSAvailable: e.NodeFSAvailable, nodeFSInodes: e.NodeFSInodesFree,
	} {
		if value != nil {
			into[signal] = *value
		}
	}
}

func quantities(in map[string]*resource.Quantity) map[string]string {
	out := map[string]string{}
	for name, quantity := range in {
		if quantity != nil {
			out[name] = quantity.String()
		}
	}
	return out
}

func set[T any](target *T, value *T) {
	if value != nil {
		*target = *value
	}
}

func setPointer[T any](target **T, value *T) {
	if value != nil {
		*target = value
	}
}

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// render leaves out fields that are zero in the type's encoding: durations of 0s, which mean the kubelet's default, and
// structs without content.
func render(c *kubeletv1beta1.KubeletConfiguration) []byte {
	encoded, err := yaml.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("a kubelet configuration cannot be encoded: %v", err)) // Plain data always can.
	}
	var tree map[string]any
	if err := yaml.Unmarshal(encoded, &tree); err != nil {
		panic(fmt.Sprintf("an encoded kubelet configuration cannot be decoded: %v", err))
	}
	delete(tree, "logging") // Never set here; its zero has a long encoding.
	prune(tree)
	if encoded, err = yaml.Marshal(tree); err != nil {
		panic(fmt.Sprintf("a kubelet configuration cannot be encoded: %v", err))
	}
	return encoded
}

func prune(tree map[string]any) {
	for key, value := range tree {
		if child, ok := value.(map[string]any); ok {
			prune(child)
			if len(child) == 0 {
				delete(tree, key)
			}
		}
		if value == "0s" || value == nil {
			delete(tree, key)
		}
	}
}
