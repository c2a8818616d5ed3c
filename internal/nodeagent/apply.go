package nodeagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/change"
	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/nodeagent/units"
)

const (
	// unitDir is the directory of unit files.
	unitDir = "/etc/systemd/system"
	// cpuManagerState is where the kubelet keeps which pods have CPUs of their own, and by which policy.
	cpuManagerState = config.KubeletDir + "/cpu_manager_state"
)

// Applier applies a configuration to a node.
type Applier struct {
	// Root is put in front of every path; empty outside tests.
	Root     string
	HostName string
	Units    units.Manager
	Images   ImageExtractor
	// BeforeUnits runs when all files are written and before units are started.
	BeforeUnits func(context.Context) error
	// ProbeRegistry returns once a registry with readinessProbe answers.
	ProbeRegistry func(context.Context, extensionsv1alpha1.RegistryConfig) error
}

// ErrRestarting is returned when the node agent has requested its own restart; the remaining changes are made after it.
var ErrRestarting = errors.New("the node agent is restarting itself")

// round is the work on one configuration.
type round struct {
	*Applier
	store    store
	next     *change.Config
	checksum string
	changes  *change.Changes
	first    bool // Nothing was applied to this node before.
}

// begin reads a configuration and computes the changes.
func (a *Applier) begin(raw []byte) (*round, error) {
	next, err := change.Parse(raw, a.HostName)
	if err != nil {
		return nil, err
	}
	r := &round{Applier: a, store: store{root: a.Root}, next: next, checksum: change.Checksum(raw)}
	unfinished, err := r.store.loadChanges()
	if err != nil {
		return nil, err
	}
	old, err := r.store.loadApplied()
	if err != nil {
		return nil, err
	}
	r.first = old == nil
	if unfinished != nil && unfinished.Target == r.checksum {
		r.changes = unfinished
		return r, nil
	}
	var oldConfig *change.Config
	if old != nil {
		oldConfig = old.Config
	}
	observed := change.Observed{Missing: a.missing(oldConfig)}
	if next.InPlaceUpdates != nil {
		if observed.OperatingSystemVersion, err = installedOS(a.Root); err != nil {
			return nil, err
		}
	}
	r.changes = change.Compute(oldConfig, next, r.checksum, observed, unfinished)
	return r, r.save()
}

func (r *round) save() error { return r.store.saveChanges(r.changes) }

// start records that the changes are being made, on a drained node or under running pods.
func (r *round) start(drained bool) error {
	if r.changes.Begun && (r.changes.Drained || !drained) {
		return nil
	}
	r.changes.Begun, r.changes.Drained = true, r.changes.Drained || drained
	return r.save()
}

// missing returns the files, units and registries that were applied but do not exist, for example because the machine
// has got a new root disk.
func (a *Applier) missing(old *change.Config) change.Touched {
	var missing change.Touched
	if old == nil {
		return missing
	}
	for _, file := range old.Files {
		if !fileExists(a.path(file.Path)) {
			missing.Files = append(missing.Files, file.Path)
		}
	}
	for _, u := range old.Units {
		gone := u.Content != nil && !fileExists(a.path(unitDir, u.Name))
		for _, dropIn := range u.DropIns {
			gone = gone || !fileExists(a.path(unitDir, u.Name+".d", dropIn.Name))
		}
		if gone {
			missing.Units = append(missing.Units, u.Name)
		}
	}
	if old.CRI != nil && old.CRI.Containerd != nil {
		for _, registry := range old.CRI.Containerd.Registries {
			if !fileExists(a.path(hostsFile(registry.Upstream))) {
				missing.Registries = append(missing.Registries, registry.Upstream)
			}
		}
	}
	return missing
}

func (a *Applier) path(parts ...string) string {
	return filepath.Join(append([]string{a.Root}, parts...)...)
}

// run makes all changes that are allowed while pods run. It can be stopped and repeated at any point.
func (r *round) run(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	if err := r.configureContainerd(ctx); err != nil {
		return err
	}
	if err := r.writeFiles(ctx); err != nil {
		return err
	}
	if err := r.writeRegistries(ctx, false); err != nil {
		return err
	}
	if err := r.writeUnits(ctx); err != nil {
		return err
	}
	if r.BeforeUnits != nil {
		if err := r.BeforeUnits(ctx); err != nil {
			return err
		}
	}
	for _, work := range slices.Clone(r.changes.Units) {
		if work.Name == config.UnitName {
			continue // This unit comes last, since acting on it ends this process.
		}
		log.Info("Starting, stopping or restarting unit", "unit", work.Name, "restart", work.Restart, "delete", work.Delete)
		if err := r.act(ctx, work); err != nil {
			return err
		}
	}
	if err := r.writeRegistries(ctx, true); err != nil { // Some registries wait for what units have started.
		return err
	}
	for _, path := range slices.Clone(r.changes.DeleteFiles) {
		if err := removeFile(r.path(path)); err != nil {
			return err
		}
		r.changes.DeleteFiles = without(r.changes.DeleteFiles, path)
		if err := r.save(); err != nil {
			return err
		}
	}
	return r.restartSelf(ctx)
}

// writeFiles writes files in their order, and records which units have to be restarted because of them.
func (r *round) writeFiles(ctx context.Context) error {
	for _, path := range slices.Clone(r.changes.WriteFiles) {
		undo, err := r.expectRestart(func(u *extensionsv1alpha1.Unit,
			_ change.Unit) bool {
			return slices.Contains(u.FilePaths, path)
		})
		if err != nil {
			return err
		}
		changed, err := r.writeFile(ctx, r.next.File(path))
		if err != nil {
			return fmt.Errorf("apply file %s: %w", path, err)
		}
		if !changed {
			undo("")
		}
		r.changes.WriteFiles = without(r.changes.WriteFiles, path)
		if err := r.save(); err != nil {
			return err
		}
	}
	return nil
}

// expectRestart records that the wanted units for which affected returns true have to be restarted, before anything is
// written that requires it. undo removes the record for one unit, or for all with "", unless it existed before.
func (r *round) expectRestart(
	affected func(*extensionsv1alpha1.Unit, change.Unit) bool,
) (undo func(unit string), err error) {
	var noted []string
	for i := range r.changes.Units {
		work := &r.changes.Units[i]
		if u := r.next.Unit(work.Name); u != nil && !work.Restart && affected(u, *work) {
			work.Restart = true
			noted = append(noted, work.Name)
		}
	}
	undo = func(unit string) {
		for i := range r.changes.Units {
			if work := &r.changes.Units[i]; slices.Contains(noted, work.Name) && (unit == "" || unit == work.Name) {
				work.Restart = false
			}
		}
	}
	if len(noted) == 0 {
		return undo, nil
	}
	return undo, r.save()
}

func (r *round) writeFile(ctx context.Context, file *extensionsv1alpha1.File) (bool, error) {
	mode := fs.FileMode(0o644)
	if file.Permissions != nil {
		mode = fs.FileMode(*file.Permissions) & fs.ModePerm
	}
	switch {
	case file.Content.Inline != nil:
		content, err := file.Content.Inline.Decode()
		if err != nil {
			return false, err
		}
		return writeFile(r.path(file.Path), content, mode)
	case file.Content.ImageRef != nil:
		ref := file.Content.ImageRef
		return r.Images.Extract(ctx, ref.Image, ref.FilePathInImage, r.path(file.Path), mode)
	}
	return false,
		errors.New("the content is neither inline nor in an image; references to Secrets are resolved by the gardenlet")
}

// writeUnits writes unit files and drop-ins, removes obsolete ones, and reloads the unit manager.
func (r *round) writeUnits(ctx context.Context) error {
	if len(r.changes.Units) == 0 {
		return nil
	}
	undo, err := r.expectRestart(func(_ *extensionsv1alpha1.Unit, work change.Unit) bool {
		return work.Write || len(work.DeleteDropIns) > 0
	})
	if err != nil {
		return err
	}
	for _, work := range slices.Clone(r.changes.Units) {
		changed, err := r.writeUnit(work)
		if err != nil {
			return fmt.Errorf("apply unit %s: %w", work.Name, err)
		}
		if !changed {
			undo(work.Name)
		}
	}
	if err := r.save(); err != nil {
		return err
	}
	if !r.filesOfUnitsChanged() {
		return nil
	}
	if err := r.Units.Reload(ctx); err != nil {
		return fmt.Errorf("reload units: %w", err)
	}
	return nil
}

// filesOfUnitsChanged reports whether unit files or drop-ins differ from those that the unit manager has loaded. If the
// node agent stops after they were written, the record remains that the units have to be restarted.
func (r *round) filesOfUnitsChanged() bool {
	return slices.ContainsFunc(r.changes.Units, func(work change.Unit) bool {
		return work.Restart && (work.Write || len(work.DeleteDropIns) > 0) || work.Delete && len(work.DeleteDropIns) > 0
	})
}

// writeUnit reports whether it has changed any file of the unit.
func (r *round) writeUnit(work change.Unit) (changed bool, err error) {
	for _, name := range work.DeleteDropIns {
		path := r.path(unitDir, work.Name+".d", filepath.Base(name))
		changed = changed || fileExists(path)
		if err := removeFile(path); err != nil {
			return false, err
		}
	}
	u := r.next.Unit(work.Name)
	if !work.Write || u == nil {
		return changed, nil
	}
	write := func(path, content string) error {
		written, err := writeFile(path, []byte(content), 0o644)
		changed = changed || written
		return err
	}
	if u.Content != nil {
		if err := write(r.path(unitDir, u.Name), *u.Content); err != nil {
			return false, err
		}
	}
	for _, dropIn := range u.DropIns {
		if err := write(r.path(unitDir, u.Name+".d", filepath.Base(dropIn.Name)), dropIn.Content); err != nil {
			return false, err
		}
	}
	return changed, nil
}

// act brings one unit into its desired state.
func (r *round) act(ctx context.Context, work change.Unit) error {
	if work.Delete {
		if err := r.deleteUnit(ctx, work); err != nil {
			return err
		}
		return r.unitDone(work.Name)
	}
	u := r.next.Unit(work.Name)
	if u.Enable == nil || *u.Enable {
		if err := r.Units.Enable(ctx, u.Name); err != nil {
			return fmt.Errorf("enable unit %s: %w", u.Name, err)
		}
	} else if err := r.Units.Disable(ctx, u.Name); err != nil {
		return fmt.Errorf("disable unit %s: %w", u.Name, err)
	}
	if work.Name == config.KubeletUnitName && work.Restart {
		if err := r.forgetCPUs(ctx); err != nil {
			return err
		}
	}
	if err := r.command(ctx, u, work.Restart); err != nil {
		return err
	}
	return r.unitDone(work.Name)
}

func (r *round) command(ctx context.Context, u *extensionsv1alpha1.Unit, restart bool) error {
	verb, do := "start", r.Units.Start
	switch {
	case u.Command != nil && *u.Command == extensionsv1alpha1.CommandStop,
		u.Enable != nil && !*u.Enable && u.Command == nil:
		verb, do = "stop", r.Units.Stop
	case restart:
		verb, do = "restart", r.Units.Restart
	}
	if err := do(ctx, u.Name); err != nil {
		return fmt.Errorf("%s unit %s: %w", verb, u.Name, err)
	}
	return nil
}

// forgetCPUs removes the state of the kubelet's CPU manager if it is that of another policy, with which the kubelet
// does not start. A running kubelet may write it again, so it is stopped first; pods continue to run.
func (r *round) forgetCPUs(ctx context.Context) error {
	path := r.path(cpuManagerState)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state of the kubelet's CPU manager: %w", err)
	}
	if isStateOf(content, r.next.CPUManagerPolicy()) {
		return nil
	}
	if err := r.Units.Stop(ctx, config.KubeletUnitName); err != nil {
		return fmt.Errorf("stop unit %s: %w", config.KubeletUnitName, err)
	}
	return removeFile(path)
}

// isStateOf reports whether the state of a CPU manager is that of a policy. The kubelet starts with no other state, nor
// with one that cannot be read.
func isStateOf(state []byte, policy string) bool {
	var written struct {
		Policy string `json:"policyName"`
	}
	return json.Unmarshal(state, &written) == nil && written.Policy == policy
}

func (r *round) deleteUnit(ctx context.Context, work change.Unit) error {
	// A unit whose file is not in the configuration belongs to the machine: it continues with fewer drop-ins.
	if !work.DeleteFile {
		if len(work.DeleteDropIns) == 0 {
			return nil
		}
		if err := r.Units.Restart(ctx, work.Name); err != nil && !errors.Is(err, units.ErrNotFound) {
			return fmt.Errorf("restart unit %s: %w", work.Name, err)
		}
		return nil
	}
	for _, do := range []func(context.Context, string) error{r.Units.Stop, r.Units.Disable} {
		if err := do(ctx, work.Name); err != nil && !errors.Is(err, units.ErrNotFound) {
			return fmt.Errorf("remove unit %s: %w", work.Name, err)
		}
	}
	if err := os.RemoveAll(r.path(unitDir, work.Name+".d")); err != nil {
		return fmt.Errorf("remove unit %s: %w", work.Name, err)
	}
	if err := removeFile(r.path(unitDir, work.Name)); err != nil {
		return err
	}
	return r.Units.Reload(ctx)
}

func (r *round) unitDone(name string) error {
	r.changes.Units = slices.DeleteFunc(r.changes.Units, func(u change.Unit) bool { return u.Name == name })
	return r.save()
}

// restartSelf ends this process if its own unit, program or configuration has changed. The piece counts as done
// before, or it would be done for ever.
func (r *round) restartSelf(ctx context.Context) error {
	i := slices.IndexFunc(r.changes.Units, func(u change.Unit) bool { return u.Name == config.UnitName })
	if i < 0 {
		return nil
	}
	work := r.changes.Units[i]
	if !work.Restart {
		return r.act(ctx, work)
	}
	if err := r.Units.Enable(ctx, config.UnitName); err != nil {
		return fmt.Errorf("enable unit %s: %w", config.UnitName, err)
	}
	if err := r.unitDone(config.UnitName); err != nil {
		return err
	}
	if err := r.Units.Restart(ctx, config.UnitName); err != nil {
		return fmt.Errorf("restart unit %s: %w", config.UnitName, err)
	}
	return ErrRestarting
}

// applied records that the configuration is applied.
func (r *round) applied() error {
	return r.store.saveApplied(&lastApplied{Checksum: r.checksum, Config: r.next})
}

// finish forgets the changes, of which none are left.
func (r *round) finish() error { return r.store.deleteChanges() }

func without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(other string) bool { return other == item })
}
