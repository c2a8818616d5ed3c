package upgrade

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Summary is what the gardenlet of a version writes for example Shoots, by the name of the example.
type Summary map[string]Shoot

// Shoot is what matters of a Shoot for an upgrade.
type Shoot struct {
	// Workloads are the pods of the control plane, by kind and name of what creates them.
	Workloads map[string]Workload `json:"workloads"`
	// Pools are the hashes of worker pools, by the name of the pool and the kind of the hash. A pool rolls, or is updated
	// in place, if its hash changes.
	Pools map[string]map[string]string `json:"pools,omitempty"`
}

// Workload is a pod template.
type Workload struct {
	Containers map[string]Container `json:"containers"`
	// Rest is a checksum of all other fields.
	Rest string `json:"rest"`
	// ImagesInPlace says that pods get other images without being replaced.
	ImagesInPlace bool `json:"imagesInPlace,omitempty"`
}

// Container is the part of a container whose changes the notes name one by one.
type Container struct {
	Image string `json:"image"`
	// Arguments are the command and its arguments.
	Arguments []string `json:"arguments,omitempty"`
}

// checksums are the suffixes of objects that are named by their content, and of Secrets by that of a certificate.
var checksums = regexp.MustCompile(`-[0-9a-f]{8}\b`)

// sums are checksums in annotations, of content that differs between two Shoots.
var sums = regexp.MustCompile(`\b[0-9a-f]{16,64}\b`)

// WorkloadOf returns what matters of a pod template. Texts of names, which differ between two Shoots with the same
// specification, are replaced.
func WorkloadOf(template *corev1.PodTemplateSpec, names *strings.Replacer) (Workload, error) {
	encoded, err := json.Marshal(template)
	if err != nil {
		return Workload{}, fmt.Errorf("encode pod template: %w", err)
	}
	plain := names.Replace(string(encoded))
	plain = sums.ReplaceAllString(checksums.ReplaceAllString(plain, "-*"), "*")
	same := corev1.PodTemplateSpec{}
	if err := json.Unmarshal([]byte(plain), &same); err != nil {
		return Workload{}, fmt.Errorf("decode pod template: %w", err)
	}
	out := Workload{Containers: map[string]Container{}}
	for _, containers := range [][]corev1.Container{same.Spec.InitContainers, same.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			out.Containers[c.Name] = Container{Image: c.Image, Arguments: append(slices.Clone(c.Command), c.Args...)}
			c.Image, c.Command, c.Args = "", nil, nil
		}
	}
	rest, err := json.Marshal(same)
	if err != nil {
		return Workload{}, fmt.Errorf("encode pod template: %w", err)
	}
	sum := sha256.Sum256(rest)
	out.Rest = hex.EncodeToString(sum[:8])
	return out, nil
}

// Effect is what an upgrade does to a workload or to a pool.
type Effect struct {
	// Shoot is the name of the example.
	Shoot string
	// Object is the workload or the pool.
	Object string
	// Reasons are not empty.
	Reasons []string
}

// Effects are what an upgrade does, each list sorted.
type Effects struct {
	// Pods are the workloads whose pods are replaced.
	Pods []Effect
	// Containers are the workloads whose pods stay, with containers that are started again.
	Containers []Effect
	// Pools are the worker pools that roll.
	Pools []Effect
}

// Compare returns what an upgrade does.
func Compare(before, after Summary) Effects {
	var out Effects
	for _, name := range slices.Sorted(maps.Keys(after)) {
		old, known := before[name]
		if !known {
			continue // The example is new.
		}
		for _, object := range union(old.Workloads, after[name].Workloads) {
			effect := Effect{Shoot: name, Object: object, Reasons: workload(old.Workloads, after[name].Workloads, object)}
			switch {
			case len(effect.Reasons) == 0:
			case onlyImages(old.Workloads[object], after[name].Workloads[object]):
				out.Containers = append(out.Containers, effect)
			default:
				out.Pods = append(out.Pods, effect)
			}
		}
		for _, pool := range union(old.Pools, after[name].Pools) {
			if reasons := hashes(old.Pools[pool], after[name].Pools[pool]); len(reasons) > 0 {
				out.Pools = append(out.Pools, Effect{Shoot: name, Object: pool, Reasons: reasons})
			}
		}
	}
	return out
}

func union[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// workload returns why pods are replaced, created or deleted.
func workload(before, after map[string]Workload, object string) []string {
	old, was := before[object]
	now, is := after[object]
	switch {
	case !was:
		return []string{"is new"}
	case !is:
		return []string{"is removed"}
	}
	var reasons []string
	for _, name := range union(old.Containers, now.Containers) {
		reasons = append(reasons, container(old.Containers, now.Containers, name)...)
	}
	if old.Rest != now.Rest {
		reasons = append(reasons, "other fields of the pod")
	}
	return reasons
}

// onlyImages reports whether pods can be changed without being replaced.
func onlyImages(before, after Workload) bool {
	return after.ImagesInPlace && before.Rest == after.Rest &&
		maps.EqualFunc(before.Containers, after.Containers, func(a, b Container) bool {
			return slices.Equal(a.Arguments, b.Arguments)
		})
}

func container(before, after map[string]Container, name string) []string {
	old, was := before[name]
	now, is := after[name]
	switch {
	case !was:
		return []string{"container `" + name + "` is new"}
	case !is:
		return []string{"container `" + name + "` is removed"}
	}
	var reasons []string
	if old.Image != now.Image {
		reasons = append(reasons, "image `"+now.Image+"` instead of `"+old.Image+"`")
	} else if strings.HasPrefix(now.Image, ownImage) {
		reasons = append(reasons, "image of Hortus")
	}
	for _, argument := range now.Arguments {
		if !slices.Contains(old.Arguments, argument) {
			reasons = append(reasons, "`"+argument+"` is new")
		}
	}
	for _, argument := range old.Arguments {
		if !slices.Contains(now.Arguments, argument) {
			reasons = append(reasons, "`"+argument+"` is removed")
		}
	}
	if len(reasons) == 0 && !slices.Equal(old.Arguments, now.Arguments) {
		reasons = append(reasons, "order of the arguments")
	}
	return reasons
}

// ownImage is what the image of Hortus begins with, whose tag changes with each version.
const ownImage = "hortus.dev/hortus:"

// hashes returns which hashes of a pool have changed. Hashes of a kind that only one version has decide about no pool
// that exists.
func hashes(before, after map[string]string) []string {
	var reasons []string
	for _, kind := range slices.Sorted(maps.Keys(after)) {
		if old, was := before[kind]; was && old != after[kind] {
			reasons = append(reasons, fmt.Sprintf("hash %s is `%s` instead of `%s`", kind, after[kind], old))
		}
	}
	return reasons
}

// Markdown returns the effects as a section of the notes of a release. Examples with the same effect share a row.
func (e Effects) Markdown() string {
	var out strings.Builder
	table := func(title, none, of string, effects []Effect) {
		fmt.Fprintf(&out, "### %s\n\n", title)
		if len(effects) == 0 {
			fmt.Fprintf(&out, "%s\n", none)
			return
		}
		fmt.Fprintf(&out, "| %s | Shoots | why |\n|---|---|---|\n", of)
		for _, row := range rows(effects) {
			fmt.Fprintf(&out, "| %s | %s | %s |\n", row.Object, row.Shoot, strings.Join(row.Reasons, "; "))
		}
	}
	table("Pods of control planes that are replaced", "None.", "workload", e.Pods)
	out.WriteString("\n")
	table("Pods of control planes that stay, with containers that are started again", "None.", "workload", e.Containers)
	out.WriteString("\n")
	table("Worker pools that roll", "None: all hashes of pools are the same.", "pool", e.Pools)
	return out.String()
}

// rows joins effects that differ in the example only.
func rows(effects []Effect) []Effect {
	var out []Effect
	for _, e := range effects {
		at := slices.IndexFunc(out, func(row Effect) bool {
			return row.Object == e.Object && slices.Equal(row.Reasons, e.Reasons)
		})
		if at < 0 {
			out = append(out, e)
			continue
		}
		out[at].Shoot += ", " + e.Shoot
	}
	slices.SortStableFunc(out, func(a, b Effect) int { return cmp.Compare(a.Object, b.Object) })
	return out
}

// Section replaces the text between the marks of a generated section.
func Section(text, section string) (string, error) {
	const begin, end = "<!-- begin effects -->\n", "<!-- end effects -->\n"
	head, rest, found := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("notes: required: %q and %q around the generated section", strings.TrimSpace(begin),
			strings.TrimSpace(end))
	}
	return head + begin + "\n" + section + "\n" + end + tail, nil
}
