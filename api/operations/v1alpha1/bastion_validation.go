package v1alpha1

import (
	"net/netip"

	gardencorev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateBastion checks a Bastion.
func ValidateBastion(bastion *Bastion) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&bastion.ObjectMeta, true, apivalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	path := field.NewPath("spec")
	if bastion.Spec.ShootRef.Name == "" {
		errs = append(errs, field.Required(path.Child("shootRef", "name"), "must be given"))
	}
	if bastion.Spec.SSHPublicKey == "" {
		errs = append(errs, field.Required(path.Child("sshPublicKey"), "must be given"))
	}
	if len(bastion.Spec.Ingress) == 0 {
		errs = append(errs, field.Required(path.Child("ingress"), "must list who may connect"))
	}
	for i, rule := range bastion.Spec.Ingress {
		errs = append(errs, validateIPBlock(rule.IPBlock, path.Child("ingress").Index(i).Child("ipBlock"))...)
	}
	key := gardencorev1beta1.AnnotationOperation
	if requested, ok := bastion.Annotations[key]; ok && requested != gardencorev1beta1.OperationKeepalive {
		errs = append(errs, field.NotSupported(field.NewPath("metadata", "annotations").Key(key), requested, []string{
			gardencorev1beta1.OperationKeepalive,
		}))
	}
	return errs
}

// validateIPBlock: exceptions lie within the range, as in a NetworkPolicy.
func validateIPBlock(block networkingv1.IPBlock, path *field.Path) field.ErrorList {
	cidr, err := netip.ParsePrefix(block.CIDR)
	if err != nil {
		return field.ErrorList{field.Invalid(path.Child("cidr"), block.CIDR,
			"must be an address range such as 10.0.0.0/16")}
	}
	var errs field.ErrorList
	for i, text := range block.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil || except.Bits() <= cidr.Bits() || !cidr.Contains(except.Addr()) {
			errs = append(errs, field.Invalid(path.Child("except").Index(i), text,
				"must be an address range within "+block.CIDR))
		}
	}
	return errs
}

// ValidateBastionUpdate checks a changed Bastion. Only who may connect can change.
func ValidateBastionUpdate(bastion, old *Bastion) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&bastion.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("spec")
	immutable := func(value, before any, name string) {
		if !equality.Semantic.DeepEqual(value, before) {
			errs = append(errs, field.Invalid(path.Child(name), value, "field is immutable"))
		}
	}
	immutable(bastion.Spec.ShootRef, old.Spec.ShootRef, "shootRef")
	if bastion.Spec.SSHPublicKey != old.Spec.SSHPublicKey { // The value may be a private key by mistake.
		errs = append(errs, field.Invalid(path.Child("sshPublicKey"), field.OmitValueType{}, "field is immutable"))
	}
	if old.Spec.SeedName != nil {
		immutable(bastion.Spec.SeedName, old.Spec.SeedName, "seedName")
	}
	if old.Spec.ProviderType != nil {
		immutable(bastion.Spec.ProviderType, old.Spec.ProviderType, "providerType")
	}
	return append(errs, ValidateBastion(bastion)...)
}
