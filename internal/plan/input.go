package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/maintenance"
)

// Input has the Shoots and their profiles, prepared for planning. Of a Shoot it keeps only what a plan needs.
type Input struct {
	Shoots   []*Shoot
	profiles map[profileKey]compiled
}

// profileKey names a CloudProfile, or with a namespace a NamespacedCloudProfile.
type profileKey struct{ namespace, name string }

func (k profileKey) String() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

type compiled struct {
	profile *cloudprofile.Profile
	err     error
}

// Shoot is the part of a Shoot that a plan needs.
type Shoot struct {
	Namespace, Name string
	key             string // For the jitter.
	profile         profileKey
	cluster         maintenance.Cluster
	manual          map[string]bool // Pools with ManualInPlaceUpdate.
	window          maintenance.Window
	hibernation     *corev1beta1.Hibernation
	rotations       []maintenance.Rotation
	startable       bool      // The API server would accept a new operation in the current state.
	deferred        []string  // Operations to start in the next maintenance.
	maintained      time.Time // The last maintenance that did something.
	requested       bool      // An immediate maintenance has been requested.
	deleting        bool
	spec            *corev1beta1.ShootSpec // Only if a Kubernetes update may remove fields.
}

// Prepare compiles the profiles and prepares the Shoots. Incomplete versions are completed as of now. Shoots whose
// profile is missing or invalid are kept; planning reports them.
func Prepare(f *fleet.Fleet, now time.Time) *Input {
	in := &Input{profiles: map[profileKey]compiled{}}
	parents := map[string]*corev1beta1.CloudProfile{}
	for i := range f.CloudProfiles {
		p := &f.CloudProfiles[i]
		parents[p.Name] = p
		in.compile(profileKey{name: p.Name}, &p.Spec)
	}
	for i := range f.NamespacedCloudProfiles {
		p := &f.NamespacedCloudProfiles[i]
		key := profileKey{p.Namespace, p.Name}
		if parent := parents[p.Spec.Parent.Name]; parent != nil {
			merged := cloudprofile.Merge(&parent.Spec, &p.Spec)
			in.compile(key, &merged)
		} else {
			in.compile(key, &p.Status.CloudProfileSpec)
		}
	}
	in.Shoots = make([]*Shoot, 0, len(f.Shoots))
	for i := range f.Shoots {
		in.Shoots = append(in.Shoots, in.prepare(&f.Shoots[i], now))
	}
	return in
}

func (in *Input) compile(key profileKey, spec *corev1beta1.CloudProfileSpec) {
	profile, err := cloudprofile.Compile(key.String(), spec)
	in.profiles[key] = compiled{profile, err}
}

// profileOf returns the profile of a Shoot, or why there is none.
func (in *Input) profileOf(s *Shoot) (*cloudprofile.Profile, error) {
	c, ok := in.profiles[s.profile]
	switch {
	case ok:
		return c.profile, c.err
	case s.profile == profileKey{}:
		return nil, errors.New("the Shoot refers to no CloudProfile")
	case s.profile.namespace != "":
		return nil, fmt.Errorf("NamespacedCloudProfile %q does not exist", s.profile)
	}
	return nil, fmt.Errorf("CloudProfile %q does not exist", s.profile)
}

// ProfileOf names the profile of a Shoot: NAME of a CloudProfile, or NAMESPACE/NAME of a NamespacedCloudProfile.
func ProfileOf(shoot *corev1beta1.Shoot) string { return profileKeyOf(shoot).String() }

// Profile returns the profile of a name as ProfileOf returns it, or an error that says why there is none.
func (in *Input) Profile(name string) (*cloudprofile.Profile, error) {
	for key, c := range in.profiles {
		if key.String() == name {
			return c.profile, c.err
		}
	}
	return nil, fmt.Errorf("CloudProfile %q does not exist", name)
}

func profileKeyOf(shoot *corev1beta1.Shoot) profileKey {
	ref := shoot.Spec.CloudProfile
	switch {
	case ref != nil && ref.Kind == "NamespacedCloudProfile":
		return profileKey{shoot.Namespace, ref.Name}
	case ref != nil:
		return profileKey{name: ref.Name}
	case shoot.Spec.CloudProfileName != nil:
		return profileKey{name: *shoot.Spec.CloudProfileName}
	}
	return profileKey{}
}

func (in *Input) prepare(shoot *corev1beta1.Shoot, now time.Time) *Shoot {
	s := &Shoot{
		Namespace:  shoot.Namespace,
		Name:       shoot.Name,
		key:        shoot.Namespace + "/" + shoot.Name,
		profile:    profileKeyOf(shoot),
		window:     maintenance.WindowOf(shoot),
		rotations:  maintenance.RotationsOf(shoot),
		startable:  maintenance.CanStartOperations(shoot.Status.LastOperation),
		deferred:   maintenance.DeferredOperations(shoot),
		requested:  maintenance.WantsMaintenance(shoot),
		deleting:   shoot.DeletionTimestamp != nil,
		maintained: lastMaintained(shoot),
	}
	if c := in.profiles[s.profile]; c.profile != nil && incomplete(shoot) {
		shoot = shoot.DeepCopy()
		cloudprofile.DefaultShoot(shoot, nil, c.profile, now) // What cannot be completed fails in the plan.
	}
	s.cluster = maintenance.ClusterOf(shoot)
	for i := range shoot.Spec.Provider.Workers {
		w := &shoot.Spec.Provider.Workers[i]
		if w.UpdateStrategy != nil && *w.UpdateStrategy == corev1beta1.ManualInPlaceUpdate {
			if s.manual == nil {
				s.manual = map[string]bool{}
			}
			s.manual[w.Name] = true
		}
	}
	if h := shoot.Spec.Hibernation; h != nil && (len(h.Schedules) > 0 || h.Enabled != nil && *h.Enabled) {
		s.hibernation = h
	}
	if len(s.rotations) > 0 {
		// A Shoot that has never been created has all rotations before it; they count from now on.
		for i := range s.rotations {
			if s.rotations[i].Last.IsZero() {
				s.rotations[i].Last = now
			}
		}
	}
	if maintenance.MayNeedFixUp(&shoot.Spec) {
		spec := shoot.Spec // A pointer into the Fleet would keep all of it in memory.
		s.spec = &spec
	}
	return s
}

func lastMaintained(shoot *corev1beta1.Shoot) time.Time {
	if m := shoot.Status.LastMaintenance; m != nil {
		return m.TriggeredTime.Time
	}
	return time.Time{}
}

// incomplete reports whether the API server would still complete the Shoot.
func incomplete(shoot *corev1beta1.Shoot) bool {
	return !cloudprofile.Complete(shoot.Spec.Kubernetes.Version) ||
		slices.ContainsFunc(shoot.Spec.Provider.Workers, func(w corev1beta1.Worker) bool {
			image := w.Machine.Image
			return image == nil || image.Version == nil || !cloudprofile.Complete(*image.Version) ||
				w.Kubernetes != nil && w.Kubernetes.Version != nil && !cloudprofile.Complete(*w.Kubernetes.Version)
		})
}
