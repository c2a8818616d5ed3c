package care

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/component/vpnshoot"
)

// shootTimeout bounds the reads in one Shoot in one check. An API server in good health answers all of them within a
// second; one that its users have made slow must not keep a worker from the other Shoots of the seed.
const shootTimeout = 20 * time.Second

// Limits on what one check reads of each kind.
var (
	// limits are 64 MiB: 1,000 definitions of 64 KiB each.
	limits = boundedlist.Limits{Bytes: 64 << 20, Objects: 10_000}
	// nodeLimits have room for 5,000 nodes, as many as Kubernetes supports, of 25 KiB each.
	nodeLimits = boundedlist.Limits{Bytes: 128 << 20, Objects: 10_000}
)

const (
	// maxNames bounds the names in a message, and maxText the text of others in it, in bytes.
	maxNames, maxText = 20, 500
	// maxRepairs bounds the webhook configurations that are repaired in one check.
	maxRepairs = 100
	// maxStalePods bounds the pods that are deleted in one check.
	maxStalePods = 200
)

// Kind of objects that are read in a Shoot, in the words of users.
type Kind string

// Kinds that are read in a Shoot.
const (
	MutatingWebhooks   Kind = "MutatingWebhookConfigurations"
	ValidatingWebhooks Kind = "ValidatingWebhookConfigurations"
	Definitions        Kind = "CustomResourceDefinitions"
	Nodes              Kind = "Nodes"
	NodeLeases              = Kind("Leases in namespace " + corev1.NamespaceNodeLease)
	AgentLeases             = Kind("Leases in namespace " + metav1.NamespaceSystem)
	TunnelPods              = Kind("pods with label app=" + vpnshoot.Name + " in namespace " + metav1.NamespaceSystem)
)

// Node has the properties of a node that the checks need.
type Node struct {
	Name           string
	Pool           string
	ConfigKey      string // Key of the configuration that it must apply.
	Checksum       string // Checksum of the configuration that it has applied.
	KubeletVersion string
	NotManaged     bool // It has no Machine.
	Unschedulable  bool
	BeingReplaced  bool
	BeingUpdated   bool // It is being updated in place.
	Ready          bool
	// Problem describes the problem that its conditions report; empty if there is none. ByItsUsers is true if its cause
	// may be what users run on the node.
	Problem    string
	ByItsUsers bool
}

// nodeOf keeps the fields of a node that the checks need.
func nodeOf(n *corev1.Node) Node {
	out := Node{
		Name: n.Name, Pool: n.Labels[corev1beta1.LabelWorkerPool],
		ConfigKey: n.Labels[corev1beta1.LabelWorkerNodeAgentSecretName],
		Checksum:  n.Annotations[annotationChecksum], KubeletVersion: n.Status.NodeInfo.KubeletVersion,
		NotManaged: n.Annotations[annotationNotManaged] == "1", Unschedulable: n.Spec.Unschedulable, Ready: nodeReady(n),
		BeingReplaced: slices.ContainsFunc(n.Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == taintPreferNoSchedule }),
		BeingUpdated: beingUpdated(n),
	}
	out.Problem, out.ByItsUsers = nodeProblem(n)
	for _, text := range []*string{&out.Pool, &out.ConfigKey, &out.Checksum, &out.KubeletVersion, &out.Problem} {
		*text = cut(*text)
	}
	return out
}

// Lease has the properties of a Lease that the checks need.
type Lease struct {
	Name string
	End  time.Time // When it expires; zero if it was never renewed.
}

func leaseOf(l *coordinationv1.Lease) Lease { return Lease{l.Name, leaseEnd(l)} }

// Names are the names of objects that are reported together.
type Names struct {
	First []string // At most maxNames.
	Count int      // Total number.
}

func (n *Names) add(name string) {
	if n.Count++; len(n.First) < maxNames {
		n.First = append(n.First, name)
	}
}

// String lists the known names and says how many more there are.
func (n *Names) String() string {
	list := strings.Join(slices.Sorted(slices.Values(n.First)), ", ")
	if more := n.Count - len(n.First); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// cut bounds a text that others have written.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + " [...]"
}

// readAll hands all objects of a kind to visit, until it returns false. If there are more than are read, o says so.
func readAll[L client.ObjectList](
	ctx context.Context, o *Observed, user client.Reader, kind Kind, limits boundedlist.Limits, list L, visit func(L) bool,
	opts ...client.ListOption,
) error {
	err := boundedlist.Read(ctx, user, limits, list, func(page L) (bool, error) { return visit(page), nil }, opts...)
	if much := (*boundedlist.TooMuchError)(nil); errors.As(err, &much) {
		if o.TooMuch == nil {
			o.TooMuch = map[Kind]string{}
		}
		o.TooMuch[kind] = much.Error()
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into the Shoot: list %s: %w", kind, err)
	}
	return nil
}

// tooMuch is the finding if there are more objects of one of the kinds than are read.
func tooMuch(o *Observed, kinds ...Kind) (Finding, bool) {
	for _, kind := range kinds {
		if why, ok := o.TooMuch[kind]; ok {
			return unknown("TooManyObjects",
				fmt.Sprintf("Not checked: the cluster has more %s than a check reads (%s).", kind, why)), true
		}
	}
	return Finding{}, false
}

// Webhooks has the findings about validating and mutating webhook configurations.
type Webhooks struct {
	Problematic Names // Webhooks of users, with their configurations.
	Repaired    Names // Configurations that were changed to protect the cluster.
	ChangedBack Names // Repaired configurations that are problematic again.
	// ToRepair are configurations to be repaired: at most maxRepairs at once, the others after them.
	ToRepair []client.Object // Only their names are set.
}

// add judges a configuration.
func (w *Webhooks) add(c client.Object, webhooks []Webhook) {
	repaired := c.GetAnnotations()[corev1beta1.AnnotationWarning] != ""
	if repaired {
		w.Repaired.add(c.GetName())
	}
	if own(c.GetLabels()) {
		return
	}
	found := false
	for _, webhook := range webhooks {
		if Problematic(webhook) {
			w.Problematic.add(fmt.Sprintf("%s in %s", webhook.Name, webhook.Configuration))
			found = true
		}
	}
	if found && repaired {
		w.ChangedBack.add(c.GetName())
	}
	if found && !excluded(c.GetLabels()) && len(w.ToRepair) < maxRepairs {
		w.ToRepair = append(w.ToRepair, onlyName(c))
	}
}

// onlyName is an object of the same kind with the same name.
func onlyName(c client.Object) client.Object {
	meta := metav1.ObjectMeta{Name: c.GetName()}
	if _, mutating := c.(*admissionregistrationv1.MutatingWebhookConfiguration); mutating {
		return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}
}

// webhooksOf lists the webhooks of a configuration of either kind.
func webhooksOf(c client.Object) []Webhook {
	var out []Webhook
	switch c := c.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			out = append(out, Webhook{
				c.Name, w.Name, w.FailurePolicy, w.TimeoutSeconds, w.Rules, w.ObjectSelector, w.NamespaceSelector,
			})
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			out = append(out, Webhook{
				c.Name, w.Name, w.FailurePolicy, w.TimeoutSeconds, w.Rules, w.ObjectSelector, w.NamespaceSelector,
			})
		}
	}
	return out
}

// readShoot reads the objects in the Shoot that the checks need.
func readShoot(ctx context.Context, o *Observed, user client.Reader) error {
	for _, read := range []func(context.Context, *Observed, client.Reader) error{
		readMutatingWebhooks, readValidatingWebhooks, readDefinitions, readNodes, readNodeLeases, readAgentLeases,
		readTunnelPods,
	} {
		if err := read(ctx, o, user); err != nil {
			return err
		}
	}
	return nil
}

func readMutatingWebhooks(ctx context.Context, o *Observed, user client.Reader) error {
	type list = admissionregistrationv1.MutatingWebhookConfigurationList
	return readAll(ctx, o, user, MutatingWebhooks, limits, &list{}, func(page *list) bool {
		for i := range page.Items {
			o.Webhooks.add(&page.Items[i], webhooksOf(&page.Items[i]))
		}
		return true
	})
}

func readValidatingWebhooks(ctx context.Context, o *Observed, user client.Reader) error {
	type list = admissionregistrationv1.ValidatingWebhookConfigurationList
	return readAll(ctx, o, user, ValidatingWebhooks, limits, &list{}, func(page *list) bool {
		for i := range page.Items {
			o.Webhooks.add(&page.Items[i], webhooksOf(&page.Items[i]))
		}
		return true
	})
}

func readDefinitions(ctx context.Context, o *Observed, user client.Reader) error {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	return readAll(ctx, o, user, Definitions, limits, list, func(page *apiextensionsv1.CustomResourceDefinitionList) bool {
		for i := range page.Items {
			if needsItsWebhook(&page.Items[i]) {
				o.Conversions.add(page.Items[i].Name)
			}
		}
		return true
	})
}

func readNodes(ctx context.Context, o *Observed, user client.Reader) error {
	if o.workerless() {
		return nil
	}
	return readAll(ctx, o, user, Nodes, nodeLimits, &corev1.NodeList{}, func(page *corev1.NodeList) bool {
		for i := range page.Items {
			o.Nodes = append(o.Nodes, nodeOf(&page.Items[i]))
		}
		return true
	})
}

func readNodeLeases(ctx context.Context, o *Observed, user client.Reader) error {
	if o.workerless() {
		return nil
	}
	return readAll(ctx, o, user, NodeLeases, limits, &coordinationv1.LeaseList{},
		func(page *coordinationv1.LeaseList) bool {
			for i := range page.Items {
				o.NodeLeases = append(o.NodeLeases, leaseOf(&page.Items[i]))
			}
			return true
		}, client.InNamespace(corev1.NamespaceNodeLease))
}

func readAgentLeases(ctx context.Context, o *Observed, user client.Reader) error {
	if o.workerless() {
		return nil
	}
	return readAll(ctx, o, user, AgentLeases, limits, &coordinationv1.LeaseList{},
		func(page *coordinationv1.LeaseList) bool {
			for i := range page.Items {
				if strings.HasPrefix(page.Items[i].Name, corev1beta1.NodeAgentLeasePrefix) {
					o.AgentLeases = append(o.AgentLeases, leaseOf(&page.Items[i]))
				}
			}
			return true
		}, client.InNamespace(metav1.NamespaceSystem))
}

func readTunnelPods(ctx context.Context, o *Observed, user client.Reader) error {
	if o.workerless() {
		return nil
	}
	return readAll(ctx, o, user, TunnelPods, limits, &corev1.PodList{}, func(page *corev1.PodList) bool {
		o.TunnelPod = slices.ContainsFunc(page.Items, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		return !o.TunnelPod
	}, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"app": vpnshoot.Name})
}
