package networkpolicy

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// The annotations of a webhook's Service in the namespace of an extension, as the contract has them.
var offered = map[string]string{
	"networking.resources.gardener.cloud/from-all-webhook-targets-allowed-ports": `[{"port":10250,"protocol":"TCP"}]`,
	"networking.resources.gardener.cloud/pod-label-selector-namespace-alias":     "extensions",
	"networking.resources.gardener.cloud/namespace-selectors":                    `[{"matchLabels":{"gardener.cloud/role":"shoot"}}]`,
}

// TestWebhookTargets: an API server may call what an extension of its Shoot offers to it, and nothing else.
func TestWebhookTargets(t *testing.T) {
	https := corev1.ServicePort{Port: 443, TargetPort: intstr.FromInt32(10250), Protocol: corev1.ProtocolTCP}
	hook := func(change ...func(*corev1.Service)) *corev1.Service {
		s := service("extension-noted", "hook", maps.Clone(offered), https)
		for _, c := range change {
			c(s)
		}
		return s
	}
	annotated := func(key, value string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Annotations["networking.resources.gardener.cloud/"+key] = value }
	}
	in := func(namespace string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Namespace = namespace }
	}
	ported := func(ports ...corev1.ServicePort) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Ports = ports }
	}
	all := []string{
		"hook.extension-noted.svc.cluster.local:443", "hook.extension-noted.svc:443", "hook.extension-noted:443",
	}
	for name, tc := range map[string]struct {
		service *corev1.Service
		own     func(*corev1.Namespace)
		want    []string
	}{
		"a webhook of an extension that the Shoot uses": {service: hook(), want: all},
		"without an alias": {
			service: hook(func(s *corev1.Service) {
				delete(s.Annotations, resourcesv1alpha1.AnnotationNetworkPolicyNamespaceAlias)
			}), want: all,
		},
		"selected by a label of this Shoot": {
			service: hook(annotated("namespace-selectors", `[{"matchLabels":{"shoot.gardener.cloud/provider":"local"}}]`)),
			want:    all,
		},
		"only some of the ports": {
			service: hook(ported(https, corev1.ServicePort{Port: 8080}, corev1.ServicePort{
				Port: 53, TargetPort: intstr.FromInt32(10250), Protocol: corev1.ProtocolUDP,
			})), want: all,
		},
		"a port without a target port": {
			service: hook(ported(corev1.ServicePort{Port: 10250})),
			want: []string{"hook.extension-noted.svc.cluster.local:10250", "hook.extension-noted.svc:10250",
				"hook.extension-noted:10250"},
		},
		"a port by name": {
			service: hook(ported(corev1.ServicePort{Port: 443, TargetPort: intstr.FromString("hooks")}),
				annotated("from-all-webhook-targets-allowed-ports", `[{"port":"hooks"}]`)), want: all,
		},
		"a range of ports": {
			service: hook(annotated("from-all-webhook-targets-allowed-ports", `[{"port":10000,"endPort":10250}]`)), want: all,
		},
		"in the namespace of the control plane": {
			service: hook(in("shoot--dev--a"), func(s *corev1.Service) {
				s.Annotations = map[string]string{
					"networking.resources.gardener.cloud/from-all-webhook-targets-allowed-ports": `[{"port":10250}]`,
				}
			}), want: []string{
				"hook.shoot--dev--a.svc.cluster.local:443", "hook.shoot--dev--a.svc:443", "hook.shoot--dev--a:443", "hook:443",
			},
		},

		"an extension that the Shoot does not use": {service: hook(in("extension-other"))},
		"an extension of unknown origin":           {service: hook(in("extension-unknown"))},
		"an extension that is being removed":       {service: hook(in("extension-ending"))},
		"another control plane":                    {service: hook(in("shoot--dev--b"))},
		"the garden":                               {service: hook(in("garden"))},
		"a namespace without a role":               {service: hook(in("default"))},
		"a Service without the annotation": {service: hook(func(s *corev1.Service) {
			delete(s.Annotations, "networking.resources.gardener.cloud/from-all-webhook-targets-allowed-ports")
		})},
		"a Service for another group": {service: hook(func(s *corev1.Service) {
			delete(s.Annotations, "networking.resources.gardener.cloud/from-all-webhook-targets-allowed-ports")
		}, annotated("from-all-scrape-targets-allowed-ports", `[{"port":10250}]`))},
		"a Service for no other namespace": {service: hook(func(s *corev1.Service) {
			delete(s.Annotations, resourcesv1alpha1.AnnotationNetworkPolicyNamespaceSelectors)
		})},
		"a Service for other namespaces": {service: hook(
			annotated("namespace-selectors", `[{"matchLabels":{"shoot.gardener.cloud/provider":"metal"}}]`))},
		"an alias that the tunnel server has no label for": {
			service: hook(annotated("pod-label-selector-namespace-alias", "others")),
		},
		"selectors that are not JSON": {service: hook(annotated("namespace-selectors", `all`))},
		"ports that are not JSON":     {service: hook(annotated("from-all-webhook-targets-allowed-ports", `10250`))},
		"ports of another protocol": {
			service: hook(annotated("from-all-webhook-targets-allowed-ports", `[{"port":10250,"protocol":"UDP"}]`)),
		},
		"ports beyond the range": {
			service: hook(annotated("from-all-webhook-targets-allowed-ports", `[{"port":10251,"endPort":10260}]`)),
		},
		"a Service that is an alias of another name": {service: hook(func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "kube-apiserver.shoot--dev--b.svc"
		})},
		"a Service with endpoints of somebody": {service: hook(func(s *corev1.Service) { s.Spec.Selector = nil })},
		"a Service that is being removed": {service: hook(func(s *corev1.Service) {
			s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		})},

		"the Shoot's extensions are not known yet": {
			service: hook(), own: func(ns *corev1.Namespace) { delete(ns.Annotations, AnnotationExtensions) },
		},
		"the Shoot uses none": {
			service: hook(in("extension-unknown")),
			own:     func(ns *corev1.Namespace) { ns.Annotations[AnnotationExtensions] = "" },
		},
		"another extension begins with the same name": {
			service: hook(), own: func(ns *corev1.Namespace) { ns.Annotations[AnnotationExtensions] = "noted-2" },
		},
		"the namespace is no control plane": {
			service: hook(), own: func(ns *corev1.Namespace) { ns.Labels[corev1beta1.LabelRole] = corev1beta1.RoleExtension },
		},
		"the control plane is being removed": {
			service: hook(), own: func(ns *corev1.Namespace) { ns.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			extension := func(name, registration string) *corev1.Namespace {
				ns := namespace(name, "extension")
				ns.Labels[corev1beta1.LabelControllerRegistrationName] = registration
				return ns
			}
			own := namespace("shoot--dev--a", "shoot")
			own.Labels["shoot.gardener.cloud/provider"] = "local"
			own.Annotations = map[string]string{AnnotationExtensions: "ending,noted,provider"}
			if tc.own != nil {
				tc.own(own)
			}
			ending := extension("extension-ending", "ending")
			ending.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			b := namespace("shoot--dev--b", "shoot")
			b.Labels[corev1beta1.LabelControllerRegistrationName] = "noted"
			namespaces := []*corev1.Namespace{
				own, b, namespace("garden", "garden"), namespace("default", ""), ending,
				extension("extension-noted", "noted"), extension("extension-other", "other"),
				extension("extension-unknown", ""),
			}
			plain := service("extension-noted", "plain", nil, https)
			got := WebhookTargets(own, namespaces, []*corev1.Service{plain, tc.service})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("WebhookTargets() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
