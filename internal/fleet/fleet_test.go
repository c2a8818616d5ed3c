package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var everything = Options{Kinds: []Kind{Seeds, CloudProfiles, NamespacedCloudProfiles, Projects, Shoots, ConfigMaps}}

// names lists the objects of a fleet.
func names(f *Fleet) string {
	var all []string
	add := func(kind Kind, o metav1.Object) {
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s %s/%s %s", kind, o.GetNamespace(), o.GetName(),
			o.GetLabels()["is"]), " "))
	}
	for i := range f.Seeds {
		add(Seeds, &f.Seeds[i])
	}
	for i := range f.CloudProfiles {
		add(CloudProfiles, &f.CloudProfiles[i])
	}
	for i := range f.NamespacedCloudProfiles {
		add(NamespacedCloudProfiles, &f.NamespacedCloudProfiles[i])
	}
	for i := range f.Projects {
		add(Projects, &f.Projects[i])
	}
	for i := range f.Shoots {
		add(Shoots, &f.Shoots[i])
	}
	for i := range f.ConfigMaps {
		add(ConfigMaps, &f.ConfigMaps[i])
	}
	return strings.Join(all, "\n")
}

// manifestOf writes a manifest in one line, with a label that distinguishes it from others of the same name.
func manifestOf(kind, namespace, name, label string) string {
	version := "core.gardener.cloud/v1beta1"
	if kind == "ConfigMap" {
		version = "v1"
	}
	return fmt.Sprintf("--- {apiVersion: %s, kind: %s, metadata: {namespace: %q, name: %q, labels: {is: %q}}}\n", version,
		kind, namespace, name, label)
}

func TestFromManifests(t *testing.T) {
	all := manifestOf("Seed", "", "s", "") + manifestOf("CloudProfile", "", "c", "") +
		manifestOf("NamespacedCloudProfile", "n", "c", "") +
		manifestOf("Project", "", "p", "") + manifestOf("Shoot", "n", "a", "") + manifestOf("Shoot", "m", "a", "") +
		manifestOf("ConfigMap", "garden", "r", "")
	for name, tc := range map[string]struct {
		text    string
		options Options
		want    []string // Objects, then warnings or errors.
	}{
		"every kind": {all, everything, []string{
			"Seed /s", "CloudProfile /c", "NamespacedCloudProfile n/c", "Project /p", "Shoot n/a", "Shoot m/a",
			"ConfigMap garden/r",
		}},
		"only the kinds that are needed": {
			all, Options{Kinds: []Kind{Shoots, Projects}},
			[]string{"Project /p", "Shoot n/a", "Shoot m/a"},
		},
		"nothing": {"", everything, []string{""}},
		"the later one counts, at the place of the first": {
			manifestOf("Shoot", "n", "a", "1") + manifestOf("Shoot", "n", "b", "") + manifestOf("Shoot", "n", "a",
				"2"), everything,
			[]string{"Shoot n/a 2", "Shoot n/b"},
		},
		"Shoots without names are distinct": {
			manifestOf("Shoot", "n", "", "") + manifestOf("Shoot", "n", "", ""), everything, []string{"Shoot n/", "Shoot n/"},
		},
		"mistakes in other kinds do not matter": {
			"--- {apiVersion: v1, kind: Secret, data: 1}\n--- {apiVersion: core.gardener.cloud/v1beta1, kind: Seed, spec: 1, x: 1}\n" +
				"--- {apiVersion: example.org/v1, kind: Shoot, spec: 1}\n", Options{Kinds: []Kind{Shoots}}, []string{""},
		},
		"warnings": {
			"apiVersion: core.gardener.cloud/v1beta1\nkind: Shoot\nmetadata: {name: a}\nspec:\n  region: a\n  region: b\n  color: red\n" +
				"---\nkind: Shoot\n---\napiVersion: core.gardener.cloud/v1beta1\nkind: Shooot\n", everything,
			[]string{
				"Shoot /a",
				"stdin:6 Shoot a: spec.region: duplicate field",
				"stdin:7 Shoot a: spec.color: unknown field",
				"stdin:9 Shoot: apiVersion and kind must be given",
				`stdin:12 Shooot: kind: unknown kind: "Shooot" (core.gardener.cloud/v1beta1 has no such kind)`,
			},
		},
		"errors, all of them": {
			"a: [\n---\nhello\n--- {apiVersion: core.gardener.cloud/v1alpha1, kind: Shoot, metadata: {name: a}}\n" +
				"--- {apiVersion: core.gardener.cloud/v1beta1, kind: Seed, metadata: {name: s}, spec: {dns: 1, taints: a}}\n",
			everything,
			[]string{
				"error",
				"stdin:1 document 1: invalid syntax: did not find expected node content",
				`stdin:3 document 2: invalid value: "hello" (must have fields, such as apiVersion and kind)`,
				`stdin:4 Shoot a: apiVersion: invalid value: "core.gardener.cloud/v1alpha1" (must be core.gardener.cloud/v1beta1)`,
				`stdin:5 Seed s: spec.dns: invalid value: 1 (must have fields)`,
				`stdin:5 Seed s: spec.taints: invalid value: "a" (must be a list)`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, warnings, err := FromManifests([]string{"-"}, strings.NewReader(tc.text), tc.options)
			got := []string{"error"}
			if err == nil {
				got = []string{names(f)}
			} else {
				got = append(got, err.Error())
			}
			for _, w := range warnings {
				got = append(got, w.String())
			}
			if diff := cmp.Diff(strings.Join(tc.want, "\n"), strings.Join(got, "\n")); diff != "" {
				t.Errorf("fleet mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverlay(t *testing.T) {
	base, _, err := FromManifests([]string{"-"},
		strings.NewReader(manifestOf("CloudProfile", "", "a", "1")+manifestOf("CloudProfile", "", "b", "1")+
			manifestOf("NamespacedCloudProfile", "n", "a", "1")+manifestOf("Shoot", "n", "a", "1")), everything)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := FromManifests([]string{"-"},
		strings.NewReader(manifestOf("CloudProfile", "", "b", "2")+manifestOf("CloudProfile", "", "c", "2")+
			manifestOf("NamespacedCloudProfile", "m", "a", "2")+manifestOf("Shoot", "n", "a", "2")), everything)
	if err != nil {
		t.Fatal(err)
	}
	before := names(base)
	want := "CloudProfile /a 1\nCloudProfile /b 2\nCloudProfile /c 2\nNamespacedCloudProfile n/a 1\nNamespacedCloudProfile m/a 2\nShoot n/a 1"
	if diff := cmp.Diff(want, names(base.Overlay(other))); diff != "" {
		t.Errorf("overlay mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, names(base)); diff != "" {
		t.Errorf("the base has changed (-before +after):\n%s", diff)
	}
}

func TestFromGarden(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1beta1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	region := &corev1.ConfigMap{ObjectMeta: meta(corev1beta1.GardenNamespace, "regions")}
	region.Labels = map[string]string{corev1beta1.LabelSchedulingPurpose: corev1beta1.SchedulingPurposeRegionConfig}
	shoot := &corev1beta1.Shoot{ObjectMeta: meta("n", "a")}
	shoot.Spec.Region = "eu"
	garden := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1beta1.Seed{ObjectMeta: meta("", "s")}, &corev1beta1.CloudProfile{ObjectMeta: meta("", "c")},
		&corev1beta1.NamespacedCloudProfile{ObjectMeta: meta("n", "c")},
		&corev1beta1.NamespacedCloudProfile{ObjectMeta: meta("m", "c")},
		&corev1beta1.Project{ObjectMeta: meta("", "p")}, shoot, &corev1beta1.Shoot{ObjectMeta: meta("m", "b")},
		region, &corev1.ConfigMap{ObjectMeta: meta(corev1beta1.GardenNamespace, "other")},
	).Build()
	// The fake client has no pages: each list is returned as two equal pages.
	pages := interceptor.NewClient(garden, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var options client.ListOptions
			options.ApplyOptions(opts)
			if options.Limit == 0 {
				t.Errorf("%T is listed without a limit", list)
			}
			token := options.Continue
			options.Limit, options.Continue = 0, ""
			err := c.List(ctx, list, &options)
			if _, isShoots := list.(*corev1beta1.ShootList); isShoots && token == "" {
				list.SetContinue("more")
			}
			return err
		},
	})
	trimmed := 0
	options := everything
	options.Trim = func(s *corev1beta1.Shoot) { trimmed++; s.Spec.Region = "" }
	for name, tc := range map[string]struct {
		namespace string
		options   Options
		want      string
	}{
		"everything": {"", options,
			"Seed /s\nCloudProfile /c\nNamespacedCloudProfile m/c\nNamespacedCloudProfile n/c\nProject /p\n" +
				"Shoot m/b\nShoot n/a\nShoot m/b\nShoot n/a\nConfigMap garden/regions"},
		"a namespace": {
			"n", options,
			"Seed /s\nCloudProfile /c\nNamespacedCloudProfile n/c\nProject /p\nShoot n/a\nShoot n/a\nConfigMap garden/regions",
		},
		"some kinds": {"", Options{Kinds: []Kind{Seeds, Projects}}, "Seed /s\nProject /p"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := FromGarden(t.Context(), pages, tc.namespace, tc.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, names(f)); diff != "" {
				t.Errorf("fleet mismatch (-want +got):\n%s", diff)
			}
			for i := range f.Shoots {
				if f.Shoots[i].Spec.Region != "" {
					t.Errorf("Shoot %s is not trimmed", f.Shoots[i].Name)
				}
			}
		})
	}
	if trimmed != 6 {
		t.Errorf("%d Shoots were trimmed, want 6", trimmed)
	}
	refusing := interceptor.NewClient(garden, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("refused")
		},
	})
	if _, err := FromGarden(t.Context(), refusing, "", everything); err == nil || err.Error() != "list Seeds: refused" {
		t.Errorf("a garden that denies requests gives %v", err)
	}
}

func TestSource(t *testing.T) {
	text := manifestOf("Shoot", "n", "a", "") + manifestOf("Shoot", "m", "b", "") + "--- {kind: Shoot}\n"
	for name, tc := range map[string]struct {
		args      []string
		want, err string
	}{
		"manifests":           {args: []string{"-f", "-"}, want: "Shoot n/a\nShoot m/b"},
		"a namespace of them": {args: []string{"-f", "-", "-n", "m"}, want: "Shoot m/b"},
		"a missing file":      {args: []string{"-f", "-,none.yaml"}, err: "none.yaml: no such file or directory"},
		"no garden":           {args: []string{"--kubeconfig", "none"}, err: "read kubeconfig none"},
	} {
		t.Run(name, func(t *testing.T) {
			source, out := Source{Options: everything}, &bytes.Buffer{}
			command := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
			source.AddFlags(command)
			source.AddNamespaceFlag(command)
			command.SetIn(strings.NewReader(text))
			command.SetErr(out)
			command.SetArgs(tc.args)
			var f *Fleet
			command.RunE = func(command *cobra.Command, _ []string) (err error) {
				f, err = source.Read(command)
				return err
			}
			err := command.Execute()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, names(f)); diff != "" {
				t.Errorf("fleet mismatch (-want +got):\n%s", diff)
			}
			if want := "warning: stdin:3 Shoot: apiVersion and kind must be given\n"; out.String() != want {
				t.Errorf("warnings %q, want %q", out, want)
			}
		})
	}
}
