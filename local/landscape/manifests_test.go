package landscape

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestCloudProfileOffersTheHostsArchitecture(t *testing.T) {
	for _, architecture := range []string{"amd64", "arm64"} {
		t.Run(architecture, func(t *testing.T) {
			objects, err := manifest("cloudprofile.yaml", map[string]any{"Architecture": architecture})
			if err != nil {
				t.Fatal(err)
			}
			var profile corev1beta1.CloudProfile
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[0].Object, &profile,
				true); err != nil {
				t.Fatal(err)
			}
			corev1beta1.SetDefaultsCloudProfile(&profile)
			if errs := corev1beta1.ValidateCloudProfile(&profile); len(errs) > 0 {
				t.Errorf("the API refuses it: %v", errs.ToAggregate())
			}
			var got []string
			for _, image := range profile.Spec.MachineImages {
				for _, version := range image.Versions {
					got = append(got, version.Architectures...)
				}
			}
			for _, machineType := range profile.Spec.MachineTypes {
				got = append(got, *machineType.Architecture)
			}
			if others := slices.DeleteFunc(slices.Clone(got), func(a string) bool { return a == architecture }); len(got) < 4 ||
				len(others) > 0 {
				t.Errorf("it offers %v", got)
			}
		})
	}
}

func TestExamplesFitEveryArchitecture(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	pinned := regexp.MustCompile(`amd64|arm64|architecture:|kubernetes\.io/arch`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := pinned.FindString(string(data)); found != "" {
			t.Errorf("%s names %q", file, found)
		}
	}
}
