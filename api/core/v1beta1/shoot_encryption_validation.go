package v1beta1

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// encryptedByDefault are encrypted in every cluster and therefore never listed.
const encryptedByDefault = "secrets"

// neverEncrypted are resources that the API server itself reads before it can decrypt, and groups that only mirror
// others.
var (
	neverEncrypted       = []string{"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"}
	neverEncryptedGroups = []string{"events.k8s.io", "extensions"}
)

func (v ShootValidation) encryption(shoot *Shoot, path *field.Path) field.ErrorList {
	config := shoot.Spec.Kubernetes.KubeAPIServer.EncryptionConfig
	if config == nil {
		return nil
	}
	errs := validateUniqueStrings(config.Resources, path.Child("resources"))
	for i, resource := range config.Resources {
		errs = append(errs, validateEncryptedResource(resource, path.Child("resources").Index(i))...)
	}
	path = path.Child("provider", "type")
	errs = append(errs, validateOptionalEnum(config.Provider.Type, path, EncryptionProviderTypeAESCBC,
		EncryptionProviderTypeAESGCM, EncryptionProviderTypeSecretbox)...)
	if deref(config.Provider.Type) == EncryptionProviderTypeAESGCM {
		period, given := etcdKeyAutoRotation(shoot.Spec.Maintenance)
		// Admission switches the rotation on for new Shoots that do not set it.
		if given && period.Duration == 0 || !given && !v.BeforeAdmission {
			errs = append(errs, field.Forbidden(path,
				"aesgcm needs spec.maintenance.autoRotation.credentials.etcdEncryptionKey, because its keys must be rotated regularly"))
		}
	}
	return errs
}

func validateEncryptedResource(resource string, path *field.Path) field.ErrorList {
	name, group, _ := strings.Cut(resource, ".")
	problem := ""
	switch {
	case resource == "":
		problem = "must not be empty"
	case resource != strings.ToLower(resource):
		problem = "must be in lower case"
	case strings.HasSuffix(resource, "."):
		problem = "must not end with a dot"
	case strings.Contains(resource, "*"):
		problem = "must not contain a wildcard; name each resource"
	case slices.Contains(neverEncryptedGroups, group):
		problem = "resources of the group " + group + " are stored under another group"
	case group == "" && slices.Contains(neverEncrypted, name):
		problem = "cannot be encrypted"
	case resource == encryptedByDefault:
		return field.ErrorList{field.Forbidden(path, "secrets are always encrypted")}
	}
	if problem == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, resource, problem)}
}

func encryptedResources(shoot *Shoot) []string {
	server := shoot.Spec.Kubernetes.KubeAPIServer
	if server == nil || server.EncryptionConfig == nil {
		return nil
	}
	return canonicalResources(server.EncryptionConfig.Resources)
}

// canonicalResources are sorted and unique, without those that are always encrypted.
func canonicalResources(resources []string) []string {
	resources = slices.DeleteFunc(slices.Clone(resources), func(r string) bool { return r == encryptedByDefault })
	slices.Sort(resources)
	return slices.Compact(resources)
}

func encryptionProvider(shoot *Shoot) EncryptionProviderType {
	server := shoot.Spec.Kubernetes.KubeAPIServer
	if server == nil || server.EncryptionConfig == nil || server.EncryptionConfig.Provider.Type == nil {
		return EncryptionProviderTypeAESCBC
	}
	return *server.EncryptionConfig.Provider.Type
}

// encryptionRollsOut reports whether the API server encrypts something else than the spec requests. Before the first
// report, the last operation decides.
func encryptionRollsOut(shoot *Shoot) bool {
	credentials := shoot.Status.Credentials
	if credentials == nil || credentials.EncryptionAtRest == nil {
		operation := shoot.Status.LastOperation
		return len(encryptedResources(shoot)) > 0 && (operation == nil || operation.State != LastOperationStateSucceeded)
	}
	actual := credentials.EncryptionAtRest
	return !slices.Equal(canonicalResources(actual.Resources), encryptedResources(shoot)) ||
		actual.Provider.Type != "" && actual.Provider.Type != encryptionProvider(shoot)
}

func validateEncryptionUpdate(shoot, old *Shoot) field.ErrorList {
	resourcesChange := !slices.Equal(encryptedResources(shoot), encryptedResources(old))
	providerChanges := encryptionProvider(shoot) != encryptionProvider(old)
	if !resourcesChange && !providerChanges {
		return nil
	}
	path := specPath.Child("kubernetes", "kubeAPIServer", "encryptionConfig")
	var errs field.ErrorList
	if phase := etcdKeyPhase(old); rotating(phase) {
		errs = append(errs, field.Forbidden(path,
			"cannot be changed while the rotation of the etcd encryption key is in phase "+string(phase)))
	}
	// Reverting to what is encrypted at present is possible at every moment.
	goesBack := encryptionRollsOut(old) && !encryptionRollsOut(shoot)
	if encryptionRollsOut(old) && !goesBack {
		errs = append(errs, field.Forbidden(path,
			"cannot be changed while an earlier change is being rolled out, except back to status.credentials.encryptionAtRest"))
	}
	if hibernatedOrWakingUp(old) {
		errs = append(errs, field.Forbidden(path, "cannot be changed while the cluster is hibernated"))
	}
	if !providerChanges || goesBack {
		return errs
	}
	path = path.Child("provider", "type")
	if resourcesChange {
		errs = append(errs, field.Forbidden(path, "cannot be changed together with the resources"))
	}
	operation := old.Status.LastOperation
	if operation == nil || operation.State != LastOperationStateSucceeded ||
		operation.Type != LastOperationTypeCreate && operation.Type != LastOperationTypeReconcile {
		errs = append(errs, field.Forbidden(path,
			"cannot be changed before the cluster has been created or reconciled successfully"))
	}
	return errs
}
