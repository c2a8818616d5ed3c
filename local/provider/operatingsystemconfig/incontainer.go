package operatingsystemconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// InContainer changes the contents for machines so that they fit containers, which share the kernel, the swap and the
// disk of their host: cgroups without systemd, no settings of the kernel, no iptables program, and thresholds for free
// space that do not depend on the size of the disk. kubelet is the pool's configuration; nil means all defaults.
// Contents that it has changed before stay as they are.
func InContainer(spec *extensionsv1alpha1.OperatingSystemConfigSpec, kubelet *corev1beta1.KubeletConfig) error {
	if spec.CRIConfig != nil {
		spec.CRIConfig.CgroupDriver = ptr.To(extensionsv1alpha1.CgroupDriverCgroupfs)
	}
	for i := range spec.Units {
		if u := &spec.Units[i]; u.Name == extensionsv1alpha1.KubeletUnitName && u.Content != nil {
			u.Content = ptr.To(withoutRuntimeCgroups(*u.Content))
		}
	}
	for i := range spec.Files {
		f := &spec.Files[i]
		if f.Path != extensionsv1alpha1.KubeletConfigFile || f.Content.Inline == nil {
			continue
		}
		content, err := f.Content.Inline.Decode()
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Path, err)
		}
		if content, err = kubeletInContainer(content, kubelet); err != nil {
			return fmt.Errorf("change %s: %w", f.Path, err)
		}
		f.Content.Inline = inline(content)
	}
	return nil
}

// withoutRuntimeCgroups removes the flag that names the cgroup of containerd, which only systemd makes.
func withoutRuntimeCgroups(unit string) string {
	lines := strings.Split(unit, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "--runtime-cgroups=")
	}), "\n")
}

// thresholds are the free space below which pods are evicted, by the kubelet's name of the signal. Those in percent say
// nothing about a machine whose disk is its host's: this may be large and nearly full.
var thresholds = map[string]string{"imagefs.available": "1Gi", "nodefs.available": "1Gi", "nodefs.inodesFree": "1%"}

// signalMemory is measured for each machine.
const signalMemory = "memory.available"

// kubeletInContainer changes a configuration of kubelets. Fields that it does not know stay.
func kubeletInContainer(content []byte, user *corev1beta1.KubeletConfig) ([]byte, error) {
	var c map[string]any
	var m struct{ EvictionHard, EvictionSoft, EvictionSoftGracePeriod, KubeReserved map[string]string }
	if err := errors.Join(yaml.Unmarshal(content, &c), yaml.Unmarshal(content, &m)); err != nil {
		return nil, err
	}
	if c == nil {
		c = map[string]any{}
	}
	if m.KubeReserved == nil {
		m.KubeReserved = map[string]string{}
	}
	if user == nil {
		user = &corev1beta1.KubeletConfig{}
	}
	for signal, value := range m.EvictionHard {
		if absolute, found := thresholds[signal]; found && ofDisk(signal, value) {
			m.EvictionHard[signal] = absolute
		}
	}
	maps.DeleteFunc(m.EvictionHard, func(signal, value string) bool {
		return ofDisk(signal, value) && value != thresholds[signal]
	})
	maps.DeleteFunc(m.EvictionSoft, ofDisk)
	maps.DeleteFunc(m.EvictionSoftGracePeriod, func(signal, _ string) bool { return m.EvictionSoft[signal] == "" })
	// By default less memory is reserved than on machines of several gigabytes.
	if own := reservedMemory(user.KubeReserved); own != nil {
		m.KubeReserved["memory"] = own.String()
	} else if reservedMemory(user.SystemReserved) == nil {
		m.KubeReserved["memory"] = "256Mi"
	}
	maps.Copy(c, map[string]any{
		"cgroupDriver": extensionsv1alpha1.CgroupDriverCgroupfs, "cgroupRoot": "/", "failCgroupV1": false,
		"failSwapOn": false, "makeIPTablesUtilChains": false,
		// Images are not removed for the sake of others' files.
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"protectKernelDefaults": ptr.Deref(user.ProtectKernelDefaults, false),
		"serializeImagePulls":   ptr.Deref(user.SerializeImagePulls, false),
		"evictionHard":          m.EvictionHard, "evictionSoft": m.EvictionSoft,
		"evictionSoftGracePeriod": m.EvictionSoftGracePeriod, "kubeReserved": m.KubeReserved,
	})
	return yaml.Marshal(c)
}

// ofDisk reports whether a threshold is a share of a disk.
func ofDisk(signal, value string) bool {
	return signal != signalMemory && strings.HasSuffix(value, "%")
}

func reservedMemory(r *corev1beta1.KubeletConfigReserved) *resource.Quantity {
	if r == nil {
		return nil
	}
	return r.Memory
}
