package test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/networkpolicy"
	controller "hortus.dev/hortus/internal/resourcemanager/networkpolicy"
	"hortus.dev/hortus/test/sim"
)

// Policies are what Services and namespaces require. Pods are never cut off before what they need is allowed, and
// policies of others stay.
func TestSimulateNetworkPolicies(t *testing.T) {
	const from = "networking.resources.gardener.cloud/namespace-selectors"
	ctx := context.Background()
	cluster := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	sim.Run(t, func(w *sim.World) {
		seed := w.Cluster("seed", sim.Scheme())
		seed.AddNamespaces("default", "others")
		api := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.1"}, Ports: []corev1.ServicePort{{Port: 443}}}}
		endpoints := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes",
				Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.10"}}},
			Ports:     []discoveryv1.EndpointPort{{Port: new(int32(6443))}},
		}
		seed.Add(api, endpoints)
		w.Process("resource-manager", seed, func(p *sim.Process) error {
			return (&controller.Reconciler{Client: p.GetClient(), Live: p.GetAPIReader(), Cluster: cluster}).AddToManager(p)
		})

		namespace := func(name, role string) *corev1.Namespace {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelMetadataName: name, "gardener.cloud/role": role, networkpolicy.LabelIsolated: "true",
			}}}
		}
		service := func(clients string) *corev1.Service {
			return &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: "db", Annotations: map[string]string{
					from: `[{"matchLabels":{"gardener.cloud/role":"` + clients + `"}}]`,
				}},
				Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"},
					Ports: []corev1.ServicePort{{Port: 5432, Protocol: corev1.ProtocolTCP}}},
			}
		}
		foreign := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: "foreign"}}
		create := func(o client.Object) func(context.Context, client.Client) error {
			return func(ctx context.Context, c client.Client) error { return c.Create(ctx, o) }
		}
		remove := func(o client.Object) func(context.Context, client.Client) error {
			return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, o) }
		}
		ended := false
		w.Change("make a namespace", seed, create(namespace("shoot--dev--a", "shoot")))
		w.Change("make another namespace", seed, create(namespace("shoot--dev--b", "shoot")))
		w.Change("make a policy of others", seed, create(foreign.DeepCopy()))
		w.Change("make a Service", seed, create(service("garden")))
		w.Change("make the namespace of its client", seed, create(namespace("garden", "garden")))
		w.Change("the API server moves", seed, func(context.Context, client.Client) error {
			return seed.Edit(endpoints, func() { endpoints.Endpoints[0].Addresses[0] = "10.1.0.11" })
		})
		w.Change("the Service gets other clients", seed, func(context.Context, client.Client) error {
			s := service("extension")
			return seed.Edit(s, func() { s.Annotations = service("extension").Annotations })
		})
		w.Change("one of them comes", seed, create(namespace("extension-x", "extension")))
		w.Change("somebody deletes a policy", seed, func(ctx context.Context, c client.Client) error {
			return client.IgnoreNotFound(c.Delete(ctx, &networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: networkpolicy.AllowRuntime}}))
		})
		w.Change("the extension is installed", seed, func(ctx context.Context, c client.Client) error {
			ns := namespace("extension-y", "extension")
			return c.Create(ctx, ns)
		})
		hook := service("shoot")
		hook.Namespace, hook.Name = "extension-y", "hook"
		hook.Annotations["networking.resources.gardener.cloud/from-all-webhook-targets-allowed-ports"] = `[{"port":5432}]`
		w.Change("it offers a webhook", seed, create(hook))
		w.Change("a client leaves", seed, remove(namespace("extension-x", "extension")))
		w.Change("a namespace is not isolated any more", seed, func(context.Context, client.Client) error {
			ended = true
			ns := namespace("garden", "")
			return seed.Edit(ns, func() { ns.Labels = map[string]string{corev1.LabelMetadataName: "garden"} })
		})
		for _, name := range []string{"shoot--dev--b", "shoot--dev--a"} {
			w.Change("Shoot "+name+" uses the extension", seed, func(context.Context, client.Client) error {
				ns := namespace(name, "shoot")
				return seed.Edit(ns, func() { ns.Annotations = map[string]string{networkpolicy.AnnotationExtensions: "y"} })
			})
			if name == "shoot--dev--b" { // The other one comes to an extension that is complete.
				w.Change("the extension's namespace is labelled", seed, func(context.Context, client.Client) error {
					ns := namespace("extension-y", "extension")
					return seed.Edit(ns, func() { ns.Labels[corev1beta1.LabelControllerRegistrationName] = "y" })
				})
			}
		}
		w.Change("somebody deletes the list of webhooks", seed, func(ctx context.Context, c client.Client) error {
			return client.IgnoreNotFound(c.Delete(ctx, networkpolicy.WebhookTargetsOf("shoot--dev--a", nil)))
		})
		w.Overlap()

		exists := func(namespace, name string) bool {
			return seed.Exists(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
		allowed := false
		w.Always("policies of others stay", func() error {
			there := exists("shoot--dev--a", "foreign")
			allowed = allowed || there
			return is(there || !allowed, "it is gone")
		})
		w.Always("pods may reach DNS while they are isolated", func() error {
			for _, ns := range []string{"shoot--dev--a", "garden"} {
				if ns == "garden" && ended { // A cache that has not shown the policy that denies may leave it for a moment.
					continue
				}
				if exists(ns, networkpolicy.DenyAll) && !exists(ns, networkpolicy.AllowDNS) {
					return is(false, "the policy is missing in namespace %s", ns)
				}
			}
			return nil
		})
		current := func() error {
			var namespaces corev1.NamespaceList
			var services corev1.ServiceList
			if err := seed.List(ctx, &namespaces); err != nil {
				return err
			}
			if err := seed.List(ctx, &services); err != nil {
				return err
			}
			networks := networkpolicy.Networks{Cluster: cluster, API: []netip.AddrPort{
				netip.MustParseAddrPort("10.0.0.1:443"), netip.MustParseAddrPort("10.1.0.11:6443"),
			}}
			for _, ns := range namespaces.Items {
				desired, err := networkpolicy.Desired(ns.Name, pointers(namespaces.Items), pointers(services.Items), networks)
				if err != nil {
					return err
				}
				want, got := map[string]networkingv1.NetworkPolicySpec{}, map[string]networkingv1.NetworkPolicySpec{}
				for _, p := range desired {
					want[p.Name] = p.Spec
				}
				var list networkingv1.NetworkPolicyList
				if err := seed.List(ctx, &list, client.InNamespace(ns.Name),
					client.MatchingLabelsSelector{Selector: networkpolicy.OwnSelector()}); err != nil {
					return err
				}
				for _, p := range list.Items {
					got[p.Name] = p.Spec
				}
				if diff := cmp.Diff(want, got); diff != "" {
					return fmt.Errorf("policies of namespace %s (-want +got):\n%s", ns.Name, diff)
				}
				if err := targetsAreCurrent(ctx, seed, &ns, pointers(namespaces.Items), pointers(services.Items)); err != nil {
					return err
				}
			}
			return nil
		}
		w.Faults(250)
		w.Eventually(100, "all policies are as required", current)
	})
}

// targetsAreCurrent compares the list of webhooks that a control plane may call with what namespaces and Services say.
func targetsAreCurrent(ctx context.Context, c client.Reader, ns *corev1.Namespace, namespaces []*corev1.Namespace,
	services []*corev1.Service) error {
	want, got := networkpolicy.WebhookTargets(ns, namespaces, services), &corev1.ConfigMap{}
	list := networkpolicy.WebhookTargetsOf(ns.Name, want)
	err := c.Get(ctx, client.ObjectKeyFromObject(list), got)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if diff := cmp.Diff(list.Data, got.Data); diff != "" && (err == nil || len(want) > 0) {
		return fmt.Errorf("webhooks for namespace %s (-want +got):\n%s", ns.Name, diff)
	}
	return is(err != nil || len(want) > 0, "an empty list of webhooks is left in namespace %s", ns.Name)
}

func is(ok bool, format string, a ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, a...)
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
