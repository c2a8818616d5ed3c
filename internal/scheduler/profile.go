package scheduler

import (
	"errors"
	"fmt"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// profileReader finds profiles; nil without an error if there is none of that name.
type profileReader interface {
	cloudProfile(name string) (*corev1beta1.CloudProfile, error)
	namespacedCloudProfile(namespace, name string) (*corev1beta1.NamespacedCloudProfile, error)
}

// missingProfileError reports to the user of a Shoot that its profile does not exist.
type missingProfileError struct{ error }

// profileOf returns the name of the CloudProfile a Shoot goes back to and its spec. A NamespacedCloudProfile changes
// nothing that places Shoots, seedSelector and regions are the parent's.
func profileOf(r profileReader, shoot *corev1beta1.Shoot) (string, *corev1beta1.CloudProfileSpec, error) {
	name, namespaced := ptr.Deref(shoot.Spec.CloudProfileName, ""), false
	if ref := shoot.Spec.CloudProfile; ref != nil {
		name, namespaced = ref.Name, ref.Kind == corev1beta1.NamespacedCloudProfileKind
	}
	if name == "" {
		return "", nil, missingProfileError{errors.New("the Shoot names no CloudProfile")}
	}
	var merged *corev1beta1.CloudProfileSpec // As the controller of NamespacedCloudProfiles left it.
	if namespaced {
		profile, err := r.namespacedCloudProfile(shoot.Namespace, name)
		if err != nil {
			return "", nil, fmt.Errorf("read NamespacedCloudProfile %s/%s: %w", shoot.Namespace, name, err)
		}
		if profile == nil {
			return "", nil, missingProfileError{fmt.Errorf("NamespacedCloudProfile %s/%s does not exist", shoot.Namespace, name)}
		}
		name = profile.Spec.Parent.Name
		if profile.Status.CloudProfileSpec.Type != "" {
			merged = &profile.Status.CloudProfileSpec
		}
	}
	profile, err := r.cloudProfile(name)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("read CloudProfile %s: %w", name, err)
	case profile != nil:
		return name, &profile.Spec, nil
	case merged != nil:
		return name, merged, nil
	}
	return "", nil, missingProfileError{fmt.Errorf("CloudProfile %s does not exist", name)}
}
