package offer

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// worker checks what is new in a pool against the offer.
func (c *check) worker(worker, old *corev1beta1.Worker, path *field.Path) field.ErrorList {
	errs := c.zones(worker, old, path.Child("zones"))
	if old == nil || old.Machine.Type != worker.Machine.Type ||
		ptr.Deref(old.Machine.Architecture, "") != ptr.Deref(worker.Machine.Architecture, "") {
		errs = append(errs, c.machineType(worker, path.Child("machine"))...)
	}
	errs = append(errs, c.volumes(worker, old, path)...)
	return append(errs, c.reserved(worker, old, path)...)
}

// volumes checks the disks that are new or changed. What a machine type requires of its storage is about the first
// disk.
func (c *check) volumes(worker, old *corev1beta1.Worker, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	changed := func(typeName *string, size string, typeBefore *string, sizeBefore string) bool {
		return ptr.Deref(typeName, "") != ptr.Deref(typeBefore, "") || size != sizeBefore
	}
	if volume := worker.Volume; volume != nil &&
		(old == nil || old.Volume == nil || changed(volume.Type, volume.VolumeSize, old.Volume.Type, old.Volume.VolumeSize)) {
		var minimum *resource.Quantity
		if machineType := c.machineTypeOffer(worker.Machine.Type); machineType != nil && machineType.Storage != nil {
			minimum = machineType.Storage.MinSize
		}
		errs = append(errs, c.volume(volume.Type, volume.VolumeSize, minimum, worker, path.Child("volume"))...)
	}
	for i := range worker.DataVolumes {
		volume := &worker.DataVolumes[i]
		before := dataVolumeOf(old, volume.Name)
		if before == nil || changed(volume.Type, volume.VolumeSize, before.Type, before.VolumeSize) {
			errs = append(errs, c.volume(volume.Type, volume.VolumeSize, nil, worker, path.Child("dataVolumes").Index(i))...)
		}
	}
	return errs
}

func dataVolumeOf(worker *corev1beta1.Worker, name string) *corev1beta1.DataVolume {
	if worker == nil {
		return nil
	}
	for i := range worker.DataVolumes {
		if worker.DataVolumes[i].Name == name {
			return &worker.DataVolumes[i]
		}
	}
	return nil
}

func (c *check) zones(worker, old *corev1beta1.Worker, path *field.Path) field.ErrorList {
	if old != nil && slices.Equal(old.Zones, worker.Zones) {
		return nil
	}
	offer := c.regionOffer()
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
			errs = append(errs, notOffered(path.Index(i), zone, sets.List(offered),
				fmt.Sprintf("region %q has no zones; leave it out", offer.Name)))
		case seen.Has(zone):
			errs = append(errs, field.Duplicate(path.Index(i), zone))
		}
		seen.Insert(zone)
	}
	return errs
}

const (
	noMachineTypes = "the cloud profile offers no machine types to new pools"
	noVolumeTypes  = "the cloud profile offers no volume types to new pools; leave it out"
)

// machineTypes names those that new pools may have.
func (c *check) machineTypes() []string {
	var names []string
	for _, machineType := range c.profile.MachineTypes {
		if ptr.Deref(machineType.Usable, true) {
			names = append(names, machineType.Name)
		}
	}
	return names
}

// volumeTypes names those that new volumes may have.
func (c *check) volumeTypes() []string {
	var names []string
	for _, volumeType := range c.profile.VolumeTypes {
		if ptr.Deref(volumeType.Usable, true) {
			names = append(names, volumeType.Name)
		}
	}
	return names
}

// unusable is notOffered for what pools may keep that have it already.
func unusable(path *field.Path, value string, offered []string, none string) *field.Error {
	err := notOffered(path, value, offered, none)
	err.Detail = "is no longer usable for new pools; " + err.Detail
	return err
}

func (c *check) machineTypeOffer(name string) *corev1beta1.MachineType {
	for i := range c.profile.MachineTypes {
		if c.profile.MachineTypes[i].Name == name {
			return &c.profile.MachineTypes[i]
		}
	}
	return nil
}

func (c *check) machineType(worker *corev1beta1.Worker, path *field.Path) field.ErrorList {
	offer := c.machineTypeOffer(worker.Machine.Type)
	if offer == nil {
		return field.ErrorList{notOffered(path.Child("type"), worker.Machine.Type, c.machineTypes(), noMachineTypes)}
	}
	var errs field.ErrorList
	if !ptr.Deref(offer.Usable, true) {
		errs = append(errs, unusable(path.Child("type"), offer.Name, c.machineTypes(), noMachineTypes))
	}
	if wanted, has := ptr.Deref(worker.Machine.Architecture, ""), ptr.Deref(offer.Architecture, ""); wanted != "" &&
		has != "" && wanted != has {
		errs = append(errs, field.Invalid(path.Child("type"), offer.Name,
			fmt.Sprintf("has architecture %s, not %s", has, wanted)))
	}
	for _, zone := range c.zonesOf(worker) {
		if slices.Contains(zone.UnavailableMachineTypes, offer.Name) {
			errs = append(errs, field.Invalid(path.Child("type"), offer.Name,
				fmt.Sprintf("is not available in zone %s; choose another type or leave the zone out", zone.Name)))
		}
	}
	return errs
}

func (c *check) zonesOf(worker *corev1beta1.Worker) []corev1beta1.AvailabilityZone {
	offer := c.regionOffer()
	if offer == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(offer.Zones), func(zone corev1beta1.AvailabilityZone) bool {
		return !slices.Contains(worker.Zones, zone.Name)
	})
}

func (c *check) volumeTypeOffer(name string) *corev1beta1.VolumeType {
	for i := range c.profile.VolumeTypes {
		if c.profile.VolumeTypes[i].Name == name {
			return &c.profile.VolumeTypes[i]
		}
	}
	return nil
}

func (c *check) volume(
	typeName *string, size string, minimum *resource.Quantity, worker *corev1beta1.Worker, path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	if typeName != nil {
		offer := c.volumeTypeOffer(*typeName)
		if offer == nil {
			return field.ErrorList{notOffered(path.Child("type"), *typeName, c.volumeTypes(), noVolumeTypes)}
		}
		if !ptr.Deref(offer.Usable, true) {
			errs = append(errs, unusable(path.Child("type"), offer.Name, c.volumeTypes(), noVolumeTypes))
		}
		for _, zone := range c.zonesOf(worker) {
			if slices.Contains(zone.UnavailableVolumeTypes, offer.Name) {
				errs = append(errs, field.Invalid(path.Child("type"), offer.Name,
					fmt.Sprintf("is not available in zone %s; choose another type or leave the zone out", zone.Name)))
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

// reserved checks that a pool leaves something of its machines for pods.
func (c *check) reserved(worker, old *corev1beta1.Worker, path *field.Path) field.ErrorList {
	of := func(w *corev1beta1.Worker) (kube, system *corev1beta1.KubeletConfigReserved) {
		if w == nil || w.Kubernetes == nil || w.Kubernetes.Kubelet == nil {
			return nil, nil
		}
		return w.Kubernetes.Kubelet.KubeReserved, w.Kubernetes.Kubelet.SystemReserved
	}
	kube, system := of(worker)
	oldKube, oldSystem := of(old)
	offer := c.machineTypeOffer(worker.Machine.Type)
	if kube == nil && system == nil || offer == nil || old != nil && old.Machine.Type == worker.Machine.Type &&
		equality.Semantic.DeepEqual(kube, oldKube) && equality.Semantic.DeepEqual(system, oldSystem) {
		return nil
	}
	name, together := "kubeReserved", ""
	switch {
	case kube == nil:
		name, kube, system = "systemReserved", system, nil
	case system != nil:
		together = "together with systemReserved "
	}
	system = cmp.Or(system, &corev1beta1.KubeletConfigReserved{})
	path = path.Child("kubernetes", "kubelet", name)
	var errs field.ErrorList
	check := func(name string, kube, system *resource.Quantity, has resource.Quantity) {
		sum := resource.Quantity{}
		for _, q := range []*resource.Quantity{kube, system} {
			if q != nil {
				sum.Add(*q)
			}
		}
		if sum.Sign() > 0 && sum.Cmp(has) >= 0 {
			errs = append(errs, field.Invalid(path.Child(name), sum.String(),
				fmt.Sprintf("%smust be less than the %s of machine type %s", together, has.String(), offer.Name)))
		}
	}
	check("cpu", kube.CPU, system.CPU, offer.CPU)
	check("memory", kube.Memory, system.Memory, offer.Memory)
	return errs
}
