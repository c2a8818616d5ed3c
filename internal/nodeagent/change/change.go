package change

import (
	"reflect"
	"slices"
	"strings"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Changes are the remaining changes. Each list is sorted and gets shorter as changes are made.
type Changes struct {
	// Target is the checksum of the configuration that the changes lead to.
	Target string `json:"target"`
	// Begun is set when the first of the changes is made: the node's turn has come, and stays so after a restart.
	Begun bool `json:"begun,omitempty"`
	// Drained is set with Begun on a node that was drained for an update in place, whose result is to be reported, even
	// after a restart or if the configuration has changed in the meantime.
	Drained bool `json:"drained,omitempty"`
	// WriteFiles and DeleteFiles are paths.
	WriteFiles  []string `json:"writeFiles,omitempty"`
	DeleteFiles []string `json:"deleteFiles,omitempty"`
	// Units are the units to write, act on or delete.
	Units []Unit `json:"units,omitempty"`
	// WriteRegistries and DeleteRegistries are upstreams.
	WriteRegistries  []string `json:"writeRegistries,omitempty"`
	DeleteRegistries []string `json:"deleteRegistries,omitempty"`
	// Containerd is set if the container runtime's own configuration may have changed.
	Containerd bool `json:"containerd,omitempty"`
	// RestartContainerd is set once it is known that the container runtime has to be restarted.
	RestartContainerd bool `json:"restartContainerd,omitempty"`
	// InPlace holds the changes that may only be made while no pods run on the node.
	InPlace InPlace `json:"inPlace,omitzero"`
	// OSUpdate is the update of the operating system that was begun last, or nil.
	OSUpdate *OSUpdate `json:"osUpdate,omitempty"`

	// Touched names everything that these changes, and unfinished ones that they have replaced, were going to change.
	// After an interrupted round the node matches neither the old nor the new configuration, so the next round treats
	// all of it as changed.
	Touched Touched `json:"touched,omitzero"`
}

// Touched names files, units and registries whose state on the node is unknown until all changes are made.
type Touched struct {
	Files      []string `json:"files,omitempty"`
	Units      []string `json:"units,omitempty"`
	Registries []string `json:"registries,omitempty"`
	// UnitFiles are the Units whose file comes from a configuration and not with the machine.
	UnitFiles []string `json:"unitFiles,omitempty"`
	// Containerd is set if the container runtime's own configuration is included.
	Containerd bool `json:"containerd,omitempty"`
}

// Unit holds the changes of a unit.
type Unit struct {
	Name string `json:"name"`
	// Write is set if unit file or drop-ins differ; Delete if the unit is to be removed.
	Write  bool `json:"write,omitempty"`
	Delete bool `json:"delete,omitempty"`
	// DeleteDropIns are names of drop-ins to remove.
	DeleteDropIns []string `json:"deleteDropIns,omitempty"`
	// DeleteFile is set with Delete if the unit file itself came from the old configuration, not with the machine.
	DeleteFile bool `json:"deleteFile,omitempty"`
	// Restart is set from just before a file of the unit is written: unless the file turns out to be the same, the unit
	// has to be restarted, also if the node agent is stopped in between.
	Restart bool `json:"restart,omitempty"`
}

// Done reports whether nothing is left to do.
func (c *Changes) Done() bool {
	return len(c.WriteFiles) == 0 && len(c.DeleteFiles) == 0 && len(c.Units) == 0 &&
		len(c.WriteRegistries) == 0 && len(c.DeleteRegistries) == 0 && !c.Containerd && !c.InPlace.Any()
}

// Observed is the state of the node itself.
type Observed struct {
	// Missing names the parts of the old configuration that no longer exist, for example because the machine got a new
	// root disk; they are written again.
	Missing Touched
	// OperatingSystemVersion is the installed version; empty if it is not known.
	OperatingSystemVersion string
}

// Compute returns the changes from old to next. Old is nil at the first time. unfinished are the remaining changes of
// an earlier round, or nil.
func Compute(old, next *Config, nextChecksum string, observed Observed, unfinished *Changes) *Changes {
	if old == nil {
		old = &Config{}
	}
	changes := &Changes{Target: nextChecksum}
	unknown := observed.Missing
	if unfinished != nil {
		unknown = unknown.union(unfinished.Touched)
		changes.Touched = unfinished.Touched
	}
	computeFiles(changes, old, next, unknown.Files)
	computeUnits(changes, old, next, unknown, unfinished)
	computeRegistries(changes, old, next, unknown.Registries)
	changes.Containerd = !reflect.DeepEqual(withoutRegistries(old.CRI), withoutRegistries(next.CRI)) || unknown.Containerd
	changes.RestartContainerd = unfinished != nil && unfinished.RestartContainerd
	changes.Touched.Containerd = changes.Containerd
	changes.InPlace = computeInPlace(old, next, observed.OperatingSystemVersion)
	changes.Drained = unfinished != nil && unfinished.Drained
	if unfinished != nil && changes.InPlace.OperatingSystem {
		changes.OSUpdate = unfinished.OSUpdate
	}

	for _, unit := range changes.Units {
		changes.Touched.Units = append(changes.Touched.Units, unit.Name)
		if wanted := next.unit(unit.Name); unit.DeleteFile || wanted != nil && wanted.Content != nil {
			changes.Touched.UnitFiles = append(changes.Touched.UnitFiles, unit.Name)
		}
	}
	changes.Touched.Files = sorted(append(changes.Touched.Files, append(changes.WriteFiles, changes.DeleteFiles...)...))
	changes.Touched.Units, changes.Touched.UnitFiles = sorted(changes.Touched.Units), sorted(changes.Touched.UnitFiles)
	changes.Touched.Registries = sorted(append(changes.Touched.Registries,
		append(changes.WriteRegistries, changes.DeleteRegistries...)...))
	return changes
}

func (t Touched) union(other Touched) Touched {
	return Touched{
		Files:      sorted(append(slices.Clone(t.Files), other.Files...)),
		Units:      sorted(append(slices.Clone(t.Units), other.Units...)),
		Registries: sorted(append(slices.Clone(t.Registries), other.Registries...)),
		UnitFiles:  sorted(append(slices.Clone(t.UnitFiles), other.UnitFiles...)),
		Containerd: t.Containerd || other.Containerd,
	}
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

func computeFiles(changes *Changes, old, next *Config, unknown []string) {
	wanted := map[string]bool{}
	for _, file := range next.Files {
		wanted[file.Path] = true
		before := old.file(file.Path)
		if before == nil || !reflect.DeepEqual(*before, file) || slices.Contains(unknown, file.Path) {
			changes.WriteFiles = append(changes.WriteFiles, file.Path)
		}
	}
	obsolete := slices.Clone(unknown)
	for _, file := range old.Files {
		obsolete = append(obsolete, file.Path)
	}
	for _, path := range obsolete {
		if !wanted[path] {
			changes.DeleteFiles = append(changes.DeleteFiles, path)
		}
	}
	changes.WriteFiles, changes.DeleteFiles = sorted(changes.WriteFiles), sorted(changes.DeleteFiles)
}

func computeUnits(changes *Changes, old, next *Config, unknown Touched, unfinished *Changes) {
	for _, unit := range next.Units {
		before := old.unit(unit.Name)
		work := Unit{Name: unit.Name}
		work.Write = before == nil || !reflect.DeepEqual(*before, unit) || slices.Contains(unknown.Units, unit.Name)
		if before != nil {
			for _, dropIn := range before.DropIns {
				if !slices.ContainsFunc(unit.DropIns, func(d extensionsv1alpha1.DropIn) bool { return d.Name == dropIn.Name }) {
					work.DeleteDropIns = append(work.DeleteDropIns, dropIn.Name)
				}
			}
		}
		uses := slices.ContainsFunc(unit.FilePaths,
			func(path string) bool { return slices.Contains(changes.WriteFiles, path) })
		if pending := unfinished.unit(unit.Name); pending != nil {
			work.Restart = pending.Restart
		}
		if work.Write || uses || work.Restart {
			changes.Units = append(changes.Units, work)
		}
	}
	for _, unit := range old.Units {
		if next.unit(unit.Name) == nil {
			work := Unit{Name: unit.Name, Delete: true, DeleteFile: unit.Content != nil}
			for _, dropIn := range unit.DropIns {
				work.DeleteDropIns = append(work.DeleteDropIns, dropIn.Name)
			}
			changes.Units = append(changes.Units, work)
		}
	}
	for _, name := range unknown.Units {
		if old.unit(name) == nil && next.unit(name) == nil {
			changes.Units = append(changes.Units,
				Unit{Name: name, Delete: true, DeleteFile: slices.Contains(unknown.UnitFiles, name)})
		}
	}
	slices.SortFunc(changes.Units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
}

// unit returns the changes of a unit, or nil; c may be nil.
func (c *Changes) unit(name string) *Unit {
	if c == nil {
		return nil
	}
	if i := slices.IndexFunc(c.Units, func(u Unit) bool { return u.Name == name }); i >= 0 {
		return &c.Units[i]
	}
	return nil
}

func computeRegistries(changes *Changes, old, next *Config, unknown []string) {
	wanted := map[string]bool{}
	for _, registry := range next.registries() {
		wanted[registry.Upstream] = true
		before := old.registry(registry.Upstream)
		if before == nil || !reflect.DeepEqual(*before, registry) || slices.Contains(unknown, registry.Upstream) {
			changes.WriteRegistries = append(changes.WriteRegistries, registry.Upstream)
		}
	}
	obsolete := slices.Clone(unknown)
	for _, registry := range old.registries() {
		obsolete = append(obsolete, registry.Upstream)
	}
	for _, upstream := range obsolete {
		if !wanted[upstream] {
			changes.DeleteRegistries = append(changes.DeleteRegistries, upstream)
		}
	}
	changes.WriteRegistries, changes.DeleteRegistries = sorted(changes.WriteRegistries), sorted(changes.DeleteRegistries)
}

func withoutRegistries(cri *extensionsv1alpha1.CRIConfig) *extensionsv1alpha1.CRIConfig {
	if cri == nil || cri.Containerd == nil {
		return cri
	}
	cri = cri.DeepCopy()
	cri.Containerd.Registries = nil
	return cri
}
