package scheduler

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/garden"
)

// Fleet is what decisions are taken from.
type Fleet struct {
	Seeds              []corev1beta1.Seed
	CloudProfiles      []corev1beta1.CloudProfile
	NamespacedProfiles []corev1beta1.NamespacedCloudProfile
	Projects           []corev1beta1.Project
	Shoots             []corev1beta1.Shoot
	ConfigMaps         []corev1.ConfigMap
}

// Result is the decision on one Shoot.
type Result struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Decision
	// Change is the smallest change that would make the Shoot fit, if it does not.
	Change string `json:"change,omitempty"`
}

// takeOff makes the selected Shoots look as if they had no seed yet.
func (f *Fleet) takeOff(selected func(*corev1beta1.Shoot) bool) {
	for i := range f.Shoots {
		if shoot := &f.Shoots[i]; selected(shoot) {
			shoot.Spec.SeedName, shoot.Status.SeedName = nil, nil
		}
	}
}

// Schedule decides on the selected ones of the Shoots that a scheduler of that name acts on, in their order; each one
// counts for the next.
func (f *Fleet) Schedule(scheduler string, strategy Strategy, selected func(*corev1beta1.Shoot) bool) []Result {
	var usage Usage
	shoots := make([]*corev1beta1.Shoot, len(f.Shoots))
	for i := range f.Shoots {
		shoots[i] = new(f.Shoots[i])
		shoots[i].UID = types.UID(strconv.Itoa(i)) // The load is kept per UID, and manifests have none.
		usage.Set(shoots[i])
	}
	slices.SortStableFunc(f.Seeds, func(a, b corev1beta1.Seed) int { return strings.Compare(a.Name, b.Name) })
	profiles := f.profiles()
	var results []Result
	for _, shoot := range shoots {
		if !responsible(shoot, scheduler) || !selected(shoot) {
			continue
		}
		result := Result{Namespace: shoot.Namespace, Name: shoot.Name}
		if in, err := f.input(shoot, profiles, strategy, &usage); err != nil {
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

func (f *Fleet) input(shoot *corev1beta1.Shoot, profiles fleetProfiles, strategy Strategy, usage *Usage) (Input, error) {
	in := Input{
		Shoot: shoot, Strategy: strategy, Project: ProjectName(f.Projects, shoot.Namespace), DefaultDomains: DefaultDomains(f.Seeds),
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

// ProjectName returns the name of the project that a namespace belongs to. Where the project is not known, it goes by the
// namespace: garden-dev is that of project dev.
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

func (f *Fleet) profiles() fleetProfiles {
	p := fleetProfiles{map[string]*corev1beta1.CloudProfile{}, map[types.NamespacedName]*corev1beta1.NamespacedCloudProfile{}}
	for i := range f.CloudProfiles {
		p.profiles[f.CloudProfiles[i].Name] = &f.CloudProfiles[i]
	}
	for i := range f.NamespacedProfiles {
		p.namespaced[client.ObjectKeyFromObject(&f.NamespacedProfiles[i])] = &f.NamespacedProfiles[i]
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
func (f *Fleet) admit() {
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

// fetchFleet reads a live garden.
func fetchFleet(ctx context.Context, access *garden.Access) (*Fleet, error) {
	config, err := access.RESTConfig()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	return ReadFleet(ctx, c)
}

// ReadFleet reads a live garden, whose Shoots have been through admission: of projects, only the names matter.
func ReadFleet(ctx context.Context, c client.Reader) (*Fleet, error) {
	var (
		seeds      corev1beta1.SeedList
		profiles   corev1beta1.CloudProfileList
		namespaced corev1beta1.NamespacedCloudProfileList
		shoots     corev1beta1.ShootList
		projects   corev1beta1.ProjectList
		configMaps corev1.ConfigMapList
	)
	for _, list := range []client.ObjectList{&seeds, &profiles, &namespaced, &shoots, &projects} {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	region := client.MatchingLabels{corev1beta1.LabelSchedulingPurpose: corev1beta1.SchedulingPurposeRegionConfig}
	if err := c.List(ctx, &configMaps, client.InNamespace(corev1beta1.GardenNamespace), region); err != nil {
		return nil, fmt.Errorf("list region ConfigMaps: %w", err)
	}
	return &Fleet{
		Seeds: seeds.Items, CloudProfiles: profiles.Items, NamespacedProfiles: namespaced.Items, Shoots: shoots.Items,
		Projects: projects.Items, ConfigMaps: configMaps.Items,
	}, nil
}

// readFleet reads manifests and does what admission would do. Of two manifests of one object the later one counts.
func readFleet(stdin io.Reader, names []string) (*Fleet, error) {
	r := manifests{fleet: &Fleet{}, seen: map[objectKey]int{}}
	for _, name := range names {
		if err := r.read(stdin, name); err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
	}
	r.fleet.admit()
	return r.fleet, nil
}

// manifests collects objects.
type manifests struct {
	fleet *Fleet
	seen  map[objectKey]int // Where an object is in its list.
}

type objectKey struct{ kind, namespace, name string }

func (m *manifests) read(stdin io.Reader, name string) error {
	if name == "-" {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		return m.add("standard input", data)
	}
	return filepath.WalkDir(name, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if extension := filepath.Ext(path); path != name && extension != ".yaml" && extension != ".yml" && extension != ".json" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return m.add(path, data)
	})
}

// add takes what it knows from a file and ignores other kinds.
func (m *manifests) add(source string, data []byte) error {
	objects, err := chart.Decode(data)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	for _, o := range objects {
		switch o.GroupVersionKind().GroupKind().String() {
		case "Seed." + corev1beta1.GroupName:
			err = add(m, &m.fleet.Seeds, o)
		case "CloudProfile." + corev1beta1.GroupName:
			err = add(m, &m.fleet.CloudProfiles, o)
		case "NamespacedCloudProfile." + corev1beta1.GroupName:
			err = add(m, &m.fleet.NamespacedProfiles, o)
		case "Project." + corev1beta1.GroupName:
			err = add(m, &m.fleet.Projects, o)
		case "Shoot." + corev1beta1.GroupName:
			err = add(m, &m.fleet.Shoots, o)
		case "ConfigMap":
			err = add(m, &m.fleet.ConfigMaps, o)
		}
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", source, o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func add[T any](m *manifests, list *[]T, o *unstructured.Unstructured) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
		return err
	}
	key := objectKey{o.GetKind(), o.GetNamespace(), o.GetName()}
	if i, seen := m.seen[key]; seen {
		(*list)[i] = typed
		return nil
	}
	m.seen[key] = len(*list)
	*list = append(*list, typed)
	return nil
}
