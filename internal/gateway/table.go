package gateway

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// AnnotationExport on a Service, with the value "*", offers it to gateways for CONNECT and PROXY connections.
const AnnotationExport = "networking.istio.io/exportTo"

// AnnotationProxyAddress on the Service of an API server is the destination IP of PROXY connections to it, besides its
// cluster IPs.
const AnnotationProxyAddress = "hortus.dev/proxy-address"

const (
	apiServerService = "kube-apiserver"
	apiServerPort    = 443
	tunnelPort       = 1194
)

// tunnelService matches the tunnel server's Service and those of its highly available form.
var tunnelService = regexp.MustCompile(`^vpn-seed-server(-[0-4])?$`)

// Backend is a port of a Service.
type Backend struct {
	Service types.NamespacedName
	Address netip.AddrPort // The cluster IP and port.
}

// Destination is a destination that a CONNECT request may name.
type Destination struct {
	Service types.NamespacedName
	Port    uint16
}

// Table maps destinations to backends. It never changes after it was built.
type Table struct {
	exact        map[string][]Backend    // By server name.
	wildcard     map[string][]Backend    // By what follows the asterisk, for example ".example.com".
	destinations map[Destination]Backend // Exported tunnel and API servers.
	apiServers   map[netip.Addr]Backend  // Exported API servers by cluster IP and by proxy address.
}

// Observed are the objects from which a table is built.
type Observed struct {
	Routes   []gatewayv1.TLSRoute
	Services []corev1.Service
}

// Problem is a route, or a part of one, that cannot be served.
type Problem struct {
	Route  types.NamespacedName
	Reason string
}

// BuildTable returns the table for the observed objects, and the problems of objects that were left out. With a
// non-empty gateway only routes with a parent of that name count. If two routes claim a host name, the older one gets
// it, as Gateway API requires.
func BuildTable(o Observed, gateway types.NamespacedName) (*Table, []Problem) {
	t := &Table{exact: map[string][]Backend{}, wildcard: map[string][]Backend{},
		destinations: map[Destination]Backend{}, apiServers: map[netip.Addr]Backend{}}
	services := make(map[types.NamespacedName]*corev1.Service, len(o.Services))
	for i := range o.Services {
		s := &o.Services[i]
		services[key(s)] = s
		t.export(s)
	}

	routes := make([]*gatewayv1.TLSRoute, 0, len(o.Routes))
	for i := range o.Routes {
		if attached(&o.Routes[i], gateway) {
			routes = append(routes, &o.Routes[i])
		}
	}
	slices.SortFunc(routes, func(a, b *gatewayv1.TLSRoute) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var problems []Problem
	for _, r := range routes {
		for _, reason := range t.route(r, services) {
			problems = append(problems, Problem{
				Route: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, Reason: reason,
			})
		}
	}
	return t, problems
}

func key(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// export enters a Service into the maps for CONNECT and PROXY if it is offered.
func (t *Table) export(s *corev1.Service) {
	if s.Annotations[AnnotationExport] != "*" {
		return
	}
	switch {
	case s.Name == apiServerService:
		if b, ok := backend(s, apiServerPort); ok {
			t.destinations[Destination{key(s), apiServerPort}] = b
			for _, ip := range s.Spec.ClusterIPs {
				if addr, err := netip.ParseAddr(ip); err == nil {
					t.apiServers[addr] = Backend{Service: key(s), Address: netip.AddrPortFrom(addr, apiServerPort)}
				}
			}
			t.apiServers[b.Address.Addr()] = b
			if addr, err := netip.ParseAddr(s.Annotations[AnnotationProxyAddress]); err == nil {
				t.apiServers[addr] = b
			}
		}
	case tunnelService.MatchString(s.Name):
		if b, ok := backend(s, tunnelPort); ok {
			t.destinations[Destination{key(s), tunnelPort}] = b
		}
	}
}

// route enters a TLSRoute and returns its problems.
func (t *Table) route(r *gatewayv1.TLSRoute, services map[types.NamespacedName]*corev1.Service) []string {
	var problems []string
	var backends []Backend
	for _, rule := range r.Spec.Rules {
		for _, ref := range rule.BackendRefs {
			b, problem := routeBackend(r.Namespace, ref, services)
			if problem != "" {
				problems = append(problems, problem)
			} else if ref.Weight == nil || *ref.Weight > 0 {
				backends = append(backends, b)
			}
		}
	}
	if len(backends) == 0 {
		return append(problems, "no usable backend")
	}
	if len(r.Spec.Hostnames) == 0 {
		return append(problems, "no hostnames")
	}
	for _, h := range r.Spec.Hostnames {
		name := strings.ToLower(string(h))
		names := t.exact
		if suffix, ok := strings.CutPrefix(name, "*."); ok {
			names, name = t.wildcard, "."+suffix
		}
		if other, taken := names[name]; taken {
			problems = append(problems, fmt.Sprintf("host name %s is already routed to %s", h, other[0].Service))
			continue
		}
		names[name] = backends
	}
	return problems
}

// routeBackend resolves a reference to a Service in the route's own namespace. References across namespaces would
// need grants, which this gateway does not read.
func routeBackend(
	namespace string, ref gatewayv1.BackendRef, services map[types.NamespacedName]*corev1.Service,
) (Backend, string) {
	name := types.NamespacedName{Namespace: namespace, Name: string(ref.Name)}
	switch {
	case ref.Namespace != nil && string(*ref.Namespace) != namespace:
		return Backend{}, fmt.Sprintf("backend %s/%s is in another namespace", *ref.Namespace, ref.Name)
	case ref.Group != nil && *ref.Group != "", ref.Kind != nil && *ref.Kind != "Service":
		return Backend{}, fmt.Sprintf("backend %s: unsupported kind: %q (Service)", ref.Name, groupKind(ref))
	case ref.Port == nil:
		return Backend{}, fmt.Sprintf("backend %s has no port", ref.Name)
	case services[name] == nil:
		return Backend{}, fmt.Sprintf("Service %s does not exist", name)
	}
	b, ok := backend(services[name], uint16(*ref.Port))
	if !ok {
		return Backend{}, fmt.Sprintf("Service %s has no cluster IP with port %d", name, *ref.Port)
	}
	return b, ""
}

// groupKind returns the kind of a backend, with its group unless that is the core group.
func groupKind(ref gatewayv1.BackendRef) string {
	return schema.GroupKind{
		Group: string(ptr.Deref(ref.Group, "")), Kind: string(ptr.Deref(ref.Kind, "Service")),
	}.String()
}

// backend returns the cluster address of a TCP port of a Service.
func backend(s *corev1.Service, port uint16) (Backend, bool) {
	addr, err := netip.ParseAddr(s.Spec.ClusterIP)
	if err != nil { // Headless, external name, or not allocated yet.
		return Backend{}, false
	}
	for _, p := range s.Spec.Ports {
		if p.Port == int32(port) && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			return Backend{Service: key(s), Address: netip.AddrPortFrom(addr, port)}, true
		}
	}
	return Backend{}, false
}

func attached(r *gatewayv1.TLSRoute, gateway types.NamespacedName) bool {
	if gateway.Name == "" {
		return true
	}
	return slices.ContainsFunc(r.Spec.ParentRefs, func(p gatewayv1.ParentReference) bool {
		namespace := r.Namespace
		if p.Namespace != nil {
			namespace = string(*p.Namespace)
		}
		return string(p.Name) == gateway.Name && namespace == gateway.Namespace
	})
}

// ServerName returns the backends of a server name, in the order in which to try them; nil if nothing is routed there.
// An exact name wins over a wildcard, a longer wildcard over a shorter one.
func (t *Table) ServerName(name string) []Backend {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if b, ok := t.exact[name]; ok {
		return b
	}
	for i := strings.IndexByte(name, '.'); i >= 0; {
		if b, ok := t.wildcard[name[i:]]; ok {
			return b
		}
		next := strings.IndexByte(name[i+1:], '.')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return nil
}

// Destination returns the backend a CONNECT request may reach.
func (t *Table) Destination(d Destination) (Backend, bool) {
	b, ok := t.destinations[d]
	return b, ok
}

// APIServer returns the API server whose Service has the given address.
func (t *Table) APIServer(to netip.AddrPort) (Backend, bool) {
	if to.Port() != apiServerPort {
		return Backend{}, false
	}
	b, ok := t.apiServers[to.Addr().Unmap()]
	return b, ok
}

// destination is the whole grammar of the header: two services, each with its port, in any namespace.
var destination = regexp.MustCompile(`^outbound\|(1194\|\|vpn-seed-server(?:-[0-4])?|443\|\|kube-apiserver)` +
	`\.([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)\.svc\.cluster\.local$`)

// ParseDestination reads the value of the destination header.
func ParseDestination(value string) (Destination, bool) {
	m := destination.FindStringSubmatch(value)
	if m == nil {
		return Destination{}, false
	}
	port, service, _ := strings.Cut(m[1], "||")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Destination{}, false
	}
	return Destination{Service: types.NamespacedName{Namespace: m[2], Name: service}, Port: uint16(n)}, true
}
