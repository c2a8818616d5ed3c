package worker

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// images is a registry: a message says why an image is not ready.
type images map[string]string

func (known images) PrepareImage(_ context.Context, in cloud.PrepareImage) (*cloud.Image, error) {
	message, found := known[in.Name]
	switch {
	case !found:
		return nil, cloud.Errorf(cloud.CodeNotFound, "image %q does not exist", in.Name)
	case message == "slow down":
		return nil, cloud.Errorf(cloud.CodeRateLimited, "%s", message)
	}
	return &cloud.Image{Name: in.Name, Ready: message == "", Message: message}, nil
}

func TestMachinesWaitForTheKubeletOfTheirVersion(t *testing.T) {
	const building = "Kubernetes 1.35.4 is being built, since it is used for the first time: it has taken 50s"
	p := Provider{Cloud: func(context.Context, client.Reader, corev1.SecretReference) (Images, error) {
		return images{
			"hortus.dev/kubelet:v1.36.3": "", "hortus.dev/kubelet:v1.35.4": building, "hortus.dev/kubelet:v1.34.4": "slow down",
		}, nil
	}}
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Kubernetes.Version = "1.35.4"
	for name, tc := range map[string]struct {
		version *string
		want    string
		code    cloud.Code
	}{
		"the version is there":                   {version: ptr.To("1.36.3")},
		"the version is being built":             {version: ptr.To("1.35.4"), want: building},
		"the Shoot's version":                    {want: building},
		"a version that the cloud does not know": {version: ptr.To("1.30.0")},
		"an error of the cloud":                  {version: ptr.To("1.34.4"), code: cloud.CodeRateLimited},
	} {
		got, err := p.Prepare(t.Context(), &extensionsv1alpha1.Worker{}, &extension.Cluster{Shoot: shoot},
			&extensionsv1alpha1.WorkerPool{KubernetesVersion: tc.version})
		if got != tc.want || cloud.CodeOf(err) != tc.code {
			t.Errorf("%s: Prepare() = %q, %v, want %q, code %q", name, got, err, tc.want, tc.code)
		}
	}
}

func TestVolumesOfAPool(t *testing.T) {
	pool := &extensionsv1alpha1.WorkerPool{
		DataVolumes: []extensionsv1alpha1.DataVolume{
			{Name: "kubelet", Size: "10Gi"},
			{Name: "scratch", Size: "5Gi"},
		},
		KubeletDataVolumeName: ptr.To("kubelet"),
	}
	want := []v1alpha1.MachineVolume{
		{Name: "kubelet", SizeBytes: 10 << 30, Path: "/var/lib/kubelet"},
		{Name: "scratch", SizeBytes: 5 << 30, Path: "/mnt/data/scratch"},
	}
	got, err := volumesOf(pool)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("volumesOf() mismatch (-want +got):\n%s", diff)
	}
	pool.DataVolumes[0].Size = "ten"
	if _, err := volumesOf(pool); err == nil || !strings.Contains(err.Error(), `"ten"`) {
		t.Errorf("volumesOf() error for a size that is no quantity: %v", err)
	}
}
