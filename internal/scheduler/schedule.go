package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/garden"
)

// NewScheduleCommand returns 'hortus schedule', which shows where Shoots go and why.
func NewScheduleCommand() *cobra.Command {
	var (
		access              garden.Access
		files               []string
		namespace, strategy string
		output              string
	)
	command := &cobra.Command{
		Use:   "schedule [SHOOT...]",
		Short: "Show which seed Shoots would get, with a verdict on every seed",
		Long: `Show which seed Shoots would get, with a verdict on every seed.

With -f the decision is taken offline from manifests of Seeds, CloudProfiles, Projects, Shoots and the region ConfigMap;
without, from a live garden. Nothing is changed. Shoots are taken in the order of the input, and each one counts for the
next. Shoots that have a seed already only count.`,
		RunE: func(command *cobra.Command, args []string) error {
			parsed, err := parseStrategy(strategy)
			if err != nil {
				return err
			}
			var fleet *Fleet
			if len(files) > 0 {
				fleet, err = readFleet(command.InOrStdin(), files)
			} else {
				fleet, err = fetchFleet(command.Context(), &access)
			}
			if err != nil {
				return err
			}
			results := fleet.Schedule(parsed, func(s *corev1beta1.Shoot) bool {
				return (namespace == "" || s.Namespace == namespace) && (len(args) == 0 || slices.Contains(args, s.Name))
			})
			return printResults(command.OutOrStdout(), output, results)
		},
	}
	access.AddFlags(command.Flags())
	f := command.Flags()
	f.StringSliceVarP(&files, "filename", "f", nil, "files or folders with manifests, - for standard input")
	f.StringVarP(&namespace, "namespace", "n", "", "only Shoots of this namespace")
	f.StringVar(&strategy, "strategy", string(SameRegion), "SameRegion or MinimalDistance")
	f.StringVarP(&output, "output", "o", "table", "table or json (one line per Shoot)")
	return command
}

// Fleet is what decisions are taken from.
type Fleet struct {
	Seeds              []corev1beta1.Seed
	CloudProfiles      []corev1beta1.CloudProfile
	NamespacedProfiles []corev1beta1.NamespacedCloudProfile
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

// Schedule decides on all Shoots that have no seed and are selected, in their order; each one counts for the next.
func (f *Fleet) Schedule(strategy Strategy, selected func(*corev1beta1.Shoot) bool) []Result {
	var usage Usage
	for i := range f.Shoots {
		f.Shoots[i].UID = types.UID(strconv.Itoa(i)) // Manifests have none; the load is kept per UID.
		if f.Shoots[i].Status.SeedName != nil || f.Shoots[i].Spec.SeedName != nil {
			usage.Set(&f.Shoots[i])
		}
	}
	slices.SortStableFunc(f.Seeds, func(a, b corev1beta1.Seed) int { return strings.Compare(a.Name, b.Name) })
	var results []Result
	for i := range f.Shoots {
		shoot := &f.Shoots[i]
		if shoot.Status.SeedName != nil || !selected(shoot) {
			continue
		}
		result := Result{Namespace: shoot.Namespace, Name: shoot.Name}
		if in, err := f.input(shoot, strategy, &usage); err != nil {
			result.Error = err.Error()
		} else {
			result.Decision = Decide(in)
			result.Change = result.SmallestChange()
		}
		if result.Seed != "" {
			usage.Assume(shoot, result.Seed)
		}
		results = append(results, result)
	}
	return results
}

func (f *Fleet) input(shoot *corev1beta1.Shoot, strategy Strategy, usage *Usage) (Input, error) {
	ref := shoot.Spec.CloudProfile
	if ref == nil {
		ref = &corev1beta1.CloudProfileReference{Kind: kindCloudProfile, Name: deref(shoot.Spec.CloudProfileName)}
	}
	in := Input{Shoot: shoot, Strategy: strategy}
	name := ref.Name
	if ref.Kind == kindNamespacedCloudProfile {
		i := slices.IndexFunc(f.NamespacedProfiles, func(p corev1beta1.NamespacedCloudProfile) bool {
			return p.Namespace == shoot.Namespace && p.Name == ref.Name
		})
		if i < 0 {
			return in, fmt.Errorf("NamespacedCloudProfile %s/%s does not exist", shoot.Namespace, ref.Name)
		}
		name, in.Profile = f.NamespacedProfiles[i].Spec.Parent.Name, &f.NamespacedProfiles[i].Status.CloudProfileSpec
	} else {
		i := slices.IndexFunc(f.CloudProfiles, func(p corev1beta1.CloudProfile) bool { return p.Name == ref.Name })
		if i < 0 {
			return in, fmt.Errorf("CloudProfile %s does not exist", ref.Name)
		}
		in.Profile = &f.CloudProfiles[i].Spec
	}
	if strategy == MinimalDistance {
		var err error
		if in.Distances, err = Distances(f.ConfigMaps, name, shoot.Spec.Region); err != nil {
			return in, err
		}
	}
	for i := range f.Seeds {
		count := usage.Of(f.Seeds[i].Name)
		if deref(shoot.Spec.SeedName) == f.Seeds[i].Name {
			count-- // A Shoot that names its seed does not compete with itself.
		}
		in.Candidates = append(in.Candidates, Candidate{Seed: &f.Seeds[i], Shoots: count})
	}
	return in, nil
}

func fetchFleet(ctx context.Context, access *garden.Access) (*Fleet, error) {
	config, err := access.RESTConfig()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	var (
		seeds      corev1beta1.SeedList
		profiles   corev1beta1.CloudProfileList
		namespaced corev1beta1.NamespacedCloudProfileList
		shoots     corev1beta1.ShootList
		configMaps corev1.ConfigMapList
	)
	for _, list := range []client.ObjectList{&seeds, &profiles, &namespaced, &shoots} {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	if err := c.List(ctx, &configMaps, client.InNamespace(gardenNamespace), client.MatchingLabels{labelPurpose: purposeRegionConfig}); err != nil {
		return nil, fmt.Errorf("list region ConfigMaps: %w", err)
	}
	return &Fleet{seeds.Items, profiles.Items, namespaced.Items, shoots.Items, configMaps.Items}, nil
}

func readFleet(stdin io.Reader, names []string) (*Fleet, error) {
	fleet := &Fleet{}
	for _, name := range names {
		if name == "-" {
			data, err := io.ReadAll(stdin)
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			if err := fleet.add("standard input", data); err != nil {
				return nil, err
			}
			continue
		}
		err := filepath.WalkDir(name, func(path string, entry os.DirEntry, err error) error {
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
			return fleet.add(path, data)
		})
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
	}
	return fleet, nil
}

// add takes what it knows from a file and ignores other kinds.
func (f *Fleet) add(source string, data []byte) error {
	objects, err := chart.Decode(data)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	for _, o := range objects {
		switch o.GroupVersionKind().GroupKind().String() {
		case "Seed.core.gardener.cloud":
			err = appendAs(&f.Seeds, o)
		case "CloudProfile.core.gardener.cloud":
			err = appendAs(&f.CloudProfiles, o)
		case "NamespacedCloudProfile.core.gardener.cloud":
			err = appendAs(&f.NamespacedProfiles, o)
		case "Shoot.core.gardener.cloud":
			err = appendAs(&f.Shoots, o)
		case "ConfigMap":
			err = appendAs(&f.ConfigMaps, o)
		}
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", source, o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func appendAs[T any](list *[]T, o *unstructured.Unstructured) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
		return err
	}
	*list = append(*list, typed)
	return nil
}

func printResults(out io.Writer, format string, results []Result) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		for _, r := range results {
			if err := encoder.Encode(r); err != nil {
				return err
			}
		}
		return nil
	case "table":
		return printTable(out, results)
	}
	return fmt.Errorf("unknown output %q: use table or json", format)
}

func printTable(out io.Writer, results []Result) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SHOOT\tSEED\tVERDICT\tFILTER\tREASON")
	for _, r := range results {
		shoot := r.Namespace + "/" + r.Name
		for _, v := range r.Verdicts {
			verdict := "rejected"
			switch {
			case v.Seed == r.Seed:
				verdict = "chosen"
			case v.Passed:
				verdict = "fits"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", shoot, v.Seed, verdict, v.Filter, v.Reason)
		}
		if r.Seed == "" {
			fmt.Fprintf(table, "%s\t<none>\t\t\t%s\n", shoot, r.Error)
		}
		if r.Change != "" {
			fmt.Fprintf(table, "%s\t\t\t\tto make it fit %s\n", shoot, r.Change)
		}
	}
	return table.Flush()
}
