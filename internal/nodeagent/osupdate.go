package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/change"
	"hortus.dev/hortus/internal/nodeagent/config"
)

const (
	osUpdatePause = 30 * time.Second
	osUpdateLimit = 5 * time.Minute
	// osRebootLimit bounds how long a machine stays up after the command has ended; a unit has 90 seconds to stop.
	osRebootLimit = 5 * time.Minute

	bootIDFile = "/proc/sys/kernel/random/boot_id"
)

var (
	osReleaseVersion = regexp.MustCompile(`(?m)^PRETTY_NAME="?[^"\n]*?([0-9]+(?:\.[0-9]+)+[^"\s]*)`)
	// networkProblem in the output of an update means that another try may help (contract of OS extensions).
	networkProblem = regexp.MustCompile(`(?i)network problems`)
)

// installedOS returns the version that /etc/os-release shows.
func installedOS(root string) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, "/etc/os-release"))
	if err != nil {
		return "", fmt.Errorf("read version of the operating system: %w", err)
	}
	match := osReleaseVersion.FindSubmatch(content)
	if match == nil {
		return "", errors.New("PRETTY_NAME in /etc/os-release has no version")
	}
	return string(match[1]), nil
}

// readBootID returns the ID of the machine's current boot. Kubelets report it, too.
func readBootID(root string) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, bootIDFile))
	if err != nil {
		return "", fmt.Errorf("read boot ID: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// osState is the observed state of an update of the operating system.
type osState struct {
	wanted    string           // The version to install.
	installed string           // The version that runs.
	announced string           // The version in the Node's annotation; removed when the command fails.
	begun     *change.OSUpdate // The last run of the command, or nil.
	bootID    string           // The current boot.
	now       time.Time
}

// osStep is the next step of an update of the operating system.
type osStep string

const (
	osDone        osStep = "done"
	osRun         osStep = "run the command"
	osAwaitReboot osStep = "wait for the reboot"
	osFailed      osStep = "failed"
)

// next returns the next step, and the reason of a failure. An interrupted command is run again for as long as the
// machine controller's inPlaceUpdateTimeout lets the update take.
func (s *osState) next() (step osStep, reason string) {
	switch {
	case s.installed == s.wanted && s.maySoonReboot():
		return osAwaitReboot, "" // Only what runs after that shows whether the version stays.
	case s.installed == s.wanted:
		return osDone, ""
	case s.announced != s.wanted:
		return osRun, ""
	case s.begun == nil || s.begun.Version != s.wanted || s.begun.BootID != s.bootID:
		return osFailed, fmt.Sprintf("the update of the operating system to %s was rolled back: it runs %s", s.wanted,
			s.installed)
	case s.begun.Ended == nil:
		return osRun, "" // The node agent was killed while the command ran.
	case s.maySoonReboot():
		return osAwaitReboot, ""
	}
	return osFailed,
		fmt.Sprintf("the update of the operating system to %s did not restart the machine within %s: it runs %s",
			s.wanted, osRebootLimit, s.installed)
}

// maySoonReboot reports whether the command has ended in this boot, and not so long ago that the machine stays up.
func (s *osState) maySoonReboot() bool {
	return s.begun != nil && s.begun.Version == s.wanted && s.begun.BootID == s.bootID && s.begun.Ended != nil &&
		s.now.Sub(s.begun.Ended.Time) < osRebootLimit
}

func (r *Reconciler) readOSState(round *round, node *corev1.Node) (*osState, error) {
	installed, err := installedOS(round.Root)
	if err != nil {
		return nil, err
	}
	bootID, err := readBootID(round.Root)
	if err != nil {
		return nil, err
	}
	return &osState{
		wanted: round.next.InPlaceUpdates.OperatingSystemVersion, installed: installed,
		announced: node.Annotations[config.AnnotationUpdatingOS], begun: round.changes.OSUpdate,
		bootID: bootID, now: r.Clock.Now(),
	}, nil
}

// updateOperatingSystem runs the extension's command. The command usually reboots the machine; the version installed
// after that shows the result.
func (r *Reconciler) updateOperatingSystem(ctx context.Context, round *round, node *corev1.Node) error {
	state, err := r.readOSState(round, node)
	if err != nil {
		return err
	}
	step, reason := state.next()
	if step == osRun {
		if err := r.runOSUpdate(ctx, round, node, state); err != nil {
			return err
		}
		if state, err = r.readOSState(round, node); err != nil {
			return err
		}
		step, reason = state.next()
	}
	switch step {
	case osDone:
		round.changes.InPlace.OperatingSystem = false
		return round.save()
	case osFailed:
		return &failure{reason: reason}
	}
	log.FromContext(ctx).Info("Waiting for the machine to go down for the update of its operating system")
	return ErrRestarting
}

// runOSUpdate records on disk and on the Node that it begins the update, and on disk that the command has ended without
// an error.
func (r *Reconciler) runOSUpdate(ctx context.Context, round *round, node *corev1.Node, state *osState) error {
	if round.next.InPlaceStatus == nil || round.next.InPlaceStatus.OSUpdate == nil {
		return &failure{reason: "the extension of the operating system offers no update in place"}
	}
	round.changes.OSUpdate = &change.OSUpdate{Version: state.wanted, BootID: state.bootID}
	if err := round.save(); err != nil { // Before the Node: without this record an announced update counts as rolled back.
		return err
	}
	before := node.DeepCopy()
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[config.AnnotationUpdatingOS] = state.wanted
	if err := r.Client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("patch node %q: %w", node.Name, err)
	}
	if err := r.InPlace.runUpdate(ctx, round.next.InPlaceStatus.OSUpdate); err != nil {
		if ctx.Err() != nil {
			return ErrRestarting // The update reboots the machine; the installed version shows the result after that.
		}
		before := node.DeepCopy()
		delete(node.Annotations, config.AnnotationUpdatingOS) // Nothing was installed, so it may be retried.
		return errors.Join(err, r.Client.Patch(ctx, node, client.MergeFrom(before)))
	}
	ended := metav1.NewTime(r.Clock.Now())
	round.changes.OSUpdate.Ended = &ended
	return round.save()
}

func (u *InPlaceUpdater) runUpdate(ctx context.Context, update *extensionsv1alpha1.OSUpdate) error {
	var output []byte
	var last error
	err := wait.PollUntilContextTimeout(ctx, osUpdatePause, osUpdateLimit, true, func(ctx context.Context) (bool, error) {
		output, last = u.Run(ctx, update.Command, update.Args...)
		return last == nil || !networkProblem.Match(output), nil
	})
	detail := strings.TrimSpace(string(output))
	switch {
	case err != nil: // Only network problems are retried until the timeout.
		return fmt.Errorf("update the operating system: %w: %s", err, detail)
	case last != nil:
		return &failure{reason: fmt.Sprintf("the update of the operating system failed: %v: %s", last, detail)}
	}
	return nil
}
