package networkpolicy

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Desired returns all policies that a namespace has, ordered by name: none if it is not managed. services and
// namespaces are those of the whole cluster. Invalid annotations of a Service are left out and reported.
func Desired(
	namespace string, namespaces []*corev1.Namespace, services []*corev1.Service, n Networks,
) ([]*networkingv1.NetworkPolicy, error) {
	managed := map[string]*corev1.Namespace{}
	var all []*corev1.Namespace
	for _, ns := range namespaces {
		if Managed(ns) {
			managed[ns.Name] = ns
			all = append(all, ns)
		}
	}
	own, ok := managed[namespace]
	if !ok {
		return nil, nil
	}
	out := General(own, n)
	var errs []error
	for _, s := range services {
		if managed[s.Namespace] == nil {
			continue
		}
		policies, err := OfService(s, all)
		if s.Namespace == namespace {
			errs = append(errs, err) // Reported once.
		}
		out = append(out, slices.DeleteFunc(policies,
			func(p *networkingv1.NetworkPolicy) bool { return p.Namespace != namespace })...)
	}
	sortByName(out)
	return out, errors.Join(errs...)
}

// OwnSelector selects the policies of this package. Policies of others are not touched.
func OwnSelector() labels.Selector { return labels.SelectorFromSet(labels.Set{labelOwn: ownedBy}) }
