package upgrade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// with returns a Shoot with one workload.
func with(c map[string]Container, rest string) Shoot {
	return Shoot{Workloads: map[string]Workload{"Deployment a": {Containers: c, Rest: rest}}}
}

func TestCompare(t *testing.T) {
	one := map[string]Container{"a": {Image: "a:1", Arguments: []string{"a", "--x", "--y"}}}
	own := map[string]Container{"a": {Image: "hortus.dev/hortus:version"}}
	for name, tc := range map[string]struct {
		before, after Shoot
		pods, pools   []string
		containers    []string
	}{
		"nothing": {before: with(one, "r"), after: with(one, "r")},
		"the image of Hortus is another one in every version": {
			before: with(own, "r"), after: with(own, "r"), pods: []string{"image of Hortus"},
		},
		"another image": {
			before: with(one, "r"),
			after:  with(map[string]Container{"a": {Image: "a:2", Arguments: one["a"].Arguments}}, "r"),
			pods:   []string{"image `a:2` instead of `a:1`"},
		},
		"another image in place": {
			before: with(one, "r"),
			after: inPlace(with(map[string]Container{
				"a": {Image: "a:2", Arguments: one["a"].Arguments},
			}, "r")),
			containers: []string{"image `a:2` instead of `a:1`"},
		},
		"another image and other fields of pods that could get the image in place": {
			before: with(own, "r"), after: inPlace(with(own, "s")),
			pods: []string{"image of Hortus", "other fields of the pod"},
		},
		"another image and arguments of pods that could get the image in place": {
			before: with(one, "r"), after: inPlace(with(map[string]Container{"a": {Image: "a:2"}}, "r")),
			pods: []string{"image `a:2` instead of `a:1`", "`a` is removed", "`--x` is removed", "`--y` is removed"},
		},
		"a new workload that gets images in place": {after: inPlace(with(one, "r")), pods: []string{"is new"}},
		"other arguments": {
			before: with(one, "r"),
			after:  with(map[string]Container{"a": {Image: "a:1", Arguments: []string{"a", "--y", "--z"}}}, "r"),
			pods:   []string{"`--z` is new", "`--x` is removed"},
		},
		"arguments in another order": {
			before: with(one, "r"),
			after:  with(map[string]Container{"a": {Image: "a:1", Arguments: []string{"a", "--y", "--x"}}}, "r"),
			pods:   []string{"order of the arguments"},
		},
		"another container": {
			before: with(one, "r"), after: with(map[string]Container{"a": one["a"], "b": {}}, "r"),
			pods: []string{"container `b` is new"},
		},
		"other fields":    {before: with(one, "r"), after: with(one, "s"), pods: []string{"other fields of the pod"}},
		"a new workload":  {after: with(one, "r"), pods: []string{"is new"}},
		"a workload less": {before: with(one, "r"), pods: []string{"is removed"}},
		"the hash of a pool": {
			before: pool("x", "1"), after: pool("x", "2"), pools: []string{"hash x is `2` instead of `1`"},
		},
		"a new kind of hash":  {before: pool("x", "1"), after: pool("y", "2")},
		"the same pool again": {before: pool("x", "1"), after: pool("x", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			var want Effects
			if tc.pods != nil {
				want.Pods = []Effect{{Shoot: "s", Object: "Deployment a", Reasons: tc.pods}}
			}
			if tc.containers != nil {
				want.Containers = []Effect{{Shoot: "s", Object: "Deployment a", Reasons: tc.containers}}
			}
			if tc.pools != nil {
				want.Pools = []Effect{{Shoot: "s", Object: "p", Reasons: tc.pools}}
			}
			if diff := cmp.Diff(want, Compare(Summary{"s": tc.before}, Summary{"s": tc.after})); diff != "" {
				t.Errorf("Compare() mismatch (-want +got):\n%s", diff)
			}
		})
	}
	if got := Compare(Summary{}, Summary{"s": with(one, "r")}); got.Pods != nil {
		t.Errorf("an example that the earlier version did not have changes %+v", got.Pods)
	}
}

// inPlace returns the Shoot with pods that get other images in place.
func inPlace(s Shoot) Shoot {
	for name, w := range s.Workloads {
		w.ImagesInPlace = true
		s.Workloads[name] = w
	}
	return s
}

func pool(kind, hash string) Shoot {
	return Shoot{Pools: map[string]map[string]string{"p": {kind: hash}}}
}

// TestWorkloadsOfTwoShootsAreTheSame: names and checksums of content differ between Shoots, nothing else does.
func TestWorkloadsOfTwoShootsAreTheSame(t *testing.T) {
	template := func(shoot, sum, image, env string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"checksum": strings.Repeat(sum, 2)}},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "a", Image: image, Args: []string{"--of=shoot--" + shoot}, Env: []corev1.EnvVar{{Name: env}},
				}},
				Volumes: []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{SecretName: "ca-" + sum},
				}}},
			},
		}
	}
	of := func(template *corev1.PodTemplateSpec) Workload {
		w, err := WorkloadOf(template, strings.NewReplacer("one", "example", "two", "example"))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	first := of(template("one", "0123abcd", "a:1", "X"))
	if diff := cmp.Diff(first, of(template("two", "4567abcd", "a:1", "X"))); diff != "" {
		t.Errorf("workloads of two Shoots mismatch (-one +two):\n%s", diff)
	}
	if diff := cmp.Diff(Container{Image: "a:1", Arguments: []string{"--of=shoot--example"}},
		first.Containers["a"]); diff != "" {
		t.Errorf("container mismatch (-want +got):\n%s", diff)
	}
	if other := of(template("one", "0123abcd", "a:2", "X")); other.Rest != first.Rest {
		t.Error("the image is part of the other fields")
	}
	if other := of(template("one", "0123abcd", "a:1", "Y")); other.Rest == first.Rest {
		t.Error("another environment changes nothing")
	}
}

func TestMarkdown(t *testing.T) {
	e := Effects{Pods: []Effect{
		{Shoot: "one", Object: "Deployment b", Reasons: []string{"x", "y"}},
		{Shoot: "one", Object: "Deployment a", Reasons: []string{"x"}},
		{Shoot: "two", Object: "Deployment b", Reasons: []string{"x", "y"}},
		{Shoot: "two", Object: "Deployment a", Reasons: []string{"z"}},
	}, Containers: []Effect{{Shoot: "one", Object: "StatefulSet c", Reasons: []string{"x"}}}}
	want := `### Pods of control planes that are replaced

| workload | Shoots | why |
|---|---|---|
| Deployment a | one | x |
| Deployment a | two | z |
| Deployment b | one, two | x; y |

### Pods of control planes that stay, with containers that are started again

| workload | Shoots | why |
|---|---|---|
| StatefulSet c | one | x |

### Worker pools that roll

None: all hashes of pools are the same.
`
	if diff := cmp.Diff(want, e.Markdown()); diff != "" {
		t.Errorf("Markdown() mismatch (-want +got):\n%s", diff)
	}
}

func TestSection(t *testing.T) {
	const notes = "# Notes\n<!-- begin effects -->\nold\n<!-- end effects -->\nmore\n"
	got, err := Section(notes, "new\n")
	if want := "# Notes\n<!-- begin effects -->\n\nnew\n\n<!-- end effects -->\nmore\n"; err != nil || got != want {
		t.Errorf("Section() = %q, %v, want %q", got, err, want)
	}
	again, err := Section(got, "new\n")
	if err != nil || again != got {
		t.Errorf("replaced again: %q, %v", again, err)
	}
	if _, err := Section("# Notes\n", "new\n"); err == nil {
		t.Error("notes without marks are accepted")
	}
}

func TestLast(t *testing.T) {
	commit := strings.Repeat("0a", 20)
	table := "| release | notes | commit |\n|---|---|---|\n| v0.1.0 | first | `" + strings.Repeat("f", 40) + "` |\n" +
		"| v0.10.0 | tenth | `" + commit + "` |\n"
	if got, err := Last(table); err != nil || got != (Release{Version: "v0.10.0", Commit: commit}) {
		t.Errorf("the last release is %+v, %v", got, err)
	}
	if got, err := Last("| v0.1.0 | no commit | |\n"); err == nil {
		t.Errorf("the last release is %+v", got)
	}
}
