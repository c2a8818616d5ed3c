package v1beta1

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kinds that an extension may serve. The package extensions/v1alpha1, which imports this one, exports them for others.
const (
	backupBucketKind            = "BackupBucket"
	backupEntryKind             = "BackupEntry"
	bastionKind                 = "Bastion"
	containerRuntimeKind        = "ContainerRuntime"
	controlPlaneKind            = "ControlPlane"
	dnsRecordKind               = "DNSRecord"
	extensionKind               = "Extension"
	infrastructureKind          = "Infrastructure"
	networkKind                 = "Network"
	operatingSystemConfigKind   = "OperatingSystemConfig"
	selfHostedShootExposureKind = "SelfHostedShootExposure"
	workerKind                  = "Worker"
)

// extensionKinds has a row for each kind, sorted. The label prefix is empty if it is that of most kinds.
var extensionKinds = []struct{ kind, labelPrefix string }{
	{backupBucketKind, LabelPrefixProvider}, // Its type is that of a provider, as with the others that have this prefix.
	{backupEntryKind, LabelPrefixProvider},
	{bastionKind, LabelPrefixProvider},
	{containerRuntimeKind, ""},
	{controlPlaneKind, LabelPrefixProvider},
	{dnsRecordKind, ""},
	{extensionKind, LabelPrefixExtension},
	{infrastructureKind, LabelPrefixProvider},
	{networkKind, LabelPrefixNetworking},
	{operatingSystemConfigKind, ""},
	{selfHostedShootExposureKind, ""},
	{workerKind, LabelPrefixProvider},
}

// ExtensionKinds returns the kinds that an extension may serve, sorted: those of the extension contract but Cluster, on
// which no extension acts. SelfHostedShootExposure may be registered, too, without effect.
func ExtensionKinds() []string {
	kinds := make([]string, 0, len(extensionKinds))
	for _, row := range extensionKinds {
		kinds = append(kinds, row.kind)
	}
	return kinds
}

// LabelPrefixOfKind returns the prefix of labels of objects that use an extension for the kind. The type follows, the
// value is "true". It is the kind in lower case, a dot and extensions.gardener.cloud, with historical exceptions.
func LabelPrefixOfKind(kind string) string {
	for _, row := range extensionKinds {
		if row.kind == kind && row.labelPrefix != "" {
			return row.labelPrefix
		}
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
		for _, kind := range []string{controlPlaneKind, infrastructureKind, workerKind} {
			used.add(kind, spec.Provider.Type, specPath.Child("provider", "type"))
		}
		if spec.Networking != nil {
			used.add(networkKind, deref(spec.Networking.Type), specPath.Child("networking", "type"))
		}
	}
	for i, worker := range spec.Provider.Workers {
		path := specPath.Child("provider", "workers").Index(i)
		if worker.Machine.Image != nil {
			used.add(operatingSystemConfigKind, worker.Machine.Image.Name, path.Child("machine", "image", "name"))
		}
		if worker.CRI == nil {
			continue
		}
		for j, runtime := range worker.CRI.ContainerRuntimes {
			used.add(containerRuntimeKind, runtime.Type, path.Child("cri", "containerRuntimes").Index(j).Child("type"))
		}
	}
	used.addEnabled(spec.Extensions)
	if spec.DNS != nil {
		for i, provider := range spec.DNS.Providers {
			if t := deref(provider.Type); t != DNSUnmanaged {
				used.add(dnsRecordKind, t, specPath.Child("dns", "providers").Index(i).Child("type"))
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
		used.add(backupBucketKind, spec.Backup.Provider, specPath.Child("backup", "provider"))
		used.add(backupEntryKind, spec.Backup.Provider, specPath.Child("backup", "provider"))
	}
	if spec.DNS.Provider != nil {
		used.add(dnsRecordKind, spec.DNS.Provider.Type, specPath.Child("dns", "provider", "type"))
	}
	if spec.DNS.Internal != nil {
		used.add(dnsRecordKind, spec.DNS.Internal.Type, specPath.Child("dns", "internal", "type"))
	}
	for i, domain := range spec.DNS.Defaults {
		used.add(dnsRecordKind, domain.Type, specPath.Child("dns", "defaults").Index(i).Child("type"))
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
