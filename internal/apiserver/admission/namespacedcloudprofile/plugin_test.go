package namespacedcloudprofile

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func imageVersion(
	version string, date *metav1.Time, change ...func(*corev1beta1.MachineImageVersion),
) corev1beta1.MachineImageVersion {
	v := corev1beta1.MachineImageVersion{ExpirableVersion: corev1beta1.ExpirableVersion{
		Version: version, ExpirationDate: date,
	}}
	for _, c := range change {
		c(&v)
	}
	return v
}

func TestOverrides(t *testing.T) {
	messages := map[string]error{}
	date := ptr.To(metav1.Now())
	parent := &corev1beta1.CloudProfileSpec{
		Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{Version: "1.36.3"}}},
		MachineImages: []corev1beta1.MachineImage{{
			Name: "os", Versions: []corev1beta1.MachineImageVersion{imageVersion("1.0.0", nil)},
		}},
		MachineTypes: []corev1beta1.MachineType{{Name: "small"}},
	}
	images := func(name string, versions ...corev1beta1.MachineImageVersion) corev1beta1.NamespacedCloudProfileSpec {
		return corev1beta1.NamespacedCloudProfileSpec{MachineImages: []corev1beta1.MachineImage{{
			Name: name, Versions: versions,
		}}}
	}
	kubernetes := func(version string, date *metav1.Time) corev1beta1.NamespacedCloudProfileSpec {
		return corev1beta1.NamespacedCloudProfileSpec{Kubernetes: &corev1beta1.KubernetesSettings{
			Versions: []corev1beta1.ExpirableVersion{{Version: version, ExpirationDate: date}},
		}}
	}
	classified := func(v *corev1beta1.MachineImageVersion) { v.Classification = ptr.To(corev1beta1.ClassificationPreview) }
	for name, tc := range map[string]struct {
		spec corev1beta1.NamespacedCloudProfileSpec
		want []string
	}{
		"a later date for a version":      {kubernetes("1.36.3", date), nil},
		"a version that the parent lacks": {kubernetes("1.37.0", date), []string{"spec.kubernetes.versions[0].version"}},
		"no date": {
			kubernetes("1.36.3", nil), []string{"spec.kubernetes.versions[0].expirationDate"},
		},
		"a later date for an image": {images("os", imageVersion("1.0.0", date)), nil},
		"another class for an image": {
			images("os", imageVersion("1.0.0", date, classified)), []string{"spec.machineImages[0].versions[0].classification"},
		},
		"an additional version": {images("os", imageVersion("2.0.0", nil, classified)), nil},
		"an image of one's own": {images("mine", imageVersion("1.0.0", nil, classified)), nil},
		"a machine type that the parent has": {
			corev1beta1.NamespacedCloudProfileSpec{MachineTypes: []corev1beta1.MachineType{{Name: "small"}}},
			[]string{"spec.machineTypes[0]"},
		},
		"an additional machine type": {
			corev1beta1.NamespacedCloudProfileSpec{MachineTypes: []corev1beta1.MachineType{{Name: "large"}}}, nil,
		},
	} {
		var got []string
		errs := overrides(&tc.spec, parent)
		messages[name] = errs.ToAggregate()
		for _, err := range errs {
			got = append(got, err.Field)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	lacking := kubernetes("1.37.0", date)
	messages["a version of a parent without any"] = overrides(&lacking, &corev1beta1.CloudProfileSpec{}).ToAggregate()
	golden.Messages(t, messages)
}

func TestLost(t *testing.T) {
	spec := func(version string, maximum *int32) *corev1beta1.CloudProfileSpec {
		return &corev1beta1.CloudProfileSpec{
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{Version: version}}},
			Limits:     &corev1beta1.Limits{MaxNodesTotal: maximum},
		}
	}
	shoots := []corev1beta1.Shoot{{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: corev1beta1.ShootSpec{
			Kubernetes: corev1beta1.Kubernetes{Version: "1.36.3"},
			Provider:   corev1beta1.Provider{Workers: []corev1beta1.Worker{{Minimum: 3}}},
		},
	}}
	if errs := lost(spec("1.36.3", nil), spec("1.36.3", ptr.To[int32](3)), shoots); len(errs) > 0 {
		t.Errorf("nothing is lost: %v", errs)
	}
	for i := range 12 { // Errors name some of them.
		shoots = append(shoots, *shoots[0].DeepCopy())
		shoots[i+1].Name = fmt.Sprintf("s%02d", i)
	}
	errs := lost(spec("1.36.3", nil), spec("1.37.0", ptr.To[int32](2)), shoots)
	if len(errs) != 2 {
		t.Errorf("a version and nodes are missing: %v", errs)
	}
	golden.Messages(t, map[string]error{"a version and nodes": errs.ToAggregate()})
}

func TestALaterDateStaysWhileItIsNeeded(t *testing.T) {
	messages := map[string]error{}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	past, future := &metav1.Time{Time: now.Add(-time.Hour)}, &metav1.Time{Time: now.Add(time.Hour)}
	parent := func(date *metav1.Time) *corev1beta1.CloudProfileSpec {
		return &corev1beta1.CloudProfileSpec{
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{
				Version: "1.35.4", ExpirationDate: date,
			}}},
			MachineImages: []corev1beta1.MachineImage{{
				Name: "os", Versions: []corev1beta1.MachineImageVersion{imageVersion("1.0.0", date)},
			}},
		}
	}
	child := &corev1beta1.NamespacedCloudProfileSpec{
		Kubernetes: &corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{
			Version: "1.35.4", ExpirationDate: future,
		}}},
		MachineImages: []corev1beta1.MachineImage{{
			Name: "os", Versions: []corev1beta1.MachineImageVersion{imageVersion("1.0.0", future)},
		}},
	}
	shoot := corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "apple"}, Spec: corev1beta1.ShootSpec{
		Kubernetes: corev1beta1.Kubernetes{Version: "1.35.4"},
		Provider: corev1beta1.Provider{Workers: []corev1beta1.Worker{{
			Machine: corev1beta1.Machine{Image: &corev1beta1.ShootMachineImage{Name: "os", Version: ptr.To("1.0.0")}},
		}}},
	}}
	leaving := *shoot.DeepCopy()
	leaving.DeletionTimestamp = past
	for name, tc := range map[string]struct {
		parent *metav1.Time
		now    *corev1beta1.NamespacedCloudProfileSpec
		shoots []corev1beta1.Shoot
		want   int
	}{
		"both dates go":          {past, &corev1beta1.NamespacedCloudProfileSpec{}, []corev1beta1.Shoot{shoot}, 2},
		"both stay":              {past, child, []corev1beta1.Shoot{shoot}, 0},
		"the parent's are later": {future, &corev1beta1.NamespacedCloudProfileSpec{}, []corev1beta1.Shoot{shoot}, 0},
		"the version is unused":  {past, &corev1beta1.NamespacedCloudProfileSpec{}, nil, 0},
		"the user goes":          {past, &corev1beta1.NamespacedCloudProfileSpec{}, []corev1beta1.Shoot{leaving}, 0},
	} {
		errs := unexpired(tc.now, child, parent(tc.parent), tc.shoots, now)
		messages[name] = errs.ToAggregate()
		if len(errs) != tc.want {
			t.Errorf("%s: %v", name, errs)
		}
	}
	golden.Messages(t, messages)
}

func TestUpdateStrategyOfTheParentsImage(t *testing.T) {
	messages := map[string]error{}
	image := func(name string, strategy corev1beta1.MachineImageUpdateStrategy) []corev1beta1.MachineImage {
		return []corev1beta1.MachineImage{{Name: name, UpdateStrategy: &strategy}}
	}
	for name, tc := range map[string]struct {
		now, old, parent []corev1beta1.MachineImage
		refused          bool
	}{
		"an image of its own":          {image("own", "patch"), image("own", "major"), image("os", "major"), false},
		"an image that the parent has": {image("os", "patch"), image("os", "major"), image("os", "major"), true},
		"the same strategy":            {image("os", "major"), image("os", "major"), image("os", "minor"), false},
		"a new override":               {image("os", "patch"), nil, image("os", "major"), false},
	} {
		errs := updateStrategies(&corev1beta1.NamespacedCloudProfileSpec{
			MachineImages: tc.now,
		}, &corev1beta1.NamespacedCloudProfileSpec{MachineImages: tc.old},
			&corev1beta1.CloudProfileSpec{MachineImages: tc.parent})
		messages[name] = errs.ToAggregate()
		if (len(errs) > 0) != tc.refused {
			t.Errorf("%s: %v", name, errs)
		}
	}
	golden.Messages(t, messages)
}

func TestOwnVersionsAreNotBornExpired(t *testing.T) {
	messages := map[string]error{}
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	image := func(name, version string, expires time.Time) corev1beta1.MachineImage {
		date := metav1.NewTime(expires)
		return corev1beta1.MachineImage{Name: name, Versions: []corev1beta1.MachineImageVersion{
			{ExpirableVersion: corev1beta1.ExpirableVersion{Version: version, ExpirationDate: &date}},
		}}
	}
	past, future := now.Add(-time.Hour), now.Add(time.Hour)
	parent := &corev1beta1.CloudProfileSpec{MachineImages: []corev1beta1.MachineImage{image("os", "1.0.0", future)}}
	for name, tc := range map[string]struct {
		image   corev1beta1.MachineImage
		allowed string
		want    int
	}{
		"an own version":                      {image("os", "1.1.0", future), "", 0},
		"an own version that expired":         {image("os", "1.1.0", past), "", 1},
		"an own image that expired":           {image("own", "1.0.0", past), "", 1},
		"an additional image that is allowed": {image("own", "1.0.0", past), "true", 0},
		"a version of the parent expires":     {image("os", "1.0.0", past), "", 0},
	} {
		profile := &corev1beta1.NamespacedCloudProfile{}
		profile.Annotations = map[string]string{corev1beta1.AnnotationAllowExpiredVersions: tc.allowed}
		profile.Spec.MachineImages = []corev1beta1.MachineImage{tc.image}
		errs := bornExpired(profile, parent, now)
		messages[name] = errs.ToAggregate()
		if len(errs) != tc.want {
			t.Errorf("%s: %v", name, errs)
		}
	}
	golden.Messages(t, messages)
}
