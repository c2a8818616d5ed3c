package docs_test

import (
	"cmp"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	corev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// fill sets every field reachable from v to a value that is not its zero value; lists and maps get one element.
func fill(v reflect.Value, depth int) {
	if depth > 20 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	}
}

func filled[T any]() *T {
	out := new(T)
	fill(reflect.ValueOf(out).Elem(), 0)
	return out
}

var (
	withoutEffect = regexp.MustCompile(`^(\S+) (?:is deprecated and )?has no effect(?:: (.*))?$`)
	listIndex     = regexp.MustCompile(`\[\d+\]`)
	effectRow     = regexp.MustCompile("^\\| `([^`]+)` \\| (.*) \\|$")
)

// warned are the fields without effect that the API warns of, with the reasons, in the form of the page's rows.
func warned() map[string][]string {
	shoot := filled[corev1beta1.Shoot]()
	shoot.DeletionTimestamp = nil
	shoot.Spec.Provider.Workers[0].Maximum = 2
	shoot.Spec.Networking.IPFamilies = []corev1beta1.IPFamily{corev1beta1.IPFamilyIPv6}
	shoot.Spec.DNS.Providers[0].CredentialsRef.Kind = "WorkloadIdentity"
	shoot.Annotations = map[string]string{
		corev1beta1.AnnotationAllowDistantRegions:             "true",
		corev1beta1.AnnotationAuthenticationIssuer:            "managed",
		corev1beta1.AnnotationControlPlaneHAVPN:               "true",
		corev1beta1.AnnotationControlPlaneScaleDownDisabled:   "true",
		corev1beta1.AnnotationLiveMigrate:                     "true",
		corev1beta1.AnnotationShootDisableIstioTLSTermination: "true",
		corev1beta1.AnnotationShootIgnoreAlerts:               "true",
	}
	shoot.Spec.SystemComponents.CoreDNS.Autoscaling.Mode = corev1beta1.CoreDNSAutoscalingModeClusterProportional
	seed := filled[corev1beta1.Seed]()
	seed.Spec.Backup.CredentialsRef.Kind = "WorkloadIdentity"
	seed.Spec.DNS.Internal.CredentialsRef.Kind = "WorkloadIdentity"
	seed.Spec.DNS.Defaults[0].CredentialsRef.Kind = "WorkloadIdentity"
	seed.Spec.Networks.IPFamilies = []corev1beta1.IPFamily{corev1beta1.IPFamilyIPv6}
	registration := filled[corev1beta1.ControllerRegistration]()
	registration.Spec.Resources = append(registration.Spec.Resources, registration.Spec.Resources[0])
	registration.Spec.Resources[1].Kind = "SelfHostedShootExposure"
	out := map[string][]string{}
	add := func(kind string, texts []string) {
		for _, text := range texts {
			if match := withoutEffect.FindStringSubmatch(text); match != nil {
				out[kind] = append(out[kind], "| `"+listIndex.ReplaceAllString(match[1], "[]")+"` | "+
					cmp.Or(match[2], "deprecated")+" |")
			}
		}
		if rows := out[kind]; rows != nil {
			slices.Sort(rows)
			out[kind] = slices.Compact(rows)
		}
	}
	add("Shoot", corev1beta1.WarningsShoot(shoot, nil, time.Now()))
	add("Seed", corev1beta1.WarningsSeed(seed, nil))
	add("CloudProfile", corev1beta1.WarningsCloudProfile(filled[corev1beta1.CloudProfile](), nil))
	add("ControllerRegistration", corev1beta1.WarningsControllerRegistration(registration, nil))
	add("ControllerInstallation",
		corev1beta1.WarningsControllerInstallation(filled[corev1beta1.ControllerInstallation](), nil))
	add("ExposureClass", corev1beta1.WarningsExposureClass(filled[corev1beta1.ExposureClass](), nil))
	add("ControllerDeployment", corev1.WarningsControllerDeployment(filled[corev1.ControllerDeployment](), nil))
	managed := filled[seedmanagementv1alpha1.ManagedSeed]()
	managed.Spec.Gardenlet.Config.Raw = []byte(`{"gardenClientConnection":
		{"kubeconfig": "x", "kubeconfigSecret": {}, "bootstrapKubeconfig": {}}}`)
	add("ManagedSeed", seedmanagementv1alpha1.WarningsManagedSeed(managed, nil))
	gardenlet := filled[seedmanagementv1alpha1.Gardenlet]()
	gardenlet.Spec.Config.Raw = managed.Spec.Gardenlet.Config.Raw
	add("Gardenlet", seedmanagementv1alpha1.WarningsGardenlet(gardenlet, nil))
	return out
}

// TestFieldsWithoutEffectAreListed compares the page with the API's warnings when every field is set.
func TestFieldsWithoutEffectAreListed(t *testing.T) {
	data, err := os.ReadFile("not-implemented.md")
	if err != nil {
		t.Fatal(err)
	}
	listed, kind := map[string][]string{}, ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "### "); ok {
			kind = name
		}
		if effectRow.MatchString(line) {
			listed[kind] = append(listed[kind], line)
		}
	}
	for kind := range listed {
		slices.Sort(listed[kind])
	}
	if diff := gocmp.Diff(warned(), listed); diff != "" {
		t.Errorf("fields that the API warns of, and those of docs/not-implemented.md (-API +page):\n%s", diff)
	}
}
