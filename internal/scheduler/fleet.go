package scheduler

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
)

// reads is what decisions are taken from.
var reads = fleet.Options{Kinds: []fleet.Kind{
	fleet.Seeds, fleet.CloudProfiles, fleet.NamespacedCloudProfiles, fleet.Projects, fleet.Shoots, fleet.ConfigMaps,
}}

// ReadFleet reads a live garden. Its Shoots have passed admission, so only the names of its Projects matter.
func ReadFleet(ctx context.Context, c client.Reader) (*fleet.Fleet, error) {
	return fleet.FromGarden(ctx, c, "", reads)
}

// Result is the decision on one Shoot.
type Result struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Decision
	// Change is the smallest change that would make the Shoot schedulable, if it is not.
	Change string `json:"change,omitempty"`
}

// takeOff makes the selected Shoots look as if they had no seed yet.
func takeOff(f *fleet.Fleet, selected func(*corev1beta1.Shoot) bool) {
	for i := range f.Shoots {
		if shoot := &f.Shoots[i]; selected(shoot) {
			shoot.Spec.SeedName, shoot.Status.SeedName = nil, nil
		}
	}
}

// Schedule decides on the selected Shoots among those of the scheduler with the given name, in their order; each
// decision counts for the next.
func Schedule(f *fleet.Fleet, scheduler string, strategy Strategy, selected func(*corev1beta1.Shoot) bool) []Result {
	var usage Usage
	shoots := make([]*corev1beta1.Shoot, len(f.Shoots))
	for i := range f.Shoots {
		shoots[i] = new(f.Shoots[i])
		shoots[i].UID = types.UID(strconv.Itoa(i)) // The load is kept per UID, and manifests have none.
		usage.Set(shoots[i])
	}
	slices.SortStableFunc(f.Seeds, func(a, b corev1beta1.Seed) int { return strings.Compare(a.Name, b.Name) })
	profiles := profilesOf(f)
	var results []Result
	for _, shoot := range shoots {
		if !responsible(shoot, scheduler) || !selected(shoot) {
			continue
		}
		result := Result{Namespace: shoot.Namespace, Name: shoot.Name}
		if in, err := inputFor(f, shoot, profiles, strategy, &usage); err != nil {
			result.Decision = Decision{TiedSeeds: []string{}, Verdicts: []Verdict{}, Error: err.Error()}
		} else {
			result.Decision = Decide(in)
			Explain(in, &result.Decision)
			if result.Seed == "" {
				result.Change = SmallestChange(in)
			} else {
				usage.Assume(shoot, result.Seed)
			}
		}
		results = append(results, result)
	}
	return results
}

func inputFor(
	f *fleet.Fleet, shoot *corev1beta1.Shoot, profiles fleetProfiles, strategy Strategy, usage *Usage,
) (Input, error) {
	in := Input{
		Shoot: shoot, Strategy: strategy, Project: ProjectName(f.Projects, shoot.Namespace),
		DefaultDomains: DefaultDomains(f.Seeds),
	}
	name, profile, err := profileOf(profiles, shoot)
	if err != nil {
		return in, err
	}
	in.Profile = profile
	if strategy == MinimalDistance {
		in.Distances, in.DistancesError = Distances(f.ConfigMaps, name, shoot.Spec.Region)
	}
	for i := range f.Seeds {
		in.Candidates = append(in.Candidates, Candidate{Seed: &f.Seeds[i], Shoots: usage.Of(f.Seeds[i].Name)})
	}
	return in, nil
}

// ProjectName returns the name of the project that a namespace belongs to. If the project is not known, the name is
// derived from the namespace: garden-dev belongs to project dev.
func ProjectName(projects []corev1beta1.Project, namespace string) string {
	for i := range projects {
		if namespaceOf(&projects[i]) == namespace {
			return projects[i].Name
		}
	}
	return strings.TrimPrefix(namespace, corev1beta1.ProjectNamespacePrefix)
}

func namespaceOf(project *corev1beta1.Project) string {
	return ptr.Deref(project.Spec.Namespace, corev1beta1.ProjectNamespacePrefix+project.Name)
}

// fleetProfiles finds profiles by their keys.
type fleetProfiles struct {
	profiles   map[string]*corev1beta1.CloudProfile
	namespaced map[types.NamespacedName]*corev1beta1.NamespacedCloudProfile
}

func profilesOf(f *fleet.Fleet) fleetProfiles {
	p := fleetProfiles{
		map[string]*corev1beta1.CloudProfile{}, map[types.NamespacedName]*corev1beta1.NamespacedCloudProfile{},
	}
	for i := range f.CloudProfiles {
		p.profiles[f.CloudProfiles[i].Name] = &f.CloudProfiles[i]
	}
	for i := range f.NamespacedCloudProfiles {
		p.namespaced[client.ObjectKeyFromObject(&f.NamespacedCloudProfiles[i])] = &f.NamespacedCloudProfiles[i]
	}
	return p
}

func (p fleetProfiles) cloudProfile(name string) (*corev1beta1.CloudProfile, error) {
	return p.profiles[name], nil
}

func (p fleetProfiles) namespacedCloudProfile(namespace, name string) (*corev1beta1.NamespacedCloudProfile, error) {
	return p.namespaced[types.NamespacedName{Namespace: namespace, Name: name}], nil
}

// admit gives Shoots that no API server has seen the tolerations that admission would give them.
func admit(f *fleet.Fleet) {
	defaults := map[string][]corev1beta1.Toleration{} // By namespace.
	for i := range f.Projects {
		project := f.Projects[i].DeepCopy()
		corev1beta1.SetDefaultsProject(project)
		if project.Spec.Tolerations != nil {
			defaults[namespaceOf(project)] = project.Spec.Tolerations.Defaults
		}
	}
	for i := range f.Shoots {
		if s := &f.Shoots[i]; s.UID == "" {
			s.Spec.Tolerations = corev1beta1.TolerationsWithDefaults(s.Spec.Tolerations, defaults[s.Namespace])
		}
	}
}
