package v1beta1

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ExtensionKinds returns the kinds that an extension may serve, sorted: those of the extension contract but Cluster, on
// which no extension acts. SelfHostedShootExposure may be registered, too, without effect.
func ExtensionKinds() []string {
	return []string{
		"BackupBucket", "BackupEntry", "Bastion", "ContainerRuntime", "ControlPlane", "DNSRecord", extensionKind,
		"Infrastructure", "Network", "OperatingSystemConfig", selfHostedShootExposureKind, "Worker",
	}
}

// LabelPrefixOfKind returns the prefix of labels of objects that use an extension for the kind. The type follows, the
// value is "true". It is the kind in lower case, a dot and extensions.gardener.cloud, with historical exceptions.
func LabelPrefixOfKind(kind string) string {
	switch kind {
	case "BackupBucket", "BackupEntry", "Bastion", "ControlPlane", "Infrastructure", "Worker":
		return LabelPrefixProvider // Their type is that of a provider.
	case "Network":
		return LabelPrefixNetworking
	case extensionKind:
		return LabelPrefixExtension
	}
	return strings.ToLower(kind) + ".extensions.gardener.cloud/"
}

// UsedExtension is a kind and type of extension object that a Shoot or Seed needs.
//
// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false
type UsedExtension struct {
	Kind, Type string
	Path       *field.Path // Of the field that names the type.
}

// UsedExtensions returns the kinds and types that the spec of a Shoot requests. Extensions that registrations enable
// for all Shoots are not among them. Several fields may request the same kind and type.
func (s *Shoot) UsedExtensions() []UsedExtension {
	spec := &s.Spec
	var used usedExtensions
	if s.HasWorkers() {
		for _, kind := range []string{"ControlPlane", "Infrastructure", "Worker"} {
			used.add(kind, spec.Provider.Type, specPath.Child("provider", "type"))
		}
		if spec.Networking != nil {
			used.add("Network", deref(spec.Networking.Type), specPath.Child("networking", "type"))
		}
	}
	for i, worker := range spec.Provider.Workers {
		path := specPath.Child("provider", "workers").Index(i)
		if worker.Machine.Image != nil {
			used.add("OperatingSystemConfig", worker.Machine.Image.Name, path.Child("machine", "image", "name"))
		}
		if worker.CRI == nil {
			continue
		}
		for j, runtime := range worker.CRI.ContainerRuntimes {
			used.add("ContainerRuntime", runtime.Type, path.Child("cri", "containerRuntimes").Index(j).Child("type"))
		}
	}
	used.addEnabled(spec.Extensions)
	if spec.DNS != nil {
		for i, provider := range spec.DNS.Providers {
			if t := deref(provider.Type); t != DNSUnmanaged {
				used.add("DNSRecord", t, specPath.Child("dns", "providers").Index(i).Child("type"))
			}
		}
	}
	return used
}

// UsedExtensions returns the kinds and types that the spec of a Seed requests, for itself and for the DNS records and
// backups of all its Shoots. Several fields may request the same kind and type.
func (s *Seed) UsedExtensions() []UsedExtension {
	spec := &s.Spec
	var used usedExtensions
	if spec.Backup != nil {
		used.add("BackupBucket", spec.Backup.Provider, specPath.Child("backup", "provider"))
		used.add("BackupEntry", spec.Backup.Provider, specPath.Child("backup", "provider"))
	}
	if spec.DNS.Provider != nil {
		used.add("DNSRecord", spec.DNS.Provider.Type, specPath.Child("dns", "provider", "type"))
	}
	if spec.DNS.Internal != nil {
		used.add("DNSRecord", spec.DNS.Internal.Type, specPath.Child("dns", "internal", "type"))
	}
	for i, domain := range spec.DNS.Defaults {
		used.add("DNSRecord", domain.Type, specPath.Child("dns", "defaults").Index(i).Child("type"))
	}
	used.addEnabled(spec.Extensions)
	return used
}

// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false
type usedExtensions []UsedExtension

// add leaves out fields that name no type.
func (u *usedExtensions) add(kind, name string, path *field.Path) {
	if name != "" {
		*u = append(*u, UsedExtension{Kind: kind, Type: name, Path: path})
	}
}

func (u *usedExtensions) addEnabled(extensions []Extension) {
	for i, extension := range extensions {
		if !deref(extension.Disabled) {
			u.add(extensionKind, extension.Type, specPath.Child("extensions").Index(i).Child("type"))
		}
	}
}
