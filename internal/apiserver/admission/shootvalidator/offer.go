package shootvalidator

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var specPath = field.NewPath("spec")

// collect lists all that the profile does not offer.
func (r *request) collect() field.ErrorList {
	if r.profile == nil {
		return nil
	}
	errs := slices.Clone(r.versionErrors)
	errs = append(errs, r.profileChange()...)
	errs = append(errs, r.provider()...)
	errs = append(errs, r.region()...)
	errs = append(errs, r.networks()...)
	errs = append(errs, r.domain()...)
	errs = append(errs, r.controlPlaneZones()...)
	errs = append(errs, r.rawConfigs()...)
	total := int64(0)
	for i := range r.shoot.Spec.Provider.Workers {
		worker := &r.shoot.Spec.Provider.Workers[i]
		total += int64(worker.Minimum)
		errs = append(errs, r.worker(worker, poolOf(r.old, worker.Name), specPath.Child("provider", "workers").Index(i))...)
	}
	if limits := r.profile.Spec.Limits; limits != nil && limits.MaxNodesTotal != nil && total > int64(*limits.MaxNodesTotal) {
		errs = append(errs, field.Forbidden(specPath.Child("provider", "workers"),
			fmt.Sprintf("the pools have at least %d nodes together, the cloud profile allows %d", total, *limits.MaxNodesTotal)))
	}
	return errs
}

func poolOf(shoot *corev1beta1.Shoot, name string) *corev1beta1.Worker {
	if shoot == nil {
		return nil
	}
	for i := range shoot.Spec.Provider.Workers {
		if shoot.Spec.Provider.Workers[i].Name == name {
			return &shoot.Spec.Provider.Workers[i]
		}
	}
	return nil
}

// profileChange allows a change between a CloudProfile and the NamespacedCloudProfiles below it, if the new one has all
// that the pools use.
func (r *request) profileChange() field.ErrorList {
	if r.oldProfile == nil {
		return nil
	}
	if r.oldProfile.Parent == r.profile.Parent {
		return r.usedInProfile()
	}
	return field.ErrorList{field.Forbidden(specPath.Child("cloudProfile"),
		fmt.Sprintf("the Shoot is made from CloudProfile %q and can change only to NamespacedCloudProfiles of it", r.oldProfile.Parent))}
}

// usedInProfile names what the pools have from before and the profile does not offer.
func (r *request) usedInProfile() field.ErrorList {
	var errs field.ErrorList
	for i := range r.shoot.Spec.Provider.Workers {
		worker, path := &r.shoot.Spec.Provider.Workers[i], specPath.Child("provider", "workers").Index(i)
		if poolOf(r.old, worker.Name) == nil {
			continue // Checked as a new pool.
		}
		missing := func(path *field.Path, what string) {
			errs = append(errs, field.Invalid(path, what, fmt.Sprintf("is in use, but %s %q does not offer it", r.shoot.Spec.CloudProfile.Kind, r.shoot.Spec.CloudProfile.Name)))
		}
		if r.machineTypeOffer(worker.Machine.Type) == nil {
			missing(path.Child("machine", "type"), worker.Machine.Type)
		}
		if image := worker.Machine.Image; image != nil && image.Version != nil && !r.offersImage(image.Name, *image.Version) {
			missing(path.Child("machine", "image"), image.Name+":"+*image.Version)
		}
		if worker.Volume != nil && worker.Volume.Type != nil &&
			!slices.ContainsFunc(r.profile.Spec.VolumeTypes, func(v corev1beta1.VolumeType) bool { return v.Name == *worker.Volume.Type }) {
			missing(path.Child("volume", "type"), *worker.Volume.Type)
		}
	}
	return errs
}

func (r *request) offersImage(name, version string) bool {
	for i := range r.profile.Spec.MachineImages {
		image := &r.profile.Spec.MachineImages[i]
		if image.Name == name {
			return slices.ContainsFunc(image.Versions, func(v corev1beta1.MachineImageVersion) bool { return v.Version == version })
		}
	}
	return false
}

// internalVersion is how the Go type of a server names itself; it has no wire format.
const internalVersion = "__internal"

// rawConfigs checks that the documents of extensions are of a version with a wire format.
func (r *request) rawConfigs() field.ErrorList {
	var errs field.ErrorList
	check := func(raw *runtime.RawExtension, path *field.Path) {
		if raw == nil || len(raw.Raw) == 0 {
			return
		}
		var meta metav1.TypeMeta
		if json.Unmarshal(raw.Raw, &meta) != nil {
			return // The extension says what is wrong with it.
		}
		if _, version, _ := strings.Cut(meta.APIVersion, "/"); version == internalVersion || meta.APIVersion == internalVersion {
			errs = append(errs, field.Invalid(path.Child("apiVersion"), meta.APIVersion, "must be a version that is served, such as v1alpha1"))
		}
	}
	provider, path := &r.shoot.Spec.Provider, specPath.Child("provider")
	check(provider.InfrastructureConfig, path.Child("infrastructureConfig"))
	check(provider.ControlPlaneConfig, path.Child("controlPlaneConfig"))
	for i := range provider.Workers {
		worker, path := &provider.Workers[i], path.Child("workers").Index(i)
		check(worker.ProviderConfig, path.Child("providerConfig"))
		if worker.Machine.Image != nil {
			check(worker.Machine.Image.ProviderConfig, path.Child("machine", "image", "providerConfig"))
		}
		if worker.CRI == nil {
			continue
		}
		for j := range worker.CRI.ContainerRuntimes {
			check(worker.CRI.ContainerRuntimes[j].ProviderConfig, path.Child("cri", "containerRuntimes").Index(j).Child("providerConfig"))
		}
	}
	return errs
}

func (r *request) provider() field.ErrorList {
	path, given := specPath.Child("provider", "type"), r.shoot.Spec.Provider.Type
	var errs field.ErrorList
	if given != r.profile.Spec.Type {
		errs = append(errs, field.Invalid(path, given, fmt.Sprintf("the cloud profile is for provider type %q", r.profile.Spec.Type)))
	}
	if r.bindingProvider != "" && !slices.Contains(strings.Split(r.bindingProvider, ","), given) {
		errs = append(errs, field.Invalid(path, given, fmt.Sprintf("the credentials binding is for provider type %q", r.bindingProvider)))
	}
	return errs
}

func (r *request) regionOffer() *corev1beta1.Region {
	for i := range r.profile.Spec.Regions {
		if r.profile.Spec.Regions[i].Name == r.shoot.Spec.Region {
			return &r.profile.Spec.Regions[i]
		}
	}
	return nil
}

func (r *request) region() field.ErrorList {
	if r.old != nil && equality.Semantic.DeepEqual(r.shoot.Spec.AccessRestrictions, r.old.Spec.AccessRestrictions) {
		return nil // The region itself is immutable; it may have left the profile meanwhile.
	}
	offer := r.regionOffer()
	if offer == nil {
		var names []string
		for _, region := range r.profile.Spec.Regions {
			names = append(names, region.Name)
		}
		return field.ErrorList{field.NotSupported(specPath.Child("region"), r.shoot.Spec.Region, names)}
	}
	var errs field.ErrorList
	for i, restriction := range r.shoot.Spec.AccessRestrictions {
		if !slices.ContainsFunc(offer.AccessRestrictions, func(a corev1beta1.AccessRestriction) bool { return a.Name == restriction.Name }) {
			errs = append(errs, field.Forbidden(specPath.Child("accessRestrictions").Index(i), fmt.Sprintf("region %q does not offer it", offer.Name)))
		}
	}
	return errs
}

// worker checks what is new in a pool against the offer.
func (r *request) worker(worker, old *corev1beta1.Worker, path *field.Path) field.ErrorList {
	errs := r.zones(worker, old, path.Child("zones"))
	if old == nil || old.Machine.Type != worker.Machine.Type || value(old.Machine.Architecture) != value(worker.Machine.Architecture) {
		errs = append(errs, r.machineType(worker, path.Child("machine"))...)
	}
	if worker.Volume != nil && (old == nil || old.Volume == nil || value(old.Volume.Type) != value(worker.Volume.Type) || old.Volume.VolumeSize != worker.Volume.VolumeSize) {
		errs = append(errs, r.volume(worker.Volume.Type, worker.Volume.VolumeSize, worker, path.Child("volume"))...)
	}
	return append(errs, r.reserved(worker, old, path)...)
}

func (r *request) zones(worker, old *corev1beta1.Worker, path *field.Path) field.ErrorList {
	if old != nil && slices.Equal(old.Zones, worker.Zones) {
		return nil
	}
	offer := r.regionOffer()
	if offer == nil {
		return nil
	}
	offered := sets.New[string]()
	for _, zone := range offer.Zones {
		offered.Insert(zone.Name)
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, zone := range worker.Zones {
		switch {
		case !offered.Has(zone):
			errs = append(errs, field.NotSupported(path.Index(i), zone, sets.List(offered)))
		case seen.Has(zone):
			errs = append(errs, field.Duplicate(path.Index(i), zone))
		}
		seen.Insert(zone)
	}
	return errs
}

func (r *request) machineTypeOffer(name string) *corev1beta1.MachineType {
	for i := range r.profile.Spec.MachineTypes {
		if r.profile.Spec.MachineTypes[i].Name == name {
			return &r.profile.Spec.MachineTypes[i]
		}
	}
	return nil
}

func (r *request) machineType(worker *corev1beta1.Worker, path *field.Path) field.ErrorList {
	offer := r.machineTypeOffer(worker.Machine.Type)
	if offer == nil {
		var names []string
		for _, machineType := range r.profile.Spec.MachineTypes {
			if machineType.Usable == nil || *machineType.Usable {
				names = append(names, machineType.Name)
			}
		}
		return field.ErrorList{field.NotSupported(path.Child("type"), worker.Machine.Type, names)}
	}
	var errs field.ErrorList
	if offer.Usable != nil && !*offer.Usable {
		errs = append(errs, field.Invalid(path.Child("type"), offer.Name, "is no longer usable for new pools"))
	}
	if wanted, has := value(worker.Machine.Architecture), value(offer.Architecture); wanted != "" && has != "" && wanted != has {
		errs = append(errs, field.Invalid(path.Child("type"), offer.Name, fmt.Sprintf("has architecture %s, not %s", has, wanted)))
	}
	for _, zone := range r.zonesOf(worker) {
		if slices.Contains(zone.UnavailableMachineTypes, offer.Name) {
			errs = append(errs, field.Invalid(path.Child("type"), offer.Name, "is not available in zone "+zone.Name))
		}
	}
	return errs
}

func (r *request) zonesOf(worker *corev1beta1.Worker) []corev1beta1.AvailabilityZone {
	offer := r.regionOffer()
	if offer == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(offer.Zones), func(zone corev1beta1.AvailabilityZone) bool {
		return !slices.Contains(worker.Zones, zone.Name)
	})
}

func (r *request) volume(typeName *string, size string, worker *corev1beta1.Worker, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var minimum *resource.Quantity
	if machineType := r.machineTypeOffer(worker.Machine.Type); machineType != nil && machineType.Storage != nil {
		minimum = machineType.Storage.MinSize
	}
	if typeName != nil {
		i := slices.IndexFunc(r.profile.Spec.VolumeTypes, func(v corev1beta1.VolumeType) bool { return v.Name == *typeName })
		if i < 0 {
			var names []string
			for _, volumeType := range r.profile.Spec.VolumeTypes {
				names = append(names, volumeType.Name)
			}
			return field.ErrorList{field.NotSupported(path.Child("type"), *typeName, names)}
		}
		offer := r.profile.Spec.VolumeTypes[i]
		if offer.Usable != nil && !*offer.Usable {
			errs = append(errs, field.Invalid(path.Child("type"), offer.Name, "is no longer usable for new pools"))
		}
		for _, zone := range r.zonesOf(worker) {
			if slices.Contains(zone.UnavailableVolumeTypes, offer.Name) {
				errs = append(errs, field.Invalid(path.Child("type"), offer.Name, "is not available in zone "+zone.Name))
			}
		}
		if offer.MinSize != nil && (minimum == nil || offer.MinSize.Cmp(*minimum) > 0) {
			minimum = offer.MinSize
		}
	}
	if wanted, err := resource.ParseQuantity(size); err == nil && minimum != nil && wanted.Cmp(*minimum) < 0 {
		errs = append(errs, field.Invalid(path.Child("size"), size, "must be at least "+minimum.String()))
	}
	return errs
}

// networks checks that the address ranges of the Shoot are apart from each other and, when it is placed on a Seed,
// apart from those of the Seed, with which they are connected by the tunnel.
func (r *request) networks() field.ErrorList {
	networking := r.shoot.Spec.Networking
	if networking == nil {
		return nil
	}
	path := specPath.Child("networking")
	ranges := map[string]netip.Prefix{}
	for name, text := range map[string]*string{"nodes": networking.Nodes, "pods": networking.Pods, "services": networking.Services} {
		if prefix, err := netip.ParsePrefix(value(text)); err == nil {
			ranges[name] = prefix
		}
	}
	var errs field.ErrorList
	for _, pair := range [][2]string{{"nodes", "pods"}, {"nodes", "services"}, {"pods", "services"}} {
		a, b := ranges[pair[0]], ranges[pair[1]]
		if a.IsValid() && b.IsValid() && a.Overlaps(b) {
			errs = append(errs, field.Invalid(path.Child(pair[1]), b.String(), fmt.Sprintf("overlaps with %s %s", pair[0], a)))
		}
	}
	if r.seed == nil {
		return errs
	}
	if r.shoot.HasWorkers() && networking.Pods == nil {
		errs = append(errs, field.Required(path.Child("pods"), "the Seed has no default"))
	}
	if networking.Services == nil {
		errs = append(errs, field.Required(path.Child("services"), "the Seed has no default"))
	}
	if r.old != nil && value(r.old.Spec.SeedName) == r.seed.Name {
		return errs
	}
	seed := r.seed.Spec.Networks
	for _, other := range [][2]string{{"nodes", value(seed.Nodes)}, {"pods", seed.Pods}, {"services", seed.Services}} {
		prefix, err := netip.ParsePrefix(other[1])
		if err != nil {
			continue
		}
		for _, name := range []string{"nodes", "pods", "services"} {
			for _, own := range append([]netip.Prefix{ranges[name]}, r.networksInUse(name)...) {
				if own.IsValid() && own.Overlaps(prefix) {
					errs = append(errs, field.Invalid(path.Child(name), own.String(), fmt.Sprintf("overlaps with the %s %s of Seed %q", other[0], prefix, r.seed.Name)))
					break
				}
			}
		}
	}
	return errs
}

// networksInUse are those that the status tells of, beyond the one in the spec.
func (r *request) networksInUse(name string) []netip.Prefix {
	if r.old == nil || r.old.Status.Networking == nil {
		return nil
	}
	status := r.old.Status.Networking
	var prefixes []netip.Prefix
	for _, text := range map[string][]string{"nodes": status.Nodes, "pods": status.Pods, "services": status.Services}[name] {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}
