package controllerregistration

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func list(s Set) []string {
	var all []string
	for kt := range maps.Keys(s) {
		all = append(all, kt.Kind+"/"+kt.Type)
	}
	slices.Sort(all)
	return all
}

func TestNeeded(t *testing.T) {
	s := &corev1beta1.Shoot{}
	s.Spec.Provider.Type = "local"
	s.Spec.Extensions = []corev1beta1.Extension{{Type: "audit"}, {Type: "off", Disabled: new(true)}}
	s.Spec.DNS = &corev1beta1.DNS{Providers: []corev1beta1.DNSProvider{
		{Type: new("aws-route53")}, {Type: new("unmanaged")},
	}}
	if diff := cmp.Diff([]string{"DNSRecord/aws-route53", "Extension/audit"}, list(NeededByShoot(s))); diff != "" {
		t.Errorf("a Shoot without workers needs (-want +got):\n%s", diff)
	}
	s.Spec.Networking = &corev1beta1.Networking{Type: new("bridge")}
	s.Spec.Provider.Workers = []corev1beta1.Worker{{
		Machine: corev1beta1.Machine{Image: &corev1beta1.ShootMachineImage{Name: "os"}},
		CRI:     &corev1beta1.CRI{ContainerRuntimes: []corev1beta1.ContainerRuntime{{Type: "gvisor"}}},
	}}
	want := []string{"ContainerRuntime/gvisor", "ControlPlane/local", "DNSRecord/aws-route53", "Extension/audit",
		"Infrastructure/local",
		"Network/bridge", "OperatingSystemConfig/os", "Worker/local"}
	if diff := cmp.Diff(want, list(NeededByShoot(s))); diff != "" {
		t.Errorf("a Shoot with workers needs (-want +got):\n%s", diff)
	}
	seed := &corev1beta1.Seed{}
	seed.Spec.Backup = &corev1beta1.Backup{Provider: "s3"}
	seed.Spec.DNS.Internal = &corev1beta1.SeedDNSProviderConfig{Type: "dns"}
	if diff := cmp.Diff([]string{"BackupBucket/s3", "BackupEntry/s3", "DNSRecord/dns"},
		list(NeededBySeed(seed))); diff != "" {
		t.Errorf("a Seed needs (-want +got):\n%s", diff)
	}
}

func TestRequired(t *testing.T) {
	registration := func(name string,
		change ...func(*corev1beta1.ControllerRegistration)) corev1beta1.ControllerRegistration {
		r := corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Spec.Resources = []corev1beta1.ControllerResource{{Kind: "Network", Type: name}}
		r.Spec.Deployment = &corev1beta1.ControllerRegistrationDeployment{
			DeploymentRefs: []corev1beta1.DeploymentRef{{Name: name}},
		}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	policy := func(p corev1beta1.ControllerDeploymentPolicy) func(*corev1beta1.ControllerRegistration) {
		return func(r *corev1beta1.ControllerRegistration) { r.Spec.Deployment.Policy = &p }
	}
	registrations := []corev1beta1.ControllerRegistration{
		registration("used"),
		registration("unused"),
		registration("always", policy(corev1beta1.ControllerDeploymentPolicyAlways)),
		registration("with-shoots", policy(corev1beta1.ControllerDeploymentPolicyAlwaysExceptNoShoots)),
		registration("elsewhere", policy(corev1beta1.ControllerDeploymentPolicyAlways),
			func(r *corev1beta1.ControllerRegistration) {
				r.Spec.Deployment.SeedSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			}),
		registration("leaving", policy(corev1beta1.ControllerDeploymentPolicyAlways),
			func(r *corev1beta1.ControllerRegistration) {
				r.DeletionTimestamp = &metav1.Time{}
			}),
		registration("for-every-shoot", func(r *corev1beta1.ControllerRegistration) {
			r.Spec.Resources[0].AutoEnable = []corev1beta1.ClusterType{corev1beta1.ClusterTypeShoot}
		}),
		registration("for-every-shoot-older-spelling", func(r *corev1beta1.ControllerRegistration) {
			r.Spec.Resources[0].GloballyEnabled = new(true)
		}),
		registration("without-deployment", func(r *corev1beta1.ControllerRegistration) { r.Spec.Deployment = nil }),
	}
	ofShoots := Set{KindType{"Network", "used"}: {}, KindType{"Network", "without-deployment"}: {}}
	for shoots, want := range map[bool]string{
		false: "always used",
		true:  "always for-every-shoot for-every-shoot-older-spelling used with-shoots",
	} {
		needed := Needed{ByShoots: ofShoots, Shoots: shoots}
		if got := strings.Join(Required(registrations, &corev1beta1.Seed{}, needed), " "); got != want {
			t.Errorf("Required() with Shoots %v = %q, want %q", shoots, got, want)
		}
	}
}

// TestExtensionsAreForShootsOrSeeds: an extension that is not made for the type of the requesting cluster is not
// installed.
func TestExtensionsAreForShootsOrSeeds(t *testing.T) {
	forShoots := []corev1beta1.ClusterType{corev1beta1.ClusterTypeShoot}
	forSeeds := []corev1beta1.ClusterType{corev1beta1.ClusterTypeSeed}
	both := slices.Concat(forShoots, forSeeds)
	asked := Set{KindType{"Extension", "x"}: {}}
	for name, tc := range map[string]struct {
		compatible, auto []corev1beta1.ClusterType
		needed           Needed
		want             bool
	}{
		"a Shoot needs it":               {compatible: forShoots, needed: Needed{ByShoots: asked}, want: true},
		"a seed needs it":                {compatible: forSeeds, needed: Needed{BySeed: asked}, want: true},
		"it is for both":                 {compatible: both, needed: Needed{BySeed: asked}, want: true},
		"a Shoot requests one for seeds": {compatible: forSeeds, needed: Needed{ByShoots: asked}},
		"a seed requests one for Shoots": {compatible: forShoots, needed: Needed{BySeed: asked}},
		"enabled for seeds":              {compatible: forSeeds, auto: forSeeds, want: true},
		"enabled for Shoots": {
			compatible: forShoots, auto: forShoots, needed: Needed{Shoots: true}, want: true,
		},
		"enabled for Shoots, but there are none": {compatible: forShoots, auto: forShoots},
	} {
		t.Run(name, func(t *testing.T) {
			r := &corev1beta1.ControllerRegistration{}
			r.Spec.Deployment = &corev1beta1.ControllerRegistrationDeployment{
				DeploymentRefs: []corev1beta1.DeploymentRef{{Name: "x"}},
			}
			r.Spec.Resources = []corev1beta1.ControllerResource{{
				Kind: "Extension", Type: "x", ClusterCompatibility: tc.compatible, AutoEnable: tc.auto,
			}}
			if got := required(r, &corev1beta1.Seed{}, tc.needed); got != tc.want {
				t.Errorf("required() = %v, want %v", got, tc.want)
			}
		})
	}
}

// TestInstallationName: the namespace of an extension begins with a prefix, and has the rest of the name.
func TestInstallationName(t *testing.T) {
	if got := installationName("provider-local", "local-1"); got != "provider-local-local-1" {
		t.Errorf("installationName() = %s", got)
	}
	long := "extension-shoot-networking-problemdetector"
	first, second := installationName(long, "europe-west-1a"), installationName(long, "europe-west-1b")
	for _, name := range []string{first, second} {
		if errs := validation.IsDNS1123Label(corev1beta1.ExtensionNamespacePrefix + name); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	if first == second || !strings.HasPrefix(first, long) {
		t.Errorf("the names on two Seeds are %s and %s", first, second)
	}
}

// TestReplacement: an installation changes to the ControllerDeployment that its registration names.
func TestReplacement(t *testing.T) {
	registration := func(deployments ...string) corev1beta1.ControllerRegistration {
		r := corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: "dns"}}
		r.Spec.Deployment = &corev1beta1.ControllerRegistrationDeployment{}
		for _, name := range deployments {
			r.Spec.Deployment.DeploymentRefs = append(r.Spec.Deployment.DeploymentRefs, corev1beta1.DeploymentRef{Name: name})
		}
		return r
	}
	withoutDeployment := registration()
	withoutDeployment.Spec.Deployment = nil
	for name, tc := range map[string]struct {
		present      string // Empty if the installation refers to none.
		registration corev1beta1.ControllerRegistration
		want         string
	}{
		"the same":               {present: "old", registration: registration("old")},
		"another":                {present: "old", registration: registration("new"), want: "new"},
		"none so far":            {registration: registration("new"), want: "new"},
		"none any more":          {present: "old", registration: registration()},
		"nothing to be deployed": {present: "old", registration: withoutDeployment},
		"no registration":        {present: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			installation := &corev1beta1.ControllerInstallation{}
			installation.Spec.RegistrationRef.Name = "dns"
			if tc.present != "" {
				installation.Spec.DeploymentRef = &corev1.ObjectReference{Name: tc.present}
			}
			if got := replacement(installation, []corev1beta1.ControllerRegistration{tc.registration}); got != tc.want {
				t.Errorf("replacement() = %q, want %q", got, tc.want)
			}
		})
	}
}
