package change

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/extension/poolhash"
	"hortus.dev/hortus/internal/nodeagent/config"
)

// InPlace holds the changes that may only be made on a node that was drained for them.
type InPlace struct {
	OperatingSystem  bool `json:"operatingSystem,omitempty"`
	KubeletMinor     bool `json:"kubeletMinor,omitempty"`
	KubeletConfig    bool `json:"kubeletConfig,omitempty"`
	CPUManagerPolicy bool `json:"cpuManagerPolicy,omitempty"`
	CARotation       bool `json:"caRotation,omitempty"`
	KeyRotation      bool `json:"keyRotation,omitempty"`
}

// OSUpdate is a run of the command that updates the operating system.
type OSUpdate struct {
	Version string `json:"version"` // The version to install.
	BootID  string `json:"bootID"`  // The boot in which the command was started.
	// Ended is the time at which the command returned without an error; nil if it is running or was interrupted.
	Ended *metav1.Time `json:"ended,omitempty"`
}

// Any reports whether a drain is needed.
func (i InPlace) Any() bool { return i != InPlace{} }

// Kubelet reports whether the kubelet is among the changes.
func (i InPlace) Kubelet() bool { return i.KubeletMinor || i.KubeletConfig || i.CPUManagerPolicy }

// computeInPlace compares the fields whose changes would replace the machines of other pools. It only counts if both
// configurations belong to an in-place pool: a node's first configuration comes with the node, not as an update.
func computeInPlace(old, next *Config, installedOS string) InPlace {
	before, after := old.InPlaceUpdates, next.InPlaceUpdates
	if before == nil || after == nil {
		return InPlace{}
	}
	result := InPlace{
		OperatingSystem: installedOS != "" && installedOS != after.OperatingSystemVersion,
		KubeletMinor:    minor(before.KubeletVersion) != minor(after.KubeletVersion),
	}
	var caBefore, caAfter, keyBefore, keyAfter *metav1.Time
	if r := before.CredentialsRotation; r != nil {
		if r.CertificateAuthorities != nil {
			caBefore = r.CertificateAuthorities.LastInitiationTime
		}
		if r.ServiceAccountKey != nil {
			keyBefore = r.ServiceAccountKey.LastInitiationTime
		}
	}
	if r := after.CredentialsRotation; r != nil {
		if r.CertificateAuthorities != nil {
			caAfter = r.CertificateAuthorities.LastInitiationTime
		}
		if r.ServiceAccountKey != nil {
			keyAfter = r.ServiceAccountKey.LastInitiationTime
		}
	}
	result.CARotation = !caBefore.Equal(caAfter)
	result.KeyRotation = !keyBefore.Equal(keyAfter)

	kubeletBefore, kubeletAfter := old.kubelet(), next.kubelet()
	result.CPUManagerPolicy = policy(kubeletBefore) != policy(kubeletAfter)
	result.KubeletConfig = !reflect.DeepEqual(reserved(kubeletBefore), reserved(kubeletAfter)) ||
		!reflect.DeepEqual(thresholds(kubeletBefore), thresholds(kubeletAfter))
	return result
}

// minor returns "1.36" of "1.36.3".
func minor(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}

// kubelet returns the kubelet's configuration; an unreadable one counts as empty, so that it shows as a change.
func (c *Config) kubelet() *kubeletv1beta1.KubeletConfiguration {
	out := &kubeletv1beta1.KubeletConfiguration{}
	file := c.file(config.KubeletConfigFile)
	if file == nil || file.Content.Inline == nil {
		return out
	}
	content, err := file.Content.Inline.Decode()
	if err != nil || yaml.Unmarshal(content, out) != nil {
		return &kubeletv1beta1.KubeletConfiguration{}
	}
	return out
}

// CPUManagerPolicy is the policy of the kubelet's CPU manager.
func (c *Config) CPUManagerPolicy() string { return policy(c.kubelet()) }

func policy(c *kubeletv1beta1.KubeletConfiguration) string {
	if c.CPUManagerPolicy == "" {
		return "none" // The kubelet's default.
	}
	return c.CPUManagerPolicy
}

// reserved returns the resources that are reserved for the kubelet and the system together. A shift between the two
// needs no drain, and does not change the hash of the pool, which starts an update, either.
func reserved(c *kubeletv1beta1.KubeletConfiguration) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"cpu", "memory", "ephemeral-storage", "pid"} {
		kube, system := c.KubeReserved[name], c.SystemReserved[name]
		if kube != "" || system != "" {
			out[name] = poolhash.Reserved(quantity(kube), quantity(system))
		}
	}
	return out
}

// quantity returns the quantity in a text, nil if it is invalid.
func quantity(text string) *resource.Quantity {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return nil
	}
	return &q
}

func thresholds(c *kubeletv1beta1.KubeletConfiguration) map[string]string {
	return pick(c.EvictionHard, "memory.available", "imagefs.available", "imagefs.inodesFree", "nodefs.available",
		"nodefs.inodesFree")
}

func pick(from map[string]string, keys ...string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if value, set := from[key]; set {
			out[key] = value
		}
	}
	return out
}
