// Package shootquota keeps Shoots within the quotas of their credentials and projects.
package shootquota

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ShootQuotaValidator"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate compares the total usage of all Shoots under a quota with the quota.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots"); !concerns {
		return err
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok || shoot.DeletionTimestamp != nil {
		return nil
	}
	old, _ := a.GetOldObject().(*corev1beta1.Shoot)
	if a.GetOperation() == admission.Create {
		old = nil
	}
	if old != nil && !mayCost(shoot, old) {
		return nil
	}
	needed, err := p.needs(ctx, shoot)
	if err != nil {
		return hortusadmission.InternalError(err)
	}
	if old != nil && sameBinding(shoot, old) && !lifetimeChanged(shoot, old) {
		before, err := p.needs(ctx, old)
		if err != nil {
			return hortusadmission.InternalError(err)
		}
		if !rises(needed, before) {
			return nil // Even if a quota is already exceeded: reducing usage is always allowed.
		}
	}
	refs, credentials, err := p.bindingOf(ctx, shoot)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	for _, ref := range refs {
		quota := &corev1beta1.Quota{}
		if err := p.Get(ctx, ref.Namespace, ref.Name, quota); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("read Quota %s/%s: %w", ref.Namespace, ref.Name, err))
		}
		if problem := lifetimeProblem(shoot, quota, p.Clock.Now()); problem != nil {
			return admission.NewForbidden(a, problem)
		}
		if len(quota.Spec.Metrics) == 0 {
			continue
		}
		used, err := p.used(ctx, shoot, needed, credentials, quota)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if problem := excess(used, quota); problem != nil {
			return admission.NewForbidden(a, problem)
		}
	}
	return nil
}

// mayCost reports whether an update changes fields that count against quotas. Most do not.
func mayCost(shoot, old *corev1beta1.Shoot) bool {
	return !equality.Semantic.DeepEqual(shoot.Spec.Provider.Workers, old.Spec.Provider.Workers) ||
		!equality.Semantic.DeepEqual(shoot.Spec.Addons, old.Spec.Addons) || !sameBinding(shoot, old) ||
		lifetimeChanged(shoot, old)
}

func sameBinding(shoot, old *corev1beta1.Shoot) bool {
	return equality.Semantic.DeepEqual(shoot.Spec.CredentialsBindingName, old.Spec.CredentialsBindingName) &&
		equality.Semantic.DeepEqual(shoot.Spec.SecretBindingName, old.Spec.SecretBindingName)
}

func lifetimeChanged(shoot, old *corev1beta1.Shoot) bool {
	const key = corev1beta1.AnnotationShootExpirationTimestamp
	return shoot.Annotations[key] != old.Annotations[key]
}

// rises reports whether any amount has increased.
func rises(needed, before corev1.ResourceList) bool {
	for name, quantity := range needed {
		if was := before[name]; quantity.Cmp(was) > 0 {
			return true
		}
	}
	return false
}

// bindingOf returns the quotas and the credentials that the binding refers to.
func (p *plugin) bindingOf(
	ctx context.Context, shoot *corev1beta1.Shoot,
) (quotas []corev1.ObjectReference, credentials corev1.ObjectReference, err error) {
	switch spec := &shoot.Spec; {
	case spec.CredentialsBindingName != nil:
		binding := &securityv1alpha1.CredentialsBinding{}
		err = p.Get(ctx, shoot.Namespace, *spec.CredentialsBindingName, binding)
		quotas, credentials = binding.Quotas, binding.CredentialsRef
	case spec.SecretBindingName != nil:
		binding := &corev1beta1.SecretBinding{}
		err = p.Get(ctx, shoot.Namespace, *spec.SecretBindingName, binding)
		quotas, credentials = binding.Quotas,
			corev1.ObjectReference{Kind: "Secret", Namespace: binding.SecretRef.Namespace, Name: binding.SecretRef.Name}
	}
	return quotas, credentials, client.IgnoreNotFound(err) // Rejected by the plugin resourcereference.
}

// used returns the sum of a Shoot's needs and those of the other Shoots under a quota: all of the project, or all with
// the same credentials.
func (p *plugin) used(
	ctx context.Context, shoot *corev1beta1.Shoot, needed corev1.ResourceList, credentials corev1.ObjectReference,
	quota *corev1beta1.Quota,
) (corev1.ResourceList, error) {
	total := needed.DeepCopy()
	var others []corev1beta1.Shoot
	var err error
	if quota.Spec.Scope.Kind == "Project" {
		others, err = p.ShootsInNamespace(ctx, shoot.Namespace)
	} else {
		others, err = p.ShootsWithCredentials(ctx, credentials)
	}
	if err != nil {
		return nil, err
	}
	for i := range others {
		other := &others[i]
		if other.Namespace == shoot.Namespace && other.Name == shoot.Name {
			continue
		}
		needs, err := p.needs(ctx, other)
		if err != nil {
			return nil, err
		}
		add(total, needs)
	}
	return total, nil
}

func (p *plugin) needs(ctx context.Context, shoot *corev1beta1.Shoot) (corev1.ResourceList, error) {
	if shoot.Spec.CloudProfile == nil {
		return corev1.ResourceList{}, nil
	}
	profile, err := p.Profile(ctx, shoot.Namespace, *shoot.Spec.CloudProfile)
	if err != nil {
		return nil, err
	}
	return needs(shoot, profile.Spec), nil
}

// needs returns the maximum usage of a Shoot: all pools at their maximum, one load balancer for the API server and one
// for the ingress addon.
func needs(shoot *corev1beta1.Shoot, profile *corev1beta1.CloudProfileSpec) corev1.ResourceList {
	total := corev1.ResourceList{}
	balancers := int64(1)
	if addons := shoot.Spec.Addons; addons != nil && addons.NginxIngress != nil && addons.NginxIngress.Enabled {
		balancers++
	}
	total[corev1beta1.QuotaMetricLoadbalancer] = *resource.NewQuantity(balancers, resource.DecimalSI)
	for _, worker := range shoot.Spec.Provider.Workers {
		for _, machine := range profile.MachineTypes {
			if machine.Name != worker.Machine.Type {
				continue
			}
			times := int64(worker.Maximum)
			add(total, corev1.ResourceList{
				corev1.ResourceCPU: multiplied(machine.CPU, times), corev1beta1.QuotaMetricGPU: multiplied(machine.GPU, times),
				corev1.ResourceMemory: multiplied(machine.Memory, times),
			})
			if class, size := rootDisk(&worker, &machine, profile); class != "" {
				add(total, corev1.ResourceList{corev1.ResourceName("storage." + class): multiplied(size, times)})
			}
		}
	}
	return total
}

// rootDisk returns the class and size of the root disk of a pool's machines.
func rootDisk(
	worker *corev1beta1.Worker, machine *corev1beta1.MachineType, profile *corev1beta1.CloudProfileSpec,
) (string, resource.Quantity) {
	class, size := "", resource.Quantity{}
	if machine.Storage != nil {
		class = machine.Storage.Class
		if machine.Storage.StorageSize != nil {
			size = *machine.Storage.StorageSize
		}
	}
	if worker.Volume == nil {
		return class, size
	}
	if wanted, err := resource.ParseQuantity(worker.Volume.VolumeSize); err == nil {
		size = wanted
	}
	if worker.Volume.Type != nil {
		for _, volume := range profile.VolumeTypes {
			if volume.Name == *worker.Volume.Type {
				class = volume.Class
			}
		}
	}
	return class, size
}

func multiplied(quantity resource.Quantity, times int64) resource.Quantity {
	quantity = quantity.DeepCopy()
	quantity.Mul(times)
	return quantity
}

func add(total, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := total[name]
		sum.Add(quantity)
		total[name] = sum
	}
}

// excess returns an error for the first metric that is exceeded.
func excess(used corev1.ResourceList, quota *corev1beta1.Quota) error {
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1beta1.QuotaMetricGPU, corev1.ResourceMemory, corev1beta1.QuotaMetricStorageStandard,
		corev1beta1.QuotaMetricStoragePremium, corev1beta1.QuotaMetricLoadbalancer,
	} {
		limit, limited := quota.Spec.Metrics[name]
		if amount := used[name]; limited && amount.Cmp(limit) > 0 {
			return field.Forbidden(costs(name),
				fmt.Sprintf("quota limits exceeded: Quota %s/%s allows %s of %s, the Shoots together need up to %s",
					quota.Namespace, quota.Name, limit.String(), name, amount.String()))
		}
	}
	return nil
}

// costs returns the field that determines the usage of a metric.
func costs(metric corev1.ResourceName) *field.Path {
	if metric == corev1beta1.QuotaMetricLoadbalancer {
		return field.NewPath("spec") // One for the API server, and one for the ingress addon.
	}
	return field.NewPath("spec", "provider", "workers")
}

var expirationPath = field.NewPath("metadata", "annotations").Key(corev1beta1.AnnotationShootExpirationTimestamp)

// lifetimeProblem returns an error if a Shoot requests an expiration later than the quota allows from now on.
func lifetimeProblem(shoot *corev1beta1.Shoot, quota *corev1beta1.Quota, now time.Time) error {
	written := shoot.Annotations[corev1beta1.AnnotationShootExpirationTimestamp]
	if written == "" || quota.Spec.ClusterLifetimeDays == nil {
		return nil
	}
	latest := now.AddDate(0, 0, int(*quota.Spec.ClusterLifetimeDays))
	allowed := fmt.Sprintf("Quota %s/%s allows %d days, until %s", quota.Namespace, quota.Name,
		*quota.Spec.ClusterLifetimeDays, latest.UTC().Format(time.RFC3339))
	expiration, err := time.Parse(time.RFC3339, written)
	if err != nil {
		return field.Invalid(expirationPath, written, "must be a time such as "+latest.UTC().Format(time.RFC3339)+"; "+
			allowed)
	}
	if expiration.After(latest) {
		return field.Invalid(expirationPath, written, "is too late: "+allowed)
	}
	return nil
}
