// Package poolhash computes the hashes that decide whether the machines of a pool must be replaced or updated in place.
//
// The gardenlet derives the key of a pool's configuration from them, and the worker extension the names of its machine
// classes. Both must compute the same bytes, so the order of the items is fixed.
package poolhash

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

const (
	keyPrefix       = "gardener-node-agent-"
	itemLocalDNS    = "node-local-dns"
	shortHashLength = 5  // Class names, and keys of the first kind.
	longHashLength  = 16 // Keys of the second kind, and hashes of pools updated in place.
)

// Pool has the inputs of the hashes.
type Pool struct {
	Name              string
	KubernetesVersion string // Of the kubelets; only major and minor version count.
	MachineType       string
	ImageName         string
	ImageVersion      string
	Volume            *extensionsv1alpha1.Volume
	ProviderConfig    []byte // Counts in version 1 of the hash only.
	CRIName           string // Empty when the Shoot sets none.
	CAInitiated       string // Start of the CA rotation that the pool follows, or "".
	KeyInitiated      string // Likewise for the service account key.
	NodeLocalDNS      bool
	IPVS              bool // kube-proxy runs in IPVS mode.
	Kubelet           *corev1beta1.KubeletConfig
}

// FromShoot collects the inputs for one pool of a Shoot. It expects the fields that admission defaults to be set.
func FromShoot(shoot *corev1beta1.Shoot, worker *corev1beta1.Worker) Pool {
	p := Pool{
		Name:              worker.Name,
		KubernetesVersion: shoot.Spec.Kubernetes.Version,
		MachineType:       worker.Machine.Type,
		Kubelet:           shoot.Spec.Kubernetes.Kubelet,
	}
	if image := worker.Machine.Image; image != nil {
		p.ImageName = image.Name
		if image.Version != nil {
			p.ImageVersion = *image.Version
		}
	}
	if k := worker.Kubernetes; k != nil {
		if k.Version != nil {
			p.KubernetesVersion = *k.Version
		}
		if k.Kubelet != nil { // Replaces the Shoot's as a whole.
			p.Kubelet = k.Kubelet
		}
	}
	if v := worker.Volume; v != nil {
		p.Volume = &extensionsv1alpha1.Volume{Size: v.VolumeSize, Type: v.Type}
	}
	if worker.ProviderConfig != nil {
		p.ProviderConfig = worker.ProviderConfig.Raw
	}
	p.addShoot(shoot, worker.CRI)
	return p
}

// FromWorkerPool collects the same inputs from a pool of a Worker and its Shoot.
func FromWorkerPool(shoot *corev1beta1.Shoot, pool *extensionsv1alpha1.WorkerPool) Pool {
	p := Pool{
		Name:              pool.Name,
		KubernetesVersion: shoot.Spec.Kubernetes.Version,
		MachineType:       pool.MachineType,
		ImageName:         pool.MachineImage.Name,
		ImageVersion:      pool.MachineImage.Version,
		Volume:            pool.Volume,
		Kubelet:           pool.KubeletConfig,
	}
	if pool.KubernetesVersion != nil {
		p.KubernetesVersion = *pool.KubernetesVersion
	}
	if pool.ProviderConfig != nil {
		p.ProviderConfig = pool.ProviderConfig.Raw
	}
	var cri *corev1beta1.CRI
	for i := range shoot.Spec.Provider.Workers {
		if shoot.Spec.Provider.Workers[i].Name == pool.Name {
			cri = shoot.Spec.Provider.Workers[i].CRI
		}
	}
	p.addShoot(shoot, cri)
	return p
}

func (p *Pool) addShoot(shoot *corev1beta1.Shoot, cri *corev1beta1.CRI) {
	if cri != nil {
		p.CRIName = string(cri.Name)
	}
	if c := shoot.Status.Credentials; c != nil && c.Rotation != nil {
		if r := c.Rotation.CertificateAuthorities; r != nil {
			p.CAInitiated = text(Initiated(p.Name, r.LastInitiationTime, r.PendingWorkersRollouts))
		}
		if r := c.Rotation.ServiceAccountKey; r != nil {
			p.KeyInitiated = text(Initiated(p.Name, r.LastInitiationTime, r.PendingWorkersRollouts))
		}
	}
	if s := shoot.Spec.SystemComponents; s != nil && s.NodeLocalDNS != nil {
		p.NodeLocalDNS = s.NodeLocalDNS.Enabled
	}
	if k := shoot.Spec.Kubernetes.KubeProxy; k != nil && k.Mode != nil {
		p.IPVS = *k.Mode == corev1beta1.ProxyModeIPVS
	}
}

// Initiated returns the start of the rotation that a pool follows, or nil if it follows none. last is the start of the
// newest rotation; a pool with a pending roll-out still follows the previous one.
func Initiated(pool string, last *metav1.Time, pending []corev1beta1.PendingWorkersRollout) *metav1.Time {
	for _, p := range pending {
		if p.Name == pool {
			return p.LastInitiationTime
		}
	}
	return last
}

// text is "" for no time.
func text(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().String() // One spelling, whatever the zone of the process.
}

// KeyV1 is the key of a pool's configuration in version 1 of the hash.
func KeyV1(p Pool) (string, error) {
	minor, err := majorMinor(p.KubernetesVersion)
	if err != nil {
		return "", err
	}
	return keyPrefix + p.Name + "-" + sum(minor + p.CRIName)[:shortHashLength], nil
}

// KeyV2 is the key of a pool's configuration in version 2 of the hash.
func KeyV2(p Pool) (string, error) {
	version, err := semver.NewVersion(p.KubernetesVersion)
	if err != nil {
		return "", fmt.Errorf("kubernetes version %q: %w", p.KubernetesVersion, err)
	}
	items := []string{fmt.Sprintf("%d.%d", version.Major(), version.Minor()), p.MachineType, p.ImageName + p.ImageVersion}
	items = append(items, p.volumeItems()...)
	items = appendSet(items, p.CRIName, p.CAInitiated, p.KeyInitiated)
	// From 1.34 on the cache needs nothing that a running node lacks, unless kube-proxy uses IPVS.
	if p.NodeLocalDNS && (p.IPVS || version.Minor() < 34) {
		items = append(items, itemLocalDNS)
	}
	items = append(items, kubeletItems(p.Kubelet)...)
	return keyPrefix + p.Name + "-" + hash(items)[:longHashLength], nil
}

// KeyInPlace is the key of the configuration of a pool that is updated in place; it never changes.
func KeyInPlace(p Pool) string { return keyPrefix + p.Name }

// InPlace is the hash of everything that an update in place changes on the machines of a pool.
func InPlace(p Pool) (string, error) {
	minor, err := majorMinor(p.KubernetesVersion)
	if err != nil {
		return "", err
	}
	items := appendSet([]string{minor, p.ImageVersion}, p.CAInitiated, p.KeyInitiated)
	return hash(append(items, kubeletItems(p.Kubelet)...))[:longHashLength], nil
}

// ClassV1 is the hash in the name of a machine class, version 1; additional has the provider's inputs.
func ClassV1(p Pool, additional ...string) (string, error) {
	minor, err := majorMinor(p.KubernetesVersion)
	if err != nil {
		return "", err
	}
	items := append([]string{minor, p.MachineType, p.ImageName + p.ImageVersion}, p.volumeItems()...)
	if len(p.ProviderConfig) > 0 {
		items = append(items, string(p.ProviderConfig))
	}
	items = append(items, additional...)
	items = appendSet(items, p.CRIName, p.CAInitiated, p.KeyInitiated)
	if p.NodeLocalDNS {
		items = append(items, itemLocalDNS)
	}
	return hash(items)[:shortHashLength], nil
}

// ClassV2 is the hash in the name of a machine class, version 2, from the key of the pool's configuration.
func ClassV2(key string, additional ...string) string {
	return hash(append([]string{key}, additional...))[:shortHashLength]
}

// ClassInPlace is the hash in the name of a machine class of a pool that is updated in place.
func ClassInPlace(key, inPlace string, additional ...string) string {
	return hash(append([]string{key, inPlace}, additional...))[:shortHashLength]
}

func (p *Pool) volumeItems() []string {
	if p.Volume == nil {
		return nil
	}
	items := []string{p.Volume.Size}
	if p.Volume.Type != nil {
		items = append(items, *p.Volume.Type)
	}
	return items
}

func kubeletItems(k *corev1beta1.KubeletConfig) []string {
	if k == nil {
		return nil
	}
	var items []string
	if kube, system := k.KubeReserved, k.SystemReserved; kube != nil || system != nil {
		kube, system = cmp.Or(kube, &corev1beta1.KubeletConfigReserved{}),
			cmp.Or(system, &corev1beta1.KubeletConfigReserved{})
		items = append(items, strings.Join([]string{
			Reserved(kube.CPU, system.CPU), Reserved(kube.Memory, system.Memory),
			Reserved(kube.PID, system.PID), Reserved(kube.EphemeralStorage, system.EphemeralStorage),
		}, "-"))
	}
	if e := k.EvictionHard; e != nil {
		items = append(items, joinText(e.ImageFSAvailable, e.ImageFSInodesFree, e.MemoryAvailable, e.NodeFSAvailable,
			e.NodeFSInodesFree))
	}
	if k.CPUManagerPolicy != nil {
		items = append(items, *k.CPUManagerPolicy)
	}
	return items
}

// Reserved is the text of the quantity of one resource that is not available to pods: the sum of what is reserved for
// the kubelet and for the system; "0" if that is nothing. If only one of them is set, the sum keeps its unit; if one is
// in binary and the other in decimal units, the sum is decimal.
func Reserved(kube, system *resource.Quantity) string {
	if kube == nil && system == nil {
		return "0"
	}
	kube, system = cmp.Or(kube, &resource.Quantity{}), cmp.Or(system, &resource.Quantity{})
	sum := kube.DeepCopy()
	sum.Add(*system)
	if !kube.IsZero() && !system.IsZero() && kube.Format != system.Format {
		sum.Format = resource.DecimalSI
	}
	return sum.String()
}

// joinText connects texts with dashes; an unset one counts as empty.
func joinText(values ...*string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		if v != nil {
			texts[i] = *v
		}
	}
	return strings.Join(texts, "-")
}

func appendSet(items []string, values ...string) []string {
	for _, v := range values {
		if v != "" {
			items = append(items, v)
		}
	}
	return items
}

func majorMinor(version string) (string, error) {
	v, err := semver.NewVersion(version)
	if err != nil {
		return "", fmt.Errorf("kubernetes version %q: %w", version, err)
	}
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor()), nil
}

// hash hashes each item before all of them, so that no two lists run into each other.
func hash(items []string) string {
	var all strings.Builder
	for _, item := range items {
		all.WriteString(sum(item))
	}
	return sum(all.String())
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}
