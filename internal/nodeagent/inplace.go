package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/pki"
)

const (
	// conditionInPlaceUpdate on a Node is the condition by which the machine controller reports the progress of an
	// update in place.
	conditionInPlaceUpdate = "InPlaceUpdate"
	reasonReadyForUpdate   = "ReadyForUpdate"

	kubeletHealthURL    = "http://127.0.0.1:10248/healthz"
	kubeletHealthPeriod = 5 * time.Second
	kubeletHealthLimit  = 5 * time.Minute
)

// InPlaceUpdater makes the changes that need a drained node.
type InPlaceUpdater struct {
	Root string
	// Run runs the command of an operating system update and returns its output; an update may end the machine.
	Run func(ctx context.Context, command string, args ...string) ([]byte, error)
	// KubeletHealthy returns nil if the kubelet answers.
	KubeletHealthy func(context.Context) error
	// RestartSelf ends this process, which is then started again.
	RestartSelf func(context.Context) error
	// Pods returns a client for the pods of the node.
	Pods func() (kubernetes.Interface, error)
}

// failure is a failed update that requires an operator to act.
type failure struct{ reason string }

func (f *failure) Error() string { return f.reason }

// RunCommand is the Run of real nodes.
func RunCommand(ctx context.Context, command string, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, command, args...).CombinedOutput()
}

// KubeletHealthz is the KubeletHealthy of real nodes.
func KubeletHealthz(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, kubeletHealthURL, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Timeout: kubeletHealthPeriod}).Do(request)
	if err != nil {
		return fmt.Errorf("query health of the kubelet: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the kubelet answers %s", response.Status)
	}
	return nil
}

// readyForUpdate reports whether the node is drained for an update, or an update has failed and is tried again.
func readyForUpdate(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == conditionInPlaceUpdate && condition.Reason == reasonReadyForUpdate {
			return true
		}
	}
	return retryFailed(node)
}

// isBack reports whether the kubelet, in its new version, has reported the node as ready since the machine booted.
// Before that the machine controller must not count the node as available, since it then drains others.
func isBack(node *corev1.Node, bootID string, updated *extensionsv1alpha1.InPlaceUpdates) bool {
	info := node.Status.NodeInfo
	if info.BootID != bootID || updated != nil && !strings.HasPrefix(info.KubeletVersion, "v"+updated.KubeletVersion) {
		return false
	}
	return isReady(node)
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func retryFailed(node *corev1.Node) bool {
	return node.Labels[corev1beta1.LabelNodeUpdateResult] == corev1beta1.NodeUpdateResultFailed
}

// updateInPlace makes all changes and reports the result to the machine controller by a label.
func (r *Reconciler) updateInPlace(ctx context.Context, round *round, node *corev1.Node) error {
	err := r.tryInPlace(ctx, round, node)
	var failed *failure
	switch {
	case errors.Is(err, ErrRestarting):
		return nil
	case errors.As(err, &failed):
		r.Metrics.failed()
		return errors.Join(err, r.reportFailed(ctx, node, failed.reason))
	case err != nil:
		r.Metrics.failed()
		return err
	}
	bootID, err := readBootID(round.Root)
	if err != nil {
		return err
	}
	if !isBack(node, bootID, round.next.InPlaceUpdates) {
		log.FromContext(ctx).Info("Waiting until the kubelet reports the node as ready after the update")
		return nil // The kubelet's next report triggers the next pass, or the machine controller gives up.
	}
	if err := r.InPlace.deletePods(ctx, node.Name); err != nil {
		return err
	}
	if err := round.applied(); err != nil {
		return err
	}
	if err := r.reportApplied(ctx, node, round.checksum, true); err != nil {
		return err
	}
	return round.finish() // Last: without the record a restarted node agent would never report the update.
}

func (r *Reconciler) tryInPlace(ctx context.Context, round *round, node *corev1.Node) error {
	flags := &round.changes.InPlace
	if err := round.run(ctx); err != nil {
		return err
	}
	if flags.Kubelet() {
		if err := r.InPlace.waitKubelet(ctx); err != nil {
			return err
		}
		flags.KubeletMinor, flags.KubeletConfig, flags.CPUManagerPolicy = false, false, false
		if err := round.save(); err != nil {
			return err
		}
	}
	if flags.OperatingSystem {
		if err := r.updateOperatingSystem(ctx, round, node); err != nil {
			return err
		}
	}
	if flags.CARotation {
		if err := r.followCARotation(ctx, round); err != nil {
			return err
		}
	}
	// Tokens are bound to objects, and their users request new ones; nothing on the node keeps an old one.
	flags.KeyRotation = false
	return round.save()
}

func (u *InPlaceUpdater) waitKubelet(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, kubeletHealthPeriod, kubeletHealthLimit, true,
		func(ctx context.Context) (bool, error) {
			last = u.KubeletHealthy(ctx)
			return last == nil, nil
		})
	if err != nil {
		return &failure{reason: fmt.Sprintf("the kubelet did not become healthy within %s: %v", kubeletHealthLimit, last)}
	}
	return nil
}

// followCARotation makes kubelet and node agent trust the new CA and gives them certificates of it.
func (r *Reconciler) followCARotation(ctx context.Context, round *round) error {
	kubelet, err := clientcmd.BuildConfigFromFlags("", round.path(config.KubeletKubeconfig))
	switch {
	case err == nil:
		if err := clientcmdLoad(kubelet.CertFile, &kubelet.CertData, kubelet.KeyFile, &kubelet.KeyData); err != nil {
			return err
		}
		bootstrap, err := pki.Kubeconfig{
			Name: "kubelet-bootstrap", Server: r.Config.APIServer.Server, CAPEM: r.Config.APIServer.CABundle,
			Client: &pki.KeyPair{CertPEM: kubelet.CertData, KeyPEM: kubelet.KeyData},
		}.Render()
		if err != nil {
			return err
		}
		if _, err := writeFile(round.path(config.KubeletBootstrapKubeconfig), bootstrap, 0o600); err != nil {
			return err
		}
		if err := removeFile(round.path(config.KubeletKubeconfig)); err != nil {
			return err
		}
		if err := os.RemoveAll(round.path(config.KubeletDir, "pki")); err != nil {
			return fmt.Errorf("remove certificates of the kubelet: %w", err)
		}
	case !fileExists(round.path(config.KubeletBootstrapKubeconfig)):
		return fmt.Errorf("read access of the kubelet: %w", err)
	}
	if err := round.Units.Restart(ctx, config.KubeletUnitName); err != nil {
		return fmt.Errorf("restart kubelet: %w", err)
	}
	if err := r.InPlace.waitKubelet(ctx); err != nil {
		return err
	}
	own, err := clientcmd.BuildConfigFromFlags("", round.path(config.KubeconfigFile))
	if err != nil {
		return fmt.Errorf("read own access: %w", err)
	}
	if _, err := r.Access.Renew(ctx, own); err != nil {
		return err
	}
	round.changes.InPlace.CARotation = false
	if err := round.save(); err != nil {
		return err
	}
	if err := r.InPlace.RestartSelf(ctx); err != nil {
		return fmt.Errorf("restart with the new certificate: %w", err)
	}
	return ErrRestarting
}

func clientcmdLoad(certFile string, cert *[]byte, keyFile string, key *[]byte) error {
	for _, f := range []struct {
		path string
		into *[]byte
	}{{certFile, cert}, {keyFile, key}} {
		if f.path == "" {
			continue
		}
		content, err := os.ReadFile(f.path)
		if err != nil {
			return fmt.Errorf("read access of the kubelet: %w", err)
		}
		*f.into = content
	}
	return nil
}

// deletePods deletes the pods that still run on the node (those of DaemonSets), so that they start anew after the
// update.
func (u *InPlaceUpdater) deletePods(ctx context.Context, node string) error {
	access, err := u.Pods()
	if err != nil {
		return err
	}
	list, err := access.CoreV1().Pods("").List(ctx, listOnNode(node))
	if err != nil {
		return fmt.Errorf("list pods on node %q: %w", node, err)
	}
	for _, pod := range list.Items {
		if err := access.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			deleteOptions(pod.UID)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// reportFailed reports the failure by a label, so that an operator can repair the node; the update is retried as long
// as the label exists.
func (r *Reconciler) reportFailed(ctx context.Context, node *corev1.Node, reason string) error {
	before := node.DeepCopy()
	setLabel(node, corev1beta1.LabelNodeUpdateResult, corev1beta1.NodeUpdateResultFailed)
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[corev1beta1.AnnotationNodeUpdateFailedReason] = reason
	if err := r.Client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("patch node %q: %w", node.Name, err)
	}
	return nil
}
