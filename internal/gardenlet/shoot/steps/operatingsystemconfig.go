package steps

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/poolhash"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/nodeagent/osc"
	"hortus.dev/hortus/internal/secretsmanager"
)

// OperatingSystemConfig describes, per pool, what runs on the machines: at their first boot, and from then on.
var OperatingSystemConfig = &flow.Step[*Scope]{
	Name: "operating-system-config",
	// Extensions may have webhooks that change the object, and webhooks in the Shoot for what runs there.
	After:  []*flow.Step[*Scope]{Infrastructure, Credentials, References, ControlPlane, ExtensionsAfterKubeAPIServer},
	SkipIf: when(workerless, asleep),
	Ensure: use4(ensureOperatingSystemConfig),
	Remove: use2(removeOperatingSystemConfig),
}

// Suffixes of the two objects of a pool.
const (
	suffixProvision = "-init"
	suffixReconcile = "-original"
)

func ensureOperatingSystemConfig(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets, extensions *Extensions,
) (flow.Outcome, error) {
	if err := ensurePoolKeys(ctx, s, seed); err != nil {
		return flow.Outcome{}, err
	}
	keys, err := readKeys(ctx, seed, s.Shoot, s.Namespace)
	if err != nil {
		return flow.Outcome{}, err
	}
	var objects []*extensionsv1alpha1.OperatingSystemConfig
	wanted := map[string]bool{}
	for i := range s.Shoot.Spec.Provider.Workers {
		w := &s.Shoot.Spec.Provider.Workers[i]
		ofPool, err := desiredConfigs(s, secrets, w, keys[w.Name].name)
		if err != nil {
			return flow.Outcome{}, fmt.Errorf("worker pool %q: %w", w.Name, err)
		}
		for _, o := range ofPool {
			objects, wanted[o.Name] = append(objects, o), true
		}
	}
	outcome, err := every(ctx, objects,
		func(ctx context.Context, o *extensionsv1alpha1.OperatingSystemConfig) (flow.Outcome, error) {
			return extensions.reconcile(ctx, extensionRequest{object: o, trigger: triggerAlways, severe: severeDefault})
		})
	if err != nil || !outcome.IsDone() {
		return outcome, err
	}
	return outcome, deleteStaleConfigs(ctx, seed, extensions, wanted)
}

// desiredConfigs are the two objects of a pool.
func desiredConfigs(
	s *Values, secrets Secrets, w *corev1beta1.Worker, key string,
) ([]*extensionsv1alpha1.OperatingSystemConfig, error) {
	v, err := configValues(s, secrets, w, key)
	if err != nil {
		return nil, err
	}
	object := func(suffix string,
		spec extensionsv1alpha1.OperatingSystemConfigSpec) *extensionsv1alpha1.OperatingSystemConfig {
		o := &extensionsv1alpha1.OperatingSystemConfig{ObjectMeta: s.extensionMeta(key + suffix), Spec: spec}
		o.Labels = map[string]string{corev1beta1.LabelWorkerPool: w.Name, component.LabelMutatedByWebhook: "true"}
		return o
	}
	return []*extensionsv1alpha1.OperatingSystemConfig{
		object(suffixProvision, osc.Provision(v)), object(suffixReconcile, osc.Reconcile(v)),
	}, nil
}

// inPlace reports whether machines of the pool are updated rather than replaced.
func inPlace(w *corev1beta1.Worker) bool {
	s := ptr.Deref(w.UpdateStrategy, corev1beta1.AutoRollingUpdate)
	return s == corev1beta1.AutoInPlaceUpdate || s == corev1beta1.ManualInPlaceUpdate
}

func configValues(s *Values, secrets Secrets, w *corev1beta1.Worker, key string) (osc.Values, error) {
	ca, err := secrets.Bundle(nameCA)
	if err != nil {
		return osc.Values{}, err
	}
	kubeletCA, err := secrets.Bundle(nameCAKubelet)
	if err != nil {
		return osc.Values{}, err
	}
	dns, err := serviceIP(s.ServiceCIDR(), clusterDNSIndex)
	if err != nil {
		return osc.Values{}, err
	}
	if w.Machine.Image == nil || w.Machine.Image.Version == nil {
		return osc.Values{}, flow.WithCodes(fmt.Errorf("no machine image"), string(corev1beta1.ErrorConfigurationProblem))
	}
	keys, err := authorizedKeys(s, secrets)
	if err != nil {
		return osc.Values{}, err
	}
	version := poolVersion(s.Shoot, *w)
	v := osc.Values{
		Type:              w.Machine.Image.Name,
		ProviderConfig:    w.Machine.Image.ProviderConfig,
		SecretName:        key,
		KubernetesVersion: version,
		APIServerURL:      "https://" + s.InternalHost(),
		CABundle:          ca.Data[secretsmanager.DataBundle],
		KubeletCABundle:   kubeletCA.Data[secretsmanager.DataBundle],
		RootCAs:           []byte(rootCAs(s.CloudProfile, w)),
		AuthorizedKeys:    keys,
		HortusImage:       s.Images.Hortus,
		KubeletImage:      s.Images.Kubelet(version),
		SandboxImage:      s.Images.Pause,
		Kubelet:           corev1beta1.EffectiveKubelet(s.Shoot, w),
		ClusterDNS:        []string{dns},
		Labels:            nodeLabels(s.Shoot, w, key),
		Taints:            w.Taints,
	}
	if inPlace(w) {
		v.InPlaceUpdates = &extensionsv1alpha1.InPlaceUpdates{
			OperatingSystemVersion: *w.Machine.Image.Version, KubeletVersion: version,
			CredentialsRotation: rotationTimes(s.Shoot, w.Name),
		}
	}
	return v, nil
}

// authorizedKeys are those that people log in to machines with: the one in the garden and its predecessor, which is
// good until the next rotation. There are none without SSH access.
func authorizedKeys(s *Values, secrets Secrets) ([]byte, error) {
	key, err := sshPublicKey(s, secrets)
	if err != nil || key == nil {
		return nil, err
	}
	keys := slices.Clone(key)
	if old := secrets.Old(nameSSHKeypair); old != nil {
		keys = append(keys, old.Data[secretsmanager.DataPublicRSA]...)
	}
	return keys, nil
}

// rootCAs are those of the CloudProfile and of the pool.
func rootCAs(profile *corev1beta1.CloudProfile, w *corev1beta1.Worker) string {
	bundle := ""
	if profile != nil {
		bundle = ptr.Deref(profile.Spec.CABundle, "")
	}
	if w.CABundle != nil {
		if bundle != "" {
			bundle += "\n"
		}
		bundle += *w.CABundle
	}
	return bundle
}

// rotationTimes says which rotations a pool that is updated in place follows, nil if none. The hash of the pool depends
// on the same times: a time that changes here alone makes the nodes wait for an update that nobody starts.
func rotationTimes(shoot *corev1beta1.Shoot, pool string) *extensionsv1alpha1.CredentialsRotation {
	if shoot.Status.Credentials == nil || shoot.Status.Credentials.Rotation == nil {
		return nil
	}
	out := extensionsv1alpha1.CredentialsRotation{}
	if r := shoot.Status.Credentials.Rotation.CertificateAuthorities; r != nil {
		if t := poolhash.Initiated(pool, r.LastInitiationTime, r.PendingWorkersRollouts); t != nil {
			out.CertificateAuthorities = &extensionsv1alpha1.CARotation{LastInitiationTime: t}
		}
	}
	if r := shoot.Status.Credentials.Rotation.ServiceAccountKey; r != nil {
		if t := poolhash.Initiated(pool, r.LastInitiationTime, r.PendingWorkersRollouts); t != nil {
			out.ServiceAccountKey = &extensionsv1alpha1.ServiceAccountKeyRotation{LastInitiationTime: t}
		}
	}
	if out == (extensionsv1alpha1.CredentialsRotation{}) {
		return nil
	}
	return &out
}

// nodeLabels are the labels of a pool's nodes.
func nodeLabels(shoot *corev1beta1.Shoot, w *corev1beta1.Worker, key string) map[string]string {
	localDNS := shoot.Spec.SystemComponents != nil && shoot.Spec.SystemComponents.NodeLocalDNS != nil &&
		shoot.Spec.SystemComponents.NodeLocalDNS.Enabled
	out := map[string]string{
		"node.kubernetes.io/role":                  "node",
		corev1.LabelArchStable:                     ptr.Deref(w.Machine.Architecture, corev1beta1.ArchitectureAMD64),
		corev1beta1.LabelNodeLocalDNS:              fmt.Sprint(localDNS),
		corev1beta1.LabelWorkerPool:                w.Name,
		corev1beta1.LabelWorkerPoolDeprecated:      w.Name,
		corev1beta1.LabelWorkerNodeAgentSecretName: key,
	}
	if component.AllowsSystemComponents(w) {
		out[corev1beta1.LabelWorkerPoolSystemComponents] = "true"
	}
	if w.CRI != nil {
		out[corev1beta1.LabelWorkerCRIName] = string(w.CRI.Name)
		for _, r := range w.CRI.ContainerRuntimes {
			out[corev1beta1.LabelPrefixWorkerContainerRuntime+r.Type] = "true"
		}
	}
	for k, v := range w.Labels {
		out[k] = v
	}
	return out
}

// deleteStaleConfigs removes the configurations of pools and versions that are gone. Machines of an old version keep
// running without theirs: what they need is in the Shoot.
func deleteStaleConfigs(
	ctx context.Context, seed *SeedNamespace, extensions *Extensions, wanted map[string]bool,
) error {
	list := &extensionsv1alpha1.OperatingSystemConfigList{}
	if err := seed.List(ctx, list, client.InNamespace(seed.namespace)); err != nil {
		return fmt.Errorf("list OperatingSystemConfigs: %w", err)
	}
	for i := range list.Items {
		if wanted[list.Items[i].Name] {
			continue
		}
		if _, err := extensions.delete(ctx, &list.Items[i], severeDefault); err != nil {
			return err
		}
	}
	return nil
}

func removeOperatingSystemConfig(
	ctx context.Context, seed *SeedNamespace, extensions *Extensions,
) (flow.Outcome, error) {
	list := &extensionsv1alpha1.OperatingSystemConfigList{}
	if err := seed.List(ctx, list, client.InNamespace(seed.namespace)); err != nil {
		return flow.Outcome{}, fmt.Errorf("list OperatingSystemConfigs: %w", err)
	}
	objects := make([]extensionsv1alpha1.Object, 0, len(list.Items))
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return every(ctx, objects, func(ctx context.Context, o extensionsv1alpha1.Object) (flow.Outcome, error) {
		return extensions.delete(ctx, o, severeDefault)
	})
}
