package resourcereference

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func TestWhatIsInUseStays(t *testing.T) {
	profile := func(kubernetes, images []string) *corev1beta1.CloudProfileSpec {
		spec := &corev1beta1.CloudProfileSpec{MachineImages: []corev1beta1.MachineImage{{Name: "os"}}}
		for _, version := range kubernetes {
			spec.Kubernetes.Versions = append(spec.Kubernetes.Versions, corev1beta1.ExpirableVersion{Version: version})
		}
		for _, version := range images {
			spec.MachineImages[0].Versions = append(spec.MachineImages[0].Versions,
				corev1beta1.MachineImageVersion{ExpirableVersion: corev1beta1.ExpirableVersion{Version: version}})
		}
		return spec
	}
	shoot := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "s"},
		Spec: corev1beta1.ShootSpec{
			Kubernetes: corev1beta1.Kubernetes{Version: "1.36.3"},
			Provider: corev1beta1.Provider{Workers: []corev1beta1.Worker{{
				Minimum: 2, Kubernetes: &corev1beta1.WorkerKubernetes{Version: ptr.To("1.35.4")},
				Machine: corev1beta1.Machine{Image: &corev1beta1.ShootMachineImage{Name: "os", Version: ptr.To("1.0.0")}},
			}}},
		},
	}
	old := profile([]string{"1.36.3", "1.35.4", "1.34.4"}, []string{"1.0.0", "1.1.0"})
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		now   *corev1beta1.CloudProfileSpec
		limit *int32
		want  []string
	}{
		"unused versions may be removed": {profile([]string{"1.36.3", "1.35.4"}, []string{"1.0.0"}), nil, nil},
		"the control plane counts": {
			profile([]string{"1.35.4", "1.34.4"}, []string{"1.0.0"}), nil, []string{"spec.kubernetes.versions"},
		},
		"a pool's own version counts": {
			profile([]string{"1.36.3"}, []string{"1.0.0"}), nil, []string{"spec.kubernetes.versions"},
		},
		"images count": {
			profile([]string{"1.36.3", "1.35.4"}, []string{"1.1.0"}), nil, []string{"spec.machineImages"},
		},
		"nodes count":            {old, ptr.To[int32](1), []string{"spec.limits.maxNodesTotal"}},
		"as many nodes as exist": {old, ptr.To[int32](2), nil},
	} {
		var got []string
		errs := usedByShoot(removedFrom(tc.now, old), tc.limit, shoot)
		messages[name] = errs.ToAggregate()
		for _, err := range errs {
			got = append(got, err.Field)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	child := &corev1beta1.NamespacedCloudProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "mine"}}
	child.Spec.MachineImages = old.MachineImages
	messages["images that a child uses"] = usedByChild(removedFrom(profile(nil, nil), old), child).ToAggregate()
	messages["an image with the name of a child's"] = takenByChild(addedImages(old, &corev1beta1.CloudProfileSpec{}),
		child).ToAggregate()
	messages["a binding for another provider"] = otherProviders("aws", []corev1beta1.Shoot{*shoot}).ToAggregate()
	golden.Messages(t, messages)
}
