package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The judge in this file decides a step a second time, from the documented rules alone: it parses the manifests with
// its own types, has its own tables, sorts nothing and shares no code with the planner.

type judgedVersion struct {
	Version        string `json:"version"`
	Classification string `json:"classification,omitempty"`
	ExpirationDate string `json:"expirationDate,omitempty"`
	Lifecycle      []struct {
		Classification string `json:"classification"`
		StartTime      string `json:"startTime,omitempty"`
	} `json:"lifecycle,omitempty"`

	CRI               []judgedCRI           `json:"cri,omitempty"`
	Architectures     []string              `json:"architectures,omitempty"`
	Kubelet           string                `json:"kubeletVersionConstraint,omitempty"`
	InPlace           *judgedInPlace        `json:"inPlaceUpdates,omitempty"`
	CapabilityFlavors []map[string][]string `json:"capabilityFlavors,omitempty"`
}

type judgedCRI struct {
	Name     string          `json:"name"`
	Runtimes []judgedRuntime `json:"containerRuntimes,omitempty"`
}

type judgedRuntime struct {
	Type string `json:"type"`
}

type judgedInPlace struct {
	Supported  bool   `json:"supported"`
	MinVersion string `json:"minVersionForUpdate,omitempty"`
}

type judgedImage struct {
	Name     string          `json:"name"`
	Strategy string          `json:"updateStrategy,omitempty"`
	Versions []judgedVersion `json:"versions"`
}

type judgedMachineType struct {
	Name         string              `json:"name"`
	CPU          string              `json:"cpu"`
	GPU          string              `json:"gpu"`
	Memory       string              `json:"memory"`
	Architecture string              `json:"architecture,omitempty"`
	Capabilities map[string][]string `json:"capabilities,omitempty"`
}

type judgedProfileSpec struct {
	Parent *struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"parent,omitempty"`
	Kubernetes *struct {
		Versions []judgedVersion `json:"versions"`
	} `json:"kubernetes,omitempty"`
	Images       []judgedImage       `json:"machineImages"`
	Types        []judgedMachineType `json:"machineTypes"`
	Capabilities []struct {
		Name   string   `json:"name"`
		Values []string `json:"values"`
	} `json:"machineCapabilities,omitempty"`
}

type judgedPool struct {
	Name           string     `json:"name"`
	Minimum        int        `json:"minimum"`
	Maximum        int        `json:"maximum"`
	UpdateStrategy string     `json:"updateStrategy,omitempty"`
	CRI            *judgedCRI `json:"cri,omitempty"`
	Kubernetes     *struct {
		Version string `json:"version,omitempty"`
	} `json:"kubernetes,omitempty"`
	Machine struct {
		Type         string `json:"type"`
		Architecture string `json:"architecture,omitempty"`
		Image        *struct {
			Name    string `json:"name"`
			Version string `json:"version,omitempty"`
		} `json:"image,omitempty"`
	} `json:"machine"`
}

type judgedMeta struct {
	Name              string `json:"name"`
	Namespace         string `json:"namespace,omitempty"`
	CreationTimestamp string `json:"creationTimestamp,omitempty"`
	DeletionTimestamp string `json:"deletionTimestamp,omitempty"`
}

type judgedShoot struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   judgedMeta `json:"metadata"`
	Spec       struct {
		CloudProfileName string `json:"cloudProfileName,omitempty"`
		CloudProfile     *struct {
			Kind string `json:"kind,omitempty"`
			Name string `json:"name"`
		} `json:"cloudProfile,omitempty"`
		Hibernation *struct {
			Enabled bool `json:"enabled"`
		} `json:"hibernation,omitempty"`
		Kubernetes struct {
			Version string `json:"version"`
		} `json:"kubernetes"`
		Maintenance *struct {
			AutoUpdate *struct {
				Kubernetes bool  `json:"kubernetesVersion"`
				Image      *bool `json:"machineImageVersion,omitempty"`
			} `json:"autoUpdate,omitempty"`
			AutoRotation *struct {
				Credentials struct {
					SSH           *judgedPeriod `json:"sshKeypair,omitempty"`
					Observability *judgedPeriod `json:"observability,omitempty"`
					ETCD          *judgedPeriod `json:"etcdEncryptionKey,omitempty"`
				} `json:"credentials"`
			} `json:"autoRotation,omitempty"`
		} `json:"maintenance,omitempty"`
		Provider struct {
			Type            string `json:"type"`
			WorkersSettings *struct {
				SSHAccess struct {
					Enabled bool `json:"enabled"`
				} `json:"sshAccess"`
			} `json:"workersSettings,omitempty"`
			Workers []judgedPool `json:"workers,omitempty"`
		} `json:"provider"`
	} `json:"spec"`
	Status struct {
		LastOperation *struct {
			Type  string `json:"type"`
			State string `json:"state"`
		} `json:"lastOperation,omitempty"`
		Credentials struct {
			Rotation struct {
				SSH           *judgedRotation `json:"sshKeypair,omitempty"`
				Observability *judgedRotation `json:"observability,omitempty"`
				ETCD          *judgedRotation `json:"etcdEncryptionKey,omitempty"`
			} `json:"rotation"`
		} `json:"credentials"`
	} `json:"status"`
}

type judgedPeriod struct {
	Period string `json:"rotationPeriod,omitempty"`
}

type judgedRotation struct {
	Phase      string `json:"phase,omitempty"`
	Completion string `json:"lastCompletionTime,omitempty"`
}

// numbers are the parts of a version; the judge's versions have exactly three.
func numbers(version string) (n [3]int) {
	for i, part := range strings.SplitN(version, ".", 3) {
		var err error
		if n[i], err = strconv.Atoi(part); err != nil {
			panic("version of the judge: " + version)
		}
	}
	return n
}

func higher(a, b string) bool { x, y := numbers(a), numbers(b); return slices.Compare(x[:], y[:]) > 0 }

func sameMajor(a, b string) bool { return numbers(a)[0] == numbers(b)[0] }

func sameMinor(a, b string) bool { return sameMajor(a, b) && numbers(a)[1] == numbers(b)[1] }

// before reports whether a time in a manifest is strictly before now.
func before(moment string, now time.Time) bool {
	at, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		panic(err)
	}
	return at.Before(now)
}

// classAt is the effective class.
func (v judgedVersion) classAt(now time.Time) string {
	if len(v.Lifecycle) > 0 {
		class := "unavailable"
		for _, stage := range v.Lifecycle {
			if stage.StartTime == "" || before(stage.StartTime, now) {
				class = stage.Classification
			}
		}
		return class
	}
	if v.ExpirationDate != "" && before(v.ExpirationDate, now) {
		return "expired"
	}
	if v.Classification == "" {
		return "supported"
	}
	return v.Classification
}

func highest(versions []judgedVersion) string {
	best := ""
	for _, v := range versions {
		if best == "" || higher(v.Version, best) {
			best = v.Version
		}
	}
	return best
}

// keep filters versions.
func keep(versions []judgedVersion, accept func(judgedVersion) bool) []judgedVersion {
	var kept []judgedVersion
	for _, v := range versions {
		if accept(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// updateTo returns the version of a line that an automatic update chooses: the highest that is not deprecated, else the
// highest. Preview, expired and unavailable versions are not chosen.
func updateTo(versions []judgedVersion, current string, now time.Time, line func(a, b string) bool) string {
	targets := keep(versions, func(v judgedVersion) bool {
		class := v.classAt(now)
		return class != "preview" && class != "expired" && class != "unavailable" && higher(v.Version, current) &&
			line(v.Version, current)
	})
	if fresh := keep(targets, func(v judgedVersion) bool { return v.classAt(now) != "deprecated" }); len(fresh) > 0 {
		return highest(fresh)
	}
	return highest(targets)
}

type ruling struct {
	to     string // Empty: no update.
	failed bool
	reason string
}

// rule is the table of due updates, and the order of automatic and forced ones.
func rule(
	versions []judgedVersion, current string, auto bool, now time.Time, subject string, autoTo, forceTo func() string,
) ruling {
	var class string
	for _, v := range versions {
		if v.Version == current {
			class = v.classAt(now)
		}
	}
	r := ruling{}
	expired := false
	switch {
	case class == "":
		r.reason, expired = "Version does not exist in CloudProfile", true
	case class == "expired" && subject == "Kubernetes":
		r.reason, expired = "Kubernetes version expired - force update required", true
	case class == "expired":
		r.reason, expired = fmt.Sprintf("Machine image version expired - force update required (image update strategy: %s)",
			subject), true
	case auto && subject == "Kubernetes":
		r.reason = "Automatic update of Kubernetes version configured"
	case auto:
		r.reason = fmt.Sprintf("Automatic update of the machine image version is configured (image update strategy: %s)",
			subject)
	default:
		return ruling{}
	}
	if r.to = autoTo(); r.to != "" {
		return r
	}
	if !expired {
		return ruling{}
	}
	if r.to = forceTo(); r.to == "" {
		r.failed = true
	}
	return r
}

func ruleKubernetes(profile *judgedProfileSpec, current string, auto bool, now time.Time) ruling {
	versions := profile.Kubernetes.Versions
	return rule(versions, current, auto, now, "Kubernetes",
		func() string { return updateTo(versions, current, now, sameMinor) },
		func() string {
			next := keep(versions, func(v judgedVersion) bool {
				class := v.classAt(now)
				return sameMajor(v.Version, current) && numbers(v.Version)[1] == numbers(current)[1]+1 && class != "preview" &&
					class != "unavailable"
			})
			if valid := keep(next, func(v judgedVersion) bool { return v.classAt(now) != "expired" }); len(valid) > 0 {
				return highest(valid)
			}
			return highest(next)
		})
}

// constraintHolds supports the constraints that the generator writes: one operator and a version of two or three parts.
func constraintHolds(constraint, version string) bool {
	for _, part := range strings.Split(constraint, ",") {
		operator, bound, _ := strings.Cut(strings.TrimSpace(part), " ")
		if strings.Count(bound, ".") == 1 {
			bound += ".0"
		}
		ok := false
		switch operator {
		case ">=":
			ok = !higher(bound, version)
		case "<":
			ok = higher(bound, version)
		}
		if !ok {
			return false
		}
	}
	return true
}

func typeOf(profile *judgedProfileSpec, name string) *judgedMachineType {
	for i := range profile.Types {
		if profile.Types[i].Name == name {
			return &profile.Types[i]
		}
	}
	return nil
}

// fits reports whether an image version exists for a pool.
func fits(
	profile *judgedProfileSpec, v judgedVersion, pool *judgedPool, machineType *judgedMachineType, kubelet, current string,
) bool {
	architecture := pool.Machine.Architecture
	if architecture == "" {
		architecture = machineType.Architecture
	}
	if own := machineType.Capabilities["architecture"]; architecture == "" && len(own) == 1 {
		architecture = own[0]
	}
	if architecture == "" {
		architecture = "amd64"
	}
	if len(profile.Capabilities) == 0 {
		offered := v.Architectures
		if len(offered) == 0 {
			offered = []string{"amd64"}
		}
		if !slices.Contains(offered, architecture) {
			return false
		}
	} else {
		ofArchitecture, ofMachine := false, false
		flavors := v.CapabilityFlavors
		if len(flavors) == 0 {
			flavors = []map[string][]string{{}} // Like one that mentions nothing.
		}
		for _, flavor := range flavors {
			all := true
			for _, capability := range profile.Capabilities {
				offered, asked := flavor[capability.Name], machineType.Capabilities[capability.Name]
				if len(offered) == 0 {
					offered = capability.Values
				}
				if len(asked) == 0 {
					asked = capability.Values
				}
				if capability.Name == "architecture" && slices.Contains(offered, architecture) {
					ofArchitecture = true
				}
				if !slices.ContainsFunc(asked, func(value string) bool { return slices.Contains(offered, value) }) {
					all = false
				}
			}
			ofMachine = ofMachine || all
		}
		if !ofArchitecture || !ofMachine {
			return false
		}
	}
	cris := v.CRI
	if len(cris) == 0 {
		cris = []judgedCRI{{Name: "containerd"}}
	}
	asked := judgedCRI{Name: "containerd"}
	if pool.CRI != nil {
		asked = *pool.CRI
	}
	runs := slices.ContainsFunc(cris, func(c judgedCRI) bool {
		return c.Name == asked.Name &&
			!slices.ContainsFunc(asked.Runtimes, func(r judgedRuntime) bool { return !slices.Contains(c.Runtimes, r) })
	})
	if !runs {
		return false
	}
	if v.Kubelet != "" && !constraintHolds(v.Kubelet, kubelet) {
		return false
	}
	if pool.UpdateStrategy == "AutoInPlaceUpdate" || pool.UpdateStrategy == "ManualInPlaceUpdate" {
		if v.InPlace == nil || !v.InPlace.Supported {
			return false
		}
		return v.Version == current || v.InPlace.MinVersion != "" && !higher(v.InPlace.MinVersion, current)
	}
	return true
}

func ruleImage(image *judgedImage, versions []judgedVersion, current string, auto bool, now time.Time) ruling {
	strategy := image.Strategy
	if strategy == "" {
		strategy = "major"
	}
	anyLine := func(string, string) bool { return true }
	return rule(versions, current, auto, now, strategy,
		func() string {
			to := updateTo(versions, current, now, sameMinor)
			if to == "" && strategy == "minor" {
				to = updateTo(versions, current, now, sameMajor)
			}
			if to == "" && strategy == "major" {
				to = updateTo(versions, current, now, anyLine)
			}
			return to
		},
		func() string {
			// line is the number of the minor or major version that a version belongs to, or -1 if it is not a later line.
			line := func(v judgedVersion) int {
				n, c := numbers(v.Version), numbers(current)
				switch {
				case strategy == "patch" && n[0] == c[0] && n[1] > c[1]:
					return n[1]
				case strategy == "minor" && n[0] > c[0]:
					return n[0]
				}
				return -1
			}
			lowest := func(versions []judgedVersion) int {
				least := -1
				for _, v := range versions {
					if l := line(v); l >= 0 && (least < 0 || l < least) {
						least = l
					}
				}
				return least
			}
			next := lowest(versions)
			if next < 0 {
				return ""
			}
			usable := keep(versions, func(v judgedVersion) bool {
				class := v.classAt(now)
				return line(v) >= 0 && class != "preview" && class != "unavailable"
			})
			valid := keep(usable, func(v judgedVersion) bool { return v.classAt(now) != "expired" })
			if lowest(valid) != next {
				valid = usable
			}
			chosen := lowest(valid)
			return highest(keep(valid, func(v judgedVersion) bool { return line(v) == chosen }))
		})
}

// profileOf merges the profiles that a Shoot refers to.
func (c *judgedCase) profileOf(s *judgedShoot) *judgedProfileSpec {
	kind, name := "CloudProfile", s.Spec.CloudProfileName
	if ref := s.Spec.CloudProfile; ref != nil {
		name = ref.Name
		if ref.Kind != "" {
			kind = ref.Kind
		}
	}
	if kind == "CloudProfile" {
		return c.profiles[name]
	}
	own := c.namespaced[s.Metadata.Namespace+"/"+name]
	if own == nil || c.profiles[own.Parent.Name] == nil {
		return nil
	}
	merged := *c.profiles[own.Parent.Name]
	if own.Kubernetes != nil {
		kubernetes := *merged.Kubernetes
		kubernetes.Versions = slices.Clone(kubernetes.Versions)
		for i := range kubernetes.Versions {
			for _, v := range own.Kubernetes.Versions {
				if v.Version == kubernetes.Versions[i].Version {
					kubernetes.Versions[i].ExpirationDate = v.ExpirationDate
				}
			}
		}
		merged.Kubernetes = &kubernetes
	}
	merged.Images = slices.Clone(merged.Images)
	for _, image := range own.Images {
		known := slices.IndexFunc(merged.Images, func(i judgedImage) bool { return i.Name == image.Name })
		if known < 0 {
			merged.Images = append(merged.Images, image)
			continue
		}
		versions := slices.Clone(merged.Images[known].Versions)
		for _, v := range image.Versions {
			if at := slices.IndexFunc(versions, func(o judgedVersion) bool { return o.Version == v.Version }); at >= 0 {
				versions[at].ExpirationDate = v.ExpirationDate
			} else {
				versions = append(versions, v)
			}
		}
		merged.Images[known].Versions = versions
	}
	merged.Types = append(slices.Clone(merged.Types), own.Types...)
	return &merged
}

type judgedCase struct {
	profiles   map[string]*judgedProfileSpec
	namespaced map[string]*judgedProfileSpec
	shoots     []judgedShoot
}

// judge decides the step of one Shoot. Its reasons omit the errors.
func (c *judgedCase) judge(s *judgedShoot, now time.Time) Step {
	step := Step{
		Namespace: s.Metadata.Namespace, Name: s.Metadata.Name, KubernetesVersion: s.Spec.Kubernetes.Version,
		Workers: []StepWorker{}, Reasons: []string{},
	}
	for _, pool := range s.Spec.Provider.Workers {
		w := StepWorker{Name: pool.Name, Image: pool.Machine.Image.Name, ImageVersion: pool.Machine.Image.Version}
		if pool.Kubernetes != nil {
			w.KubernetesVersion = pool.Kubernetes.Version
		}
		step.Workers = append(step.Workers, w)
	}
	if s.Metadata.DeletionTimestamp != "" {
		return step
	}
	profile := c.profileOf(s)
	if profile == nil {
		step.Failed = true
		return step
	}
	autoKubernetes, autoImage := true, true
	if m := s.Spec.Maintenance; m != nil && m.AutoUpdate != nil {
		autoKubernetes = m.AutoUpdate.Kubernetes
		autoImage = m.AutoUpdate.Image == nil || *m.AutoUpdate.Image
	}

	var images, kubernetes []string
	for i := range s.Spec.Provider.Workers {
		pool := &s.Spec.Provider.Workers[i]
		machineType := typeOf(profile, pool.Machine.Type)
		known := slices.IndexFunc(profile.Images,
			func(i judgedImage) bool { return strings.EqualFold(i.Name, pool.Machine.Image.Name) })
		if machineType == nil || known < 0 {
			images = nil // Pools before this one keep their updates, and nothing is reported.
			break
		}
		kubelet := s.Spec.Kubernetes.Version
		if pool.Kubernetes != nil && pool.Kubernetes.Version != "" {
			kubelet = pool.Kubernetes.Version
		}
		current := pool.Machine.Image.Version
		fitting := keep(profile.Images[known].Versions,
			func(v judgedVersion) bool { return fits(profile, v, pool, machineType, kubelet, current) })
		r := ruleImage(&profile.Images[known], fitting, current, autoImage, now)
		if r.failed {
			images = append(images,
				fmt.Sprintf("Worker pool %q: machine image version maintenance failed. Reason for update: %s", pool.Name, r.reason))
		} else if r.to != "" {
			images = append(images, fmt.Sprintf("Worker pool %q: Updated machine image %q from %q to %q. Reason: %s", pool.Name,
				pool.Machine.Image.Name, current, r.to, r.reason))
			step.Workers[i].ImageVersion = r.to
			step.Changed = true
		}
	}

	r := ruleKubernetes(profile, step.KubernetesVersion, autoKubernetes, now)
	if r.failed {
		kubernetes = append(kubernetes, "Control Plane: Kubernetes version update failed. Reason for update: "+r.reason)
	} else if r.to != "" {
		kubernetes = append(kubernetes, fmt.Sprintf("Control Plane: Updated Kubernetes version from %q to %q. Reason: %s",
			step.KubernetesVersion, r.to, r.reason))
		step.KubernetesVersion, step.Changed = r.to, true
	}
	for i := range step.Workers {
		w := &step.Workers[i]
		if w.KubernetesVersion == "" {
			continue
		}
		r := ruleKubernetes(profile, w.KubernetesVersion, autoKubernetes, now)
		if r.failed {
			kubernetes = append(kubernetes,
				fmt.Sprintf("Worker pool %q: Kubernetes version maintenance failed. Reason for update: %s", w.Name, r.reason))
		} else if r.to != "" {
			if higher(r.to, step.KubernetesVersion) {
				r.to = step.KubernetesVersion
			}
			kubernetes = append(kubernetes, fmt.Sprintf("Worker pool %q: Updated Kubernetes version from %q to %q. Reason: %s",
				w.Name, w.KubernetesVersion, r.to, r.reason))
			w.KubernetesVersion, step.Changed = r.to, true
		}
	}
	step.Reasons = append(step.Reasons, slices.Concat(kubernetes, images, s.credentials(now))...)
	step.Failed = slices.ContainsFunc(step.Reasons,
		func(r string) bool { return strings.Contains(r, " failed. Reason for update: ") })
	return step
}

// credentials are the automatic rotations: the beginning of the line that reports each.
func (s *judgedShoot) credentials(now time.Time) (lines []string) {
	if s.Spec.Maintenance == nil || s.Spec.Maintenance.AutoRotation == nil {
		return nil
	}
	// Operations start after a creation or restoration, and whenever a reconciliation has not failed for good.
	last := s.Status.LastOperation
	if last == nil || last.State == "Failed" || last.Type != "Reconcile" &&
		(last.Type != "Create" && last.Type != "Restore" || last.State != "Succeeded") {
		return nil
	}
	due := func(period *judgedPeriod, last *judgedRotation) bool {
		if period == nil {
			return false
		}
		length := 7 * 24 * time.Hour
		if period.Period != "" {
			var err error
			if length, err = time.ParseDuration(period.Period); err != nil {
				panic(err)
			}
		}
		since := s.Metadata.CreationTimestamp
		if last != nil && last.Completion != "" {
			since = last.Completion
		}
		return length > 0 && before(since, now.Add(-length))
	}
	periods, rotated := s.Spec.Maintenance.AutoRotation.Credentials, s.Status.Credentials.Rotation
	settings := s.Spec.Provider.WorkersSettings
	if len(s.Spec.Provider.Workers) > 0 && (settings == nil || settings.SSHAccess.Enabled) &&
		due(periods.SSH, rotated.SSH) {
		lines = append(lines, `Credentials "rotate-ssh-keypair": `)
	}
	if due(periods.Observability, rotated.Observability) {
		lines = append(lines, `Credentials "rotate-observability-credentials": `)
	}
	asleep := s.Spec.Hibernation != nil && s.Spec.Hibernation.Enabled
	if !asleep && due(periods.ETCD, rotated.ETCD) {
		line := `Credentials "rotate-etcd-encryption-key": `
		if rotated.ETCD != nil && rotated.ETCD.Phase != "" && rotated.ETCD.Phase != "Completed" {
			line += "Automatic rotation failed. Reason for update: "
		}
		lines = append(lines, line)
	}
	return lines
}
