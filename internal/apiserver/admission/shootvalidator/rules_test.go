package shootvalidator

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/golden"
)

// offering is a profile with a few entries of all kinds.
func offering(t *testing.T) *hortusadmission.Profile {
	t.Helper()
	version := func(v string) corev1beta1.ExpirableVersion { return corev1beta1.ExpirableVersion{Version: v} }
	expired := version("1.34.4")
	expired.ExpirationDate = &metav1.Time{Time: now.Add(-time.Hour)}
	spec := &corev1beta1.CloudProfileSpec{
		Type: "local",
		Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{
			version("1.36.3"), version("1.35.4"), expired,
		}},
		MachineImages: []corev1beta1.MachineImage{{Name: "os", Versions: []corev1beta1.MachineImageVersion{{
			ExpirableVersion: version("1.0.0"), Architectures: []string{"amd64"}, KubeletVersionConstraint: ptr.To(">= 1.36"),
			CRI: []corev1beta1.CRI{{Name: "containerd"}},
		}}}},
		MachineTypes: []corev1beta1.MachineType{{
			Name: "small", Architecture: ptr.To("amd64"), CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi"),
		}},
		VolumeTypes: []corev1beta1.VolumeType{{Name: "fast", MinSize: ptr.To(resource.MustParse("30Gi"))}},
		Regions: []corev1beta1.Region{{
			Name: "home", Zones: []corev1beta1.AvailabilityZone{{Name: "a"}},
			AccessRestrictions: []corev1beta1.AccessRestriction{{Name: "eu"}},
		}},
		Limits: &corev1beta1.Limits{MaxNodesTotal: ptr.To[int32](5)},
	}
	versions, err := cloudprofile.Compile("local", spec)
	if err != nil {
		t.Fatal(err)
	}
	return &hortusadmission.Profile{Spec: spec, Versions: versions, Parent: "local"}
}

var now = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// asOffered returns a Shoot that the profile allows, with changes.
func asOffered(seed string, changes ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	shoot := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "apple"},
		Spec: corev1beta1.ShootSpec{
			CloudProfile: &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "local"}, Region: "home",
			Kubernetes: corev1beta1.Kubernetes{Version: "1.36.3"},
			Provider: corev1beta1.Provider{Type: "local", Workers: []corev1beta1.Worker{{
				Name: "pool", Minimum: 1, Maximum: 2, CRI: &corev1beta1.CRI{Name: "containerd"}, Machine: corev1beta1.Machine{
					Type: "small", Architecture: ptr.To("amd64"),
					Image: &corev1beta1.ShootMachineImage{Name: "os", Version: ptr.To("1.0.0")},
				},
			}}},
			Networking: &corev1beta1.Networking{
				Nodes: ptr.To("10.250.0.0/16"), Pods: ptr.To("100.96.0.0/16"), Services: ptr.To("100.64.0.0/16"),
			},
		},
	}
	if seed != "" {
		shoot.Spec.SeedName = &seed
	}
	for _, change := range changes {
		change(shoot)
	}
	return shoot
}

func firstPool(change func(*corev1beta1.Worker)) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) { change(&s.Spec.Provider.Workers[0]) }
}

type seedChange = func(*corev1beta1.Seed)

// The names of the cases begin with the numbers of the rules in docs/controllers/admission.md, which are in order.
func TestRules(t *testing.T) {
	project := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}
	leaving := project.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{}
	hibernated := func(s *corev1beta1.Shoot) { s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)} }
	impossible := func(s *corev1beta1.Shoot) {
		s.Status.Constraints = []corev1beta1.Condition{{
			Type: corev1beta1.ShootHibernationPossible, Status: corev1beta1.ConditionFalse, Message: "webhook x fails closed",
		}}
	}
	managed := func(s *corev1beta1.Shoot) {
		s.Annotations = map[string]string{corev1beta1.AnnotationAuthenticationIssuer: corev1beta1.AuthenticationIssuerManaged}
	}
	ownIssuer := func(s *corev1beta1.Shoot) {
		s.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{
			ServiceAccountConfig: &corev1beta1.ServiceAccountConfig{Issuer: ptr.To("https://x.org")},
		}
	}
	domain := func(s *corev1beta1.Shoot) { s.Spec.DNS = &corev1beta1.DNS{Domain: ptr.To("apple.dev.example.org")} }
	defaults := func(domains ...string) seedChange {
		return func(s *corev1beta1.Seed) {
			for _, d := range domains {
				s.Spec.DNS.Defaults = append(s.Spec.DNS.Defaults, corev1beta1.SeedDNSProviderConfig{Domain: d})
			}
		}
	}
	secret := func(name string) corev1.ObjectReference {
		return corev1.ObjectReference{Kind: "Secret", Namespace: "garden-dev", Name: name}
	}
	arrived := func(seed string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) { s.Status.SeedName = &seed }
	}
	bind := func(seed *corev1beta1.Seed, changes ...func(*corev1beta1.Shoot)) *request {
		return &request{binding: true, old: asOffered("", changes...), shoot: asOffered(seed.Name, changes...), seed: seed}
	}
	move := func(to *corev1beta1.Seed, changes ...func(*corev1beta1.Shoot)) *request {
		return &request{
			binding: true, old: asOffered("x", changes...), shoot: asOffered(to.Name, changes...),
			oldSeed: seedNamed("x", defaults("example.org")), seed: to,
		}
	}
	create := func(changes ...func(*corev1beta1.Shoot)) *request { return &request{shoot: asOffered("", changes...)} }
	change := func(changes ...func(*corev1beta1.Shoot)) *request {
		return &request{old: asOffered("x"), shoot: asOffered("x", changes...), seed: seedNamed("x")}
	}
	with := func(r *request, set func(*request)) *request { set(r); return r }
	neighbour := func(name, domain string) corev1beta1.Shoot {
		return *asOffered("", func(s *corev1beta1.Shoot) { s.Name, s.Spec.DNS = name, &corev1beta1.DNS{Domain: &domain} })
	}
	inZones := func(zones ...string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) { s.Spec.ControlPlane = &corev1beta1.ControlPlane{Zones: zones} }
	}
	elsewhere := offering(t)
	elsewhere.Parent = "other"
	smaller := offering(t)
	smaller.Spec.MachineTypes = nil

	messages := map[string]error{}
	for name, tc := range map[string]struct {
		request *request
		allowed bool
	}{
		"00 a Shoot as offered": {create(), true},
		"00 the same on a Seed": {bind(seedNamed("x")), true},
		"00 a move":             {move(seedNamed("y", defaults("example.org")), domain), true},
		"01 a long name": {
			with(create(func(s *corev1beta1.Shoot) { s.Name = "a-name-of-twenty-one-c" }),
				func(r *request) { r.project = project }), false,
		},
		"01 a long prefix": {with(create(func(s *corev1beta1.Shoot) {
			s.Name, s.GenerateName = "", "a-name-of-17-chars"
		}), func(r *request) { r.project = project }), false},
		"02 removal of the selector":   {with(change(), func(r *request) { selector("test")(r.old) }), false},
		"02 a selector of other Seeds": {change(selector("prod")), false},
		"02 a selector of a provider":  {change(selector("test", "aws")), false},
		"03 a project that goes":       {with(create(), func(r *request) { r.project = leaving }), false},
		"04 creation on a Seed":        {&request{shoot: asOffered("x"), seed: seedNamed("x")}, false},
		"04 a plain edit":              {&request{old: asOffered(""), shoot: asOffered("x"), seed: seedNamed("x")}, false},
		"04 the same Seed again": {&request{
			binding: true, old: asOffered("x"), shoot: asOffered("x"), seed: seedNamed("x"),
		}, false},
		"04 removal of the Seed": {&request{binding: true, old: asOffered("x"), shoot: asOffered("")}, false},
		"05 a move":              {move(seedNamed("y")), true},
		"05 a move of what waits for maintenance": {with(move(seedNamed("y")), func(r *request) {
			r.shoot.Annotations = map[string]string{
				corev1beta1.AnnotationNeedsRetryOperation: "true", corev1beta1.AnnotationShootTasks: "a",
			}
			r.shoot.Labels = map[string]string{corev1beta1.LabelPrefixSeedName + "y": "true"}
		}), true},
		"05 a move after another":     {move(seedNamed("y"), state("Restore", "Succeeded"), arrived("x")), true},
		"05 a move that is cancelled": {move(seedNamed("y"), state("Reconcile", "Succeeded"), arrived("y")), true},
		"05 a move before another has begun": {
			move(seedNamed("y"), state("Reconcile", "Succeeded"), arrived("z")), false,
		},
		"05 a move during another":               {move(seedNamed("y"), state("Migrate", "Processing"), arrived("z")), false},
		"05 a move before another is taken over": {move(seedNamed("y"), state("Migrate", "Succeeded"), arrived("x")), false},
		"05 a move before a restoration":         {move(seedNamed("y"), state("Restore", "Processing"), arrived("x")), false},
		"05 a move after a failed restoration":   {move(seedNamed("y"), state("Restore", "Error"), arrived("x")), true},
		"05 a move back during another":          {move(seedNamed("y"), state("Migrate", "Error"), arrived("y")), true},
		"05 a move with an annotation": {with(move(seedNamed("y")), func(r *request) {
			r.shoot.Annotations = map[string]string{corev1beta1.AnnotationConfirmationDeletion: "true"}
		}), false},
		"05 a move with a label": {
			with(move(seedNamed("y")), func(r *request) { r.shoot.Labels = map[string]string{"a": "b"} }), false,
		},
		"05 a move with a finalizer": {
			with(move(seedNamed("y")), func(r *request) { r.shoot.Finalizers = []string{"a.org/b"} }), false,
		},
		"05 a move away from a Seed without backups": {
			with(move(seedNamed("y")), func(r *request) { r.oldSeed.Spec.Backup = nil }), false,
		},
		"05 a move away from a deleted Seed": {
			with(move(seedNamed("y")), func(r *request) { r.oldSeed = nil }), true,
		},
		"05 a move for which much is wrong": {with(move(seedNamed("y", deleting, defaults("example.com"),
			func(s *corev1beta1.Seed) {
				s.Spec.Backup, s.Spec.Taints = nil, []corev1beta1.SeedTaint{{Key: "a"}}
				s.Status.Allocatable = corev1.ResourceList{corev1beta1.SeedResourceShoots: resource.MustParse("3")}
			}), domain), func(r *request) { purpose(r.shoot); r.shootsOnSeed = 3 }), false},
		"05 a move with more":       {with(move(seedNamed("y")), func(r *request) { purpose(r.shoot) }), false},
		"05 a move without backups": {move(seedNamed("y", func(s *corev1beta1.Seed) { s.Spec.Backup = nil })), false},
		"05 a move to another inner domain": {move(seedNamed("y", func(s *corev1beta1.Seed) {
			s.Spec.DNS.Internal = &corev1beta1.SeedDNSProviderConfig{Domain: "internal.example.org"}
		})), false},
		"05 a move away from the domain":  {move(seedNamed("y", defaults("example.com")), domain), false},
		"05 a Seed that goes":             {bind(seedNamed("x", deleting)), false},
		"05 a change on a Seed that goes": {with(change(purpose), func(r *request) { deleting(r.seed) }), false},
		"05 taints": {bind(seedNamed("x", func(s *corev1beta1.Seed) {
			s.Spec.Taints = []corev1beta1.SeedTaint{{Key: "a"}, {Key: "b", Value: ptr.To("c")}}
		})), false},
		"05 an access restriction": {bind(seedNamed("x"), func(s *corev1beta1.Shoot) {
			s.Spec.AccessRestrictions = []corev1beta1.AccessRestrictionWithOptions{
				{AccessRestriction: corev1beta1.AccessRestriction{Name: "eu"}},
			}
		}), false},
		"05 another access restriction": {bind(seedNamed("x", func(s *corev1beta1.Seed) {
			s.Spec.AccessRestrictions = []corev1beta1.AccessRestriction{{Name: "us"}, {Name: "uk"}}
		}), func(s *corev1beta1.Shoot) {
			s.Spec.AccessRestrictions = []corev1beta1.AccessRestrictionWithOptions{
				{AccessRestriction: corev1beta1.AccessRestriction{Name: "eu"}},
			}
		}), false},
		"05 a Seed that the profile leaves out": {with(bind(seedNamed("x")), func(r *request) {
			r.profile = offering(t)
			r.profile.Spec.SeedSelector = &corev1beta1.SeedSelector{ProviderTypes: []string{"aws", "gcp"}}
		}), false},
		"05 a full Seed": {with(bind(seedNamed("x", func(s *corev1beta1.Seed) {
			s.Status.Allocatable = corev1.ResourceList{corev1beta1.SeedResourceShoots: resource.MustParse("3")}
		})), func(r *request) { r.shootsOnSeed = 3 }), false},
		"05 too few zones": {bind(seedNamed("x", func(s *corev1beta1.Seed) { s.Spec.Provider.Zones = []string{"a"} }),
			func(s *corev1beta1.Shoot) {
				s.Spec.ControlPlane = &corev1beta1.ControlPlane{
					HighAvailability: &corev1beta1.HighAvailability{FailureTolerance: corev1beta1.FailureTolerance{Type: "zone"}},
				}
			}), false},
		"06 a change during a migration": {
			with(change(purpose), func(r *request) { state("Migrate", "Processing")(r.old) }), false,
		},
		"06 a change after rescheduling": {
			with(change(purpose), func(r *request) { r.old.Status.SeedName = ptr.To("y") }), false,
		},
		"07 impossible hibernation": {with(change(hibernated), func(r *request) { impossible(r.old) }), false},
		"08 no managed issuers":     {create(managed), false},
		"08 an issuer besides":      {with(create(managed, ownIssuer), func(r *request) { r.issuers = true }), false},
		"08 an issuer given up":     {with(change(), func(r *request) { managed(r.old) }), false},
		"09 other credentials instead of a SecretBinding": {with(change(), func(r *request) {
			r.credentials = &credentialsChange{migration: true, from: secret("a"), to: secret("b")}
		}), false},
		"09 credentials that may not be read": {with(change(), func(r *request) {
			r.credentials = &credentialsChange{
				from: secret("a"), to: secret("b"), unreadable: []corev1.ObjectReference{secret("b")},
			}
		}), false},
		"10 a point that is too early": {
			with(change(), func(r *request) { r.notRestorable = "points can be restored from revision 7 on" }), false,
		},
		"11 an unknown version": {create(func(s *corev1beta1.Shoot) { s.Spec.Kubernetes.Version = "1.36.9" }), false},
		"11 an expired version": {create(func(s *corev1beta1.Shoot) { s.Spec.Kubernetes.Version = "1.34.4" }), false},
		"11 an unknown image": {
			create(firstPool(func(w *corev1beta1.Worker) { w.Machine.Image.Version = ptr.To("2.0.0") })), false,
		},
		"11 an unknown runtime": {create(firstPool(func(w *corev1beta1.Worker) {
			w.CRI.ContainerRuntimes = []corev1beta1.ContainerRuntime{{Type: "gvisor"}}
		})), false},
		"11 a kubelet too old": {
			create(firstPool(func(w *corev1beta1.Worker) {
				w.Kubernetes = &corev1beta1.WorkerKubernetes{
					Version: ptr.To("1.35.4"),
				}
			})), false,
		},
		"11 a profile of others": {with(change(), func(r *request) { r.oldProfile = elsewhere }), false},
		"11 a profile without types": {
			with(change(), func(r *request) { r.oldProfile, r.profile = offering(t), smaller }), false,
		},
		"11 another provider": {
			create(func(s *corev1beta1.Shoot) { s.Spec.Provider.Type = "aws" }), false,
		},
		"11 another provider of the credentials": {with(create(), func(r *request) { r.bindingProvider = "aws" }), false},
		"11 an unknown region":                   {create(func(s *corev1beta1.Shoot) { s.Spec.Region = "away" }), false},
		"11 a restriction not offered": {create(func(s *corev1beta1.Shoot) {
			s.Spec.AccessRestrictions = []corev1beta1.AccessRestrictionWithOptions{
				{AccessRestriction: corev1beta1.AccessRestriction{Name: "us"}},
			}
		}), false},
		"11 networks that overlap": {
			create(func(s *corev1beta1.Shoot) { s.Spec.Networking.Pods = ptr.To("10.250.1.0/24") }), false,
		},
		"11 networks of the Seed": {
			bind(seedNamed("x"), func(s *corev1beta1.Shoot) { s.Spec.Networking.Pods = ptr.To("10.0.0.0/20") }), false,
		},
		"11 networks that nobody gives": {bind(seedNamed("x"), func(s *corev1beta1.Shoot) {
			s.Spec.Networking.Pods, s.Spec.Networking.Services = nil, nil
		}), false},
		"11 a domain that is taken": {with(create(domain), func(r *request) {
			r.neighbours = []corev1beta1.Shoot{neighbour("pear", "apple.dev.example.org")}
		}), false},
		"11 a domain below another": {
			with(create(domain), func(r *request) { r.neighbours = []corev1beta1.Shoot{neighbour("pear", "dev.example.org")} }),
			false,
		},
		"11 zones that cannot be chosen": {create(inZones("a")), false},
		"11 a zone that the Seed lacks": {with(bind(seedNamed("x"), inZones("d")), func(r *request) {
			r.profile = offering(t)
			r.profile.Spec.ControlPlane = &corev1beta1.CloudProfileControlPlane{AllowZonePinning: ptr.To(true)}
		}), false},
		"11 zones of a Seed without any": {with(bind(seedNamed("x",
			func(s *corev1beta1.Seed) { s.Spec.Provider.Zones = nil }), inZones("d")), func(r *request) {
			r.profile = offering(t)
			r.profile.Spec.ControlPlane = &corev1beta1.CloudProfileControlPlane{AllowZonePinning: ptr.To(true)}
		}), false},
		"11 a configuration of no version": {create(func(s *corev1beta1.Shoot) {
			s.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"local.hortus.dev/__internal"}`),
			}
		}), false},
		"11 an unknown zone":         {create(firstPool(func(w *corev1beta1.Worker) { w.Zones = []string{"d"} })), false},
		"11 an unknown machine type": {create(firstPool(func(w *corev1beta1.Worker) { w.Machine.Type = "huge" })), false},
		"11 a small volume": {create(firstPool(func(w *corev1beta1.Worker) {
			w.Volume = &corev1beta1.Volume{Type: ptr.To("fast"), VolumeSize: "10Gi"}
		})), false},
		"11 all is reserved": {create(firstPool(func(w *corev1beta1.Worker) {
			w.Kubernetes = &corev1beta1.WorkerKubernetes{
				Kubelet: &corev1beta1.KubeletConfig{
					KubeReserved: &corev1beta1.KubeletConfigReserved{CPU: ptr.To(resource.MustParse("2"))},
				},
			}
		})), false},
		"11 too many nodes": {create(firstPool(func(w *corev1beta1.Worker) { w.Minimum = 6 })), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := tc.request
			if r.profile == nil {
				r.profile = offering(t)
			}
			r.versionErrors = cloudprofile.ValidateShootVersions(r.shoot, r.old, r.profile.Versions, now)
			invalid, forbidden := r.decide()
			if len(invalid) > 0 {
				forbidden = invalid.ToAggregate()
			}
			if (forbidden == nil) != tc.allowed {
				t.Errorf("decide() = %v", forbidden)
			}
			if forbidden != nil && !strings.HasPrefix(strings.TrimPrefix(forbidden.Error(), "["), "spec") &&
				!strings.HasPrefix(forbidden.Error(), "metadata") {
				t.Errorf("%q names no field", forbidden)
			}
			messages[name] = forbidden
		})
	}
	messages["06 deletion during a migration"] = deletionProblem(shootOn("x", state("Migrate", "Processing")))
	golden.Messages(t, messages)
}
