package bastion

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// machine is what a bastion runs on, in the terms of the cloud.
type machine struct{ machineType, image string }

// chooseMachine returns the machine type and the image that the CloudProfile names for bastions. Without these it is
// the smallest machine type, and the image of the Shoot's first worker pool, which is known to work.
func chooseMachine(cluster *extension.Cluster) (machine, error) {
	if cluster == nil {
		return machine{}, errors.New("a Bastion belongs to a Shoot")
	}
	profile, images := cluster.CloudProfile, &v1alpha1.CloudProfileConfig{}
	if err := v1alpha1.Decode(profile.Spec.ProviderConfig, "CloudProfileConfig", images); err != nil {
		return machine{}, err
	}
	wanted := ptr.Deref(profile.Spec.Bastion, corev1beta1.Bastion{})
	pools := cluster.Shoot.Spec.Provider.Workers
	if wanted.MachineImage == nil && (len(pools) == 0 || pools[0].Machine.Image == nil) {
		return machine{}, errors.New("neither the CloudProfile nor a worker pool names a machine image for bastions")
	}
	architecture := ""
	if wanted.MachineImage == nil {
		architecture = ptr.Deref(pools[0].Machine.Architecture, "")
	}
	machineType, err := chooseType(profile.Spec.MachineTypes, wanted.MachineType, architecture)
	if err != nil {
		return machine{}, err
	}
	architecture = ptr.Deref(machineType.Architecture, architecture)
	var imageName, imageVersion string
	if wanted.MachineImage != nil {
		imageName = wanted.MachineImage.Name
		imageVersion = ptr.Deref(wanted.MachineImage.Version, newest(profile.Spec.MachineImages, imageName, architecture))
	} else {
		imageName, imageVersion = pools[0].Machine.Image.Name, ptr.Deref(pools[0].Machine.Image.Version, "")
	}
	image, err := images.Image(imageName, imageVersion, architecture)
	return machine{machineType: machineType.Name, image: image}, err
}

// chooseType returns the named machine type, or the smallest usable one of the architecture.
func chooseType(
	offered []corev1beta1.MachineType, wanted *corev1beta1.BastionMachineType, architecture string,
) (corev1beta1.MachineType, error) {
	if wanted != nil {
		for _, one := range offered {
			if one.Name == wanted.Name {
				return one, nil
			}
		}
		return corev1beta1.MachineType{}, fmt.Errorf("the CloudProfile has no machine type %q for bastions", wanted.Name)
	}
	usable := slices.DeleteFunc(slices.Clone(offered), func(one corev1beta1.MachineType) bool {
		other := architecture != "" && one.Architecture != nil && *one.Architecture != architecture
		return other || !ptr.Deref(one.Usable, true)
	})
	if len(usable) == 0 {
		return corev1beta1.MachineType{}, fmt.Errorf("the CloudProfile has no usable machine type for bastions of %q",
			architecture)
	}
	return slices.MinFunc(usable, func(a, b corev1beta1.MachineType) int {
		return cmp.Or(a.Memory.Cmp(b.Memory), a.CPU.Cmp(b.CPU), cmp.Compare(a.Name, b.Name))
	}), nil
}

// newest returns the highest supported version of an image for an architecture, or "".
func newest(images []corev1beta1.MachineImage, name, architecture string) string {
	best := ""
	for _, image := range images {
		if image.Name != name {
			continue
		}
		for _, v := range image.Versions {
			fits := architecture == "" || len(v.Architectures) == 0 || slices.Contains(v.Architectures, architecture)
			supported := ptr.Deref(v.Classification, corev1beta1.ClassificationSupported) == corev1beta1.ClassificationSupported
			if fits && supported && (best == "" || higher(v.Version, best)) {
				best = v.Version
			}
		}
	}
	return best
}

func higher(a, b string) bool {
	x, err := version.ParseGeneric(a)
	if err != nil {
		return false
	}
	y, err := version.ParseGeneric(b)
	return err != nil || y.LessThan(x)
}
