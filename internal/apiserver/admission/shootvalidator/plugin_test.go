package shootvalidator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/golden"
)

func seedNamed(name string, change ...func(*corev1beta1.Seed)) *corev1beta1.Seed {
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"env": "test"}}}
	seed.Spec.Provider = corev1beta1.SeedProvider{Type: "local", Zones: []string{"a", "b", "c"}}
	seed.Spec.Backup = &corev1beta1.Backup{}
	seed.Spec.Networks = corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24"}
	for _, c := range change {
		c(seed)
	}
	return seed
}

func shootOn(seed string, change ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{}
	if seed != "" {
		s.Spec.SeedName = &seed
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func deleting(seed *corev1beta1.Seed) { seed.DeletionTimestamp = &metav1.Time{} }

func state(kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) {
		s.Status.LastOperation = &corev1beta1.LastOperation{Type: kind, State: state}
	}
}

func purpose(s *corev1beta1.Shoot) { s.Spec.Purpose = ptr.To(corev1beta1.ShootPurposeTesting) }

func runsOn(seed string) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) { s.Status.SeedName = ptr.To(seed) }
}

func dead(seed string) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1beta1.AnnotationSourceIsDead, seed)
	}
}

func gone(s *corev1beta1.Shoot) { s.DeletionTimestamp = &metav1.Time{} }

func label(s *corev1beta1.Shoot) { metav1.SetMetaDataLabel(&s.ObjectMeta, "a", "b") }

func TestSeedChanges(t *testing.T) {
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		request request
		want    string // Part of the error; empty: allowed.
	}{
		"creation without a Seed":         {request{shoot: shootOn("")}, ""},
		"creation with a Seed":            {request{shoot: shootOn("x"), seed: seedNamed("x")}, "shoots/binding"},
		"creation by a user who may bind": {request{shoot: shootOn("x"), seed: seedNamed("x"), mayBind: true}, ""},
		"a plain edit": {
			request{old: shootOn(""), shoot: shootOn("x"), seed: seedNamed("x")}, "subresource shoots/binding",
		},
		"binding": {request{
			binding: true, old: shootOn(""), shoot: shootOn("x"), seed: seedNamed("x"),
		}, ""},
		"binding without a change": {request{
			binding: true, old: shootOn("x"), shoot: shootOn("x"), seed: seedNamed("x"),
		}, "already"},
		"removal": {
			request{binding: true, old: shootOn("x"), shoot: shootOn("")}, "cannot be removed",
		},
		"a move": {request{
			binding: true, old: shootOn("x"), shoot: shootOn("y"), seed: seedNamed("y"), oldSeed: seedNamed("x"),
		}, ""},
		"a move with another change": {request{
			binding: true, old: shootOn("x"), shoot: shootOn("y", purpose), seed: seedNamed("y"), oldSeed: seedNamed("x"),
		}, "nothing but"},
		"a move to a Seed without backups": {request{binding: true, old: shootOn("x"), shoot: shootOn("y"),
			oldSeed: seedNamed("x"), seed: seedNamed("y", func(s *corev1beta1.Seed) { s.Spec.Backup = nil })}, "spec.backup"},
		"a move to another inner domain": {request{binding: true, old: shootOn("x"), shoot: shootOn("y"),
			oldSeed: seedNamed("x"), seed: seedNamed("y", func(s *corev1beta1.Seed) {
				s.Spec.DNS.Internal = &corev1beta1.SeedDNSProviderConfig{Domain: "internal"}
			})}, "internal domain"},
		"a move of a control plane": {request{
			binding: true, old: shootOn("x", runsOn("x")), shoot: shootOn("y", runsOn("x")), seed: seedNamed("y"),
			oldSeed: seedNamed("x"),
		}, ""},
		"a move of what is being created": {request{
			binding: true, old: shootOn("x", runsOn("x"), state("Create", "Error")),
			shoot: shootOn("y", runsOn("x"), state("Create", "Error")), seed: seedNamed("y"), oldSeed: seedNamed("x"),
		}, "still being created"},
		"a move away from a failing destination": {request{
			binding: true, old: shootOn("x", runsOn("x"), state("Restore", "Error")),
			shoot: shootOn("y", runsOn("x"), state("Restore", "Error")), seed: seedNamed("y"), oldSeed: seedNamed("x"),
		}, ""},
		"a way out while it continues": {request{
			binding: true, old: shootOn("x", runsOn("x"), state("Restore", "Processing")),
			shoot: shootOn("y", runsOn("x"), state("Restore", "Processing")), seed: seedNamed("y"), oldSeed: seedNamed("x"),
		}, "being moved"},
		"a cancelled move": {request{binding: true, old: shootOn("y", runsOn("x")), shoot: shootOn("x", runsOn("x")),
			seed: seedNamed("x", deleting, func(s *corev1beta1.Seed) {
				s.Spec.Backup = nil
			}), oldSeed: seedNamed("y")}, ""},
		"a cancelled move with another change": {request{
			binding: true, old: shootOn("y", runsOn("x")), shoot: shootOn("x", runsOn("x"), purpose), seed: seedNamed("x"),
			oldSeed: seedNamed("y"),
		}, "nothing but"},
		"a move cancelled that has begun": {request{
			binding: true, old: shootOn("y", runsOn("x"), state("Migrate", "Processing")),
			shoot: shootOn("x", runsOn("x"), state("Migrate", "Processing")), seed: seedNamed("x"), oldSeed: seedNamed("y"),
		}, ""},
		"a creation with a dead source": {request{shoot: shootOn("", dead("x"))}, "only through the subresource"},
		"a plain edit with a dead source": {request{
			old: shootOn("x", runsOn("x")), shoot: shootOn("x", runsOn("x"), dead("x")),
		}, "only through the subresource"},
		"a plain edit in addition to a dead source": {request{
			old: shootOn("y", runsOn("x"), dead("x")), shoot: shootOn("y", runsOn("x"), dead("x"), label),
		}, ""},
		"a dead source": {request{
			binding: true, old: shootOn("x", runsOn("x")), shoot: shootOn("y", runsOn("x"), dead("x")), seed: seedNamed("y"),
			oldSeed: seedNamed("x"),
		}, ""},
		"a dead source of another Shoot": {request{
			binding: true, old: shootOn("x", runsOn("x")), shoot: shootOn("y", runsOn("x"), dead("z")), seed: seedNamed("y"),
			oldSeed: seedNamed("x"),
		}, "must name the Seed"},
		"a dead source that takes over": {request{
			binding: true, old: shootOn("y", runsOn("x")), shoot: shootOn("x", runsOn("x"), dead("x")), seed: seedNamed("x"),
			oldSeed: seedNamed("y"),
		}, "another Seed"},
		"a dead source of nothing": {request{
			binding: true, old: shootOn("x"), shoot: shootOn("y", dead("x")), seed: seedNamed("y"), oldSeed: seedNamed("x"),
		}, "not on any Seed"},
		"a dead source of a Shoot in deletion": {request{
			binding: true, old: shootOn("x", runsOn("x"), gone), shoot: shootOn("y", runsOn("x"), gone, dead("x")),
			seed: seedNamed("y"), oldSeed: seedNamed("x"),
		}, ""},
		"a move of what is deleted": {request{
			binding: true, old: shootOn("x", runsOn("x"), gone), shoot: shootOn("y", runsOn("x"), gone), seed: seedNamed("y"),
			oldSeed: seedNamed("x"),
		}, "if that Seed is lost"},
		"the word taken back": {request{
			binding: true, old: shootOn("y", runsOn("x"), gone, dead("x")), shoot: shootOn("x", runsOn("x"), gone),
			seed: seedNamed("x"), oldSeed: seedNamed("y"),
		}, ""},
		"another Seed for a move that has not begun": {request{
			binding: true, old: shootOn("x", gone), shoot: shootOn("y", gone), seed: seedNamed("y"), oldSeed: seedNamed("x"),
		}, ""},
		"a source that has died in a move": {request{
			binding: true, old: shootOn("y", runsOn("x"), state("Migrate", "Processing")),
			shoot: shootOn("y", runsOn("x"), state("Migrate", "Processing"), dead("x")), seed: seedNamed("y"),
		}, ""},
		"a dead source, another destination": {request{
			binding: true, old: shootOn("y", runsOn("x"), state("Migrate", "Processing")), shoot: shootOn("z", runsOn("x"),
				state("Migrate", "Processing"), dead("x")), seed: seedNamed("z"), oldSeed: seedNamed("y"),
		}, ""},
		"a source that has died in a creation": {request{
			binding: true, old: shootOn("x", runsOn("x"), state("Create", "Processing")), shoot: shootOn("y", runsOn("x"),
				state("Create", "Processing"), dead("x")), seed: seedNamed("y"), oldSeed: seedNamed("x"),
		}, ""},
		"a Seed that goes": {request{
			binding: true, old: shootOn(""), shoot: shootOn("x"), seed: seedNamed("x", deleting),
		}, "being deleted"},
		"a change on a Seed that goes": {request{
			old: shootOn("x"), shoot: shootOn("x", purpose), seed: seedNamed("x", deleting),
		}, "being deleted"},
		"the confirmation on a Seed in deletion": {request{old: shootOn("x"), seed: seedNamed("x", deleting),
			shoot: shootOn("x", func(s *corev1beta1.Shoot) {
				s.Annotations = map[string]string{corev1beta1.AnnotationConfirmationDeletion: "true"}
			})}, ""},
		"a taint": {request{binding: true, old: shootOn(""), shoot: shootOn("x"),
			seed: seedNamed("x", func(s *corev1beta1.Seed) {
				s.Spec.Taints = []corev1beta1.SeedTaint{{Key: "t"}}
			})}, "taint"},
		"a tolerated taint": {request{binding: true, old: shootOn(""), shoot: shootOn("x", func(s *corev1beta1.Shoot) {
			s.Spec.Tolerations = []corev1beta1.Toleration{{Key: "t", Value: ptr.To("v")}}
		}), seed: seedNamed("x", func(s *corev1beta1.Seed) { s.Spec.Taints = []corev1beta1.SeedTaint{{Key: "t"}} })}, ""},
		"a taint with another value": {request{binding: true, old: shootOn(""),
			shoot: shootOn("x", func(s *corev1beta1.Shoot) {
				s.Spec.Tolerations = []corev1beta1.Toleration{{Key: "t"}}
			}), seed: seedNamed("x", func(s *corev1beta1.Seed) {
				s.Spec.Taints = []corev1beta1.SeedTaint{{
					Key: "t", Value: ptr.To("v"),
				}}
			})}, "taint"},
		"a Seed that the profile does not select": {request{binding: true, old: shootOn(""), shoot: shootOn("x"),
			seed: seedNamed("x"), profile: &hortusadmission.Profile{Spec: &corev1beta1.CloudProfileSpec{
				SeedSelector: &corev1beta1.SeedSelector{
					LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
				},
			}}}, "seedSelector"},
		"too few zones": {request{binding: true, old: shootOn(""), shoot: shootOn("x", func(s *corev1beta1.Shoot) {
			s.Spec.ControlPlane = &corev1beta1.ControlPlane{
				HighAvailability: &corev1beta1.HighAvailability{FailureTolerance: corev1beta1.FailureTolerance{Type: "zone"}},
			}
		}), seed: seedNamed("x", func(s *corev1beta1.Seed) { s.Spec.Provider.Zones = []string{"a"} })}, "3 zones"},
		"a change during a migration": {request{
			old: shootOn("x", state("Migrate", "Processing")), shoot: shootOn("x", purpose),
		}, "being moved"},
		"a change before a restoration succeeds": {request{
			old: shootOn("x", state("Restore", "Error")), shoot: shootOn("x", purpose),
		}, "being moved"},
		"a change after a restoration": {request{
			old: shootOn("x", state("Restore", "Succeeded")), shoot: shootOn("x", purpose),
		}, ""},
		"a change after rescheduling": {
			request{old: shootOn("y", func(s *corev1beta1.Shoot) { s.Status.SeedName = ptr.To("x") }),
				shoot: shootOn("y", purpose)}, "rescheduled to a new seed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got error
			for _, problem := range []func() error{
				tc.request.bindingProblem, tc.request.sourceIsDeadProblem, tc.request.seedProblem, tc.request.operationProblem,
			} {
				if got = problem(); got != nil {
					break
				}
			}
			if (got == nil) != (tc.want == "") || got != nil && !strings.Contains(got.Error(), tc.want) {
				t.Errorf("got %v, want %q", got, tc.want)
			}
			messages[name] = got
		})
	}
	golden.Messages(t, messages)
}

func TestOffer(t *testing.T) {
	messages := map[string]error{}
	profile := &corev1beta1.CloudProfileSpec{
		Type: "local",
		Regions: []corev1beta1.Region{{Name: "r", Zones: []corev1beta1.AvailabilityZone{
			{Name: "a"}, {Name: "b", UnavailableMachineTypes: []string{"large"}, UnavailableVolumeTypes: []string{"fast"}},
		}}},
		MachineTypes: []corev1beta1.MachineType{
			{Name: "small", Architecture: ptr.To("amd64")}, {Name: "large"}, {Name: "old", Usable: ptr.To(false)},
			{Name: "stored", Storage: &corev1beta1.MachineTypeStorage{MinSize: ptr.To(resource.MustParse("20Gi"))}},
		},
		VolumeTypes: []corev1beta1.VolumeType{{Name: "fast", MinSize: ptr.To(resource.MustParse("30Gi"))}},
		Limits:      &corev1beta1.Limits{MaxNodesTotal: ptr.To[int32](5)},
	}
	pool := func(machine string, change ...func(*corev1beta1.Worker)) corev1beta1.Worker {
		w := corev1beta1.Worker{Name: "p", Machine: corev1beta1.Machine{Type: machine}, Minimum: 1}
		for _, c := range change {
			c(&w)
		}
		return w
	}
	zones := func(zones ...string) func(*corev1beta1.Worker) {
		return func(w *corev1beta1.Worker) { w.Zones = zones }
	}
	volume := func(kind *string, size string) func(*corev1beta1.Worker) {
		return func(w *corev1beta1.Worker) { w.Volume = &corev1beta1.Volume{Type: kind, VolumeSize: size} }
	}
	for name, tc := range map[string]struct {
		worker, old corev1beta1.Worker
		change      func(*corev1beta1.Shoot)
		binding     string
		want        []string
	}{
		"all is offered": {worker: pool("small", zones("a", "b"))},
		"other provider": {
			worker: pool("small"), change: func(s *corev1beta1.Shoot) { s.Spec.Provider.Type = "x" },
			want: []string{"spec.provider.type"},
		},
		"other provider of the binding":  {worker: pool("small"), binding: "x,y", want: []string{"spec.provider.type"}},
		"several providers of a binding": {worker: pool("small"), binding: "x,local"},
		"unknown region": {
			worker: pool("small"), change: func(s *corev1beta1.Shoot) { s.Spec.Region = "x" }, want: []string{"spec.region"},
		},
		"unknown machine type":         {worker: pool("none"), want: []string{"spec.provider.workers[0].machine.type"}},
		"unusable machine type":        {worker: pool("old"), want: []string{"spec.provider.workers[0].machine.type"}},
		"unusable machine type in use": {worker: pool("old"), old: pool("old")},
		"other architecture": {
			worker: pool("small", func(w *corev1beta1.Worker) { w.Machine.Architecture = ptr.To("arm64") }),
			want:   []string{"spec.provider.workers[0].machine.type"},
		},
		"type not in the zone": {
			worker: pool("large", zones("b")), want: []string{"spec.provider.workers[0].machine.type"},
		},
		"unknown and repeated zones": {
			worker: pool("small", zones("a", "x", "a")),
			want:   []string{"spec.provider.workers[0].zones[1]", "spec.provider.workers[0].zones[2]"},
		},
		"unknown volume type": {
			worker: pool("small", volume(ptr.To("none"), "50Gi")), want: []string{"spec.provider.workers[0].volume.type"},
		},
		"volume too small for its type": {
			worker: pool("small", volume(ptr.To("fast"), "25Gi")), want: []string{"spec.provider.workers[0].volume.size"},
		},
		"volume too small for the type": {
			worker: pool("stored", volume(nil, "10Gi")), want: []string{"spec.provider.workers[0].volume.size"},
		},
		"volume type not in the zone": {
			worker: pool("small", zones("b"), volume(ptr.To("fast"), "50Gi")),
			want:   []string{"spec.provider.workers[0].volume.type"},
		},
		"too many nodes": {
			worker: pool("small", func(w *corev1beta1.Worker) { w.Minimum = 6 }), want: []string{"spec.provider.workers"},
		},
		"overlapping networks": {worker: pool("small"), change: func(s *corev1beta1.Shoot) {
			s.Spec.Networking = &corev1beta1.Networking{
				Nodes: ptr.To("10.0.0.0/16"), Pods: ptr.To("10.0.1.0/24"), Services: ptr.To("10.1.0.0/16"),
			}
		}, want: []string{"spec.networking.pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{
				Region: "r", Provider: corev1beta1.Provider{Type: "local", Workers: []corev1beta1.Worker{tc.worker}},
			}}
			if tc.change != nil {
				tc.change(shoot)
			}
			r := request{shoot: shoot, profile: &hortusadmission.Profile{Spec: profile}, bindingProvider: tc.binding}
			if tc.old.Name != "" {
				r.old = shoot.DeepCopy()
				r.old.Spec.Provider.Workers[0] = tc.old
			}
			var got []string
			errs := r.collect()
			messages[name] = errs.ToAggregate()
			for _, err := range errs {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("collect() mismatch (-want +got):\n%s", diff)
			}
		})
	}
	golden.Messages(t, messages)
}

func TestNetworksOfTheSeed(t *testing.T) {
	shoot := shootOn("x", func(s *corev1beta1.Shoot) {
		s.Spec.Networking = &corev1beta1.Networking{Pods: ptr.To("10.0.0.0/20")}
		s.Spec.Provider.Workers = make([]corev1beta1.Worker, 1)
	})
	r := request{shoot: shoot, old: shootOn(""), seed: seedNamed("x"), binding: true}
	var got []string
	for _, err := range r.networks() {
		got = append(got, string(err.Type)+" "+err.Field)
	}
	want := []string{"FieldValueRequired spec.networking.services", "FieldValueInvalid spec.networking.pods"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("networks() mismatch (-want +got):\n%s", diff)
	}
}
