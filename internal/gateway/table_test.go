package gateway

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func service(namespace, name, ip string, exported bool, ports ...int32) corev1.Service {
	s := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip},
	}
	if ip != "" && ip != corev1.ClusterIPNone {
		s.Spec.ClusterIPs = []string{ip}
	}
	if exported {
		s.Annotations = map[string]string{AnnotationExport: "*"}
	}
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: p})
	}
	return s
}

func route(namespace, name string, age time.Duration, backend string, hosts ...gatewayv1.Hostname) gatewayv1.TLSRoute {
	created := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age)
	return gatewayv1.TLSRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(created)},
		Spec: gatewayv1.TLSRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{
				{Namespace: ptr.To(gatewayv1.Namespace("hortus-gateway")), Name: "gateway"}}},
			Hostnames: hosts,
			Rules: []gatewayv1.TLSRouteRule{{BackendRefs: []gatewayv1.BackendRef{{
				BackendObjectReference: gatewayv1.BackendObjectReference{
					Name: gatewayv1.ObjectName(backend), Port: ptr.To(gatewayv1.PortNumber(443)),
				}}}}},
		},
	}
}

func TestServerName(t *testing.T) {
	table, problems := BuildTable(Observed{
		Services: []corev1.Service{
			service("a", "kube-apiserver", "10.0.0.1", true, 443),
			service("b", "kube-apiserver", "10.0.0.2", true, 443),
			service("c", "web", "10.0.0.3", false, 443),
		},
		Routes: []gatewayv1.TLSRoute{
			route("b", "late", time.Hour, "kube-apiserver", "api.b.example", "api.a.example"),
			route("a", "early", 2*time.Hour, "kube-apiserver", "API.a.example"),
			route("c", "wild", time.Hour, "web", "*.example", "*.deep.example"),
		},
	}, types.NamespacedName{Namespace: "hortus-gateway", Name: "gateway"})
	for name, tc := range map[string]struct{ serverName, want string }{
		"exact name":                               {"api.b.example", "10.0.0.2:443"},
		"names have no case":                       {"API.B.Example", "10.0.0.2:443"},
		"trailing dot":                             {"api.b.example.", "10.0.0.2:443"},
		"the older route keeps its name":           {"api.a.example", "10.0.0.1:443"},
		"wildcard":                                 {"x.example", "10.0.0.3:443"},
		"wildcard over several labels":             {"x.y.example", "10.0.0.3:443"},
		"a wildcard does not match its own domain": {"example", ""},
		"unknown name":                             {"api.c.test", ""},
		"no name":                                  {"", ""},
		"part of a name":                           {"b.example.evil", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if b := table.ServerName(tc.serverName); len(b) > 0 {
				got = b[0].Address.String()
			}
			if got != tc.want {
				t.Errorf("ServerName(%q) = %q, want %q", tc.serverName, got, tc.want)
			}
		})
	}
	want := []Problem{{
		Route:  types.NamespacedName{Namespace: "b", Name: "late"},
		Reason: "host name api.a.example is already routed to a/kube-apiserver",
	}}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("problems mismatch (-want +got):\n%s", diff)
	}
}

func TestRoutesThatAreNotServed(t *testing.T) {
	services := []corev1.Service{
		service("a", "web", "10.0.0.1", false, 443), service("a", "headless", corev1.ClusterIPNone, false, 443),
		service("b", "web", "10.0.0.2", false, 443),
	}
	for name, tc := range map[string]struct {
		change func(*gatewayv1.TLSRoute)
		want   []string
	}{
		"backend in another namespace": {func(r *gatewayv1.TLSRoute) {
			r.Spec.Rules[0].BackendRefs[0].Namespace = ptr.To(gatewayv1.Namespace("b"))
		}, []string{"backend b/web is in another namespace", "no usable backend"}},
		"backend is no Service": {func(r *gatewayv1.TLSRoute) {
			r.Spec.Rules[0].BackendRefs[0].Kind = ptr.To(gatewayv1.Kind("Pod"))
		}, []string{`backend web: unsupported kind: "Pod" (Service)`, "no usable backend"}},
		"no port": {func(r *gatewayv1.TLSRoute) { r.Spec.Rules[0].BackendRefs[0].Port = nil },
			[]string{"backend web has no port", "no usable backend"}},
		"port is not in the Service": {func(r *gatewayv1.TLSRoute) {
			r.Spec.Rules[0].BackendRefs[0].Port = ptr.To(gatewayv1.PortNumber(22))
		},
			[]string{"Service a/web has no cluster IP with port 22", "no usable backend"}},
		"missing Service": {func(r *gatewayv1.TLSRoute) { r.Spec.Rules[0].BackendRefs[0].Name = "other" },
			[]string{"Service a/other does not exist", "no usable backend"}},
		"headless Service": {func(r *gatewayv1.TLSRoute) { r.Spec.Rules[0].BackendRefs[0].Name = "headless" },
			[]string{"Service a/headless has no cluster IP with port 443", "no usable backend"}},
		"weight zero": {
			func(r *gatewayv1.TLSRoute) { r.Spec.Rules[0].BackendRefs[0].Weight = ptr.To[int32](0) },
			[]string{"no usable backend"},
		},
		"no host names":           {func(r *gatewayv1.TLSRoute) { r.Spec.Hostnames = nil }, []string{"no hostnames"}},
		"another Gateway's route": {func(r *gatewayv1.TLSRoute) { r.Spec.ParentRefs[0].Name = "other" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := route("a", "r", 0, "web", "x.example")
			tc.change(&r)
			table, problems := BuildTable(Observed{Routes: []gatewayv1.TLSRoute{r}, Services: services},
				types.NamespacedName{Namespace: "hortus-gateway", Name: "gateway"})
			if b := table.ServerName("x.example"); b != nil {
				t.Errorf("ServerName() = %v, want none", b)
			}
			var got []string
			for _, p := range problems {
				got = append(got, p.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExportedServices(t *testing.T) {
	table, _ := BuildTable(Observed{Services: []corev1.Service{
		service("s1", "kube-apiserver", "10.0.0.1", true, 443),
		service("s1", "vpn-seed-server", "10.0.0.2", true, 1194, 9443),
		service("s1", "vpn-seed-server-1", "10.0.0.3", true, 1194),
		service("s2", "kube-apiserver", "10.0.0.4", false, 443),
		service("s2", "etcd-main", "10.0.0.5", true, 2379),
		service("s3", "vpn-seed-server", corev1.ClusterIPNone, true, 1194),
		service("s4", "vpn-seed-server", "10.0.0.6", true, 9443),
		service("s5", "kube-apiserver", "fd00::1", true, 443),
	}}, types.NamespacedName{})
	for value, want := range map[string]string{
		"outbound|1194||vpn-seed-server.s1.svc.cluster.local":   "10.0.0.2:1194",
		"outbound|1194||vpn-seed-server-1.s1.svc.cluster.local": "10.0.0.3:1194",
		"outbound|1194||vpn-seed-server-2.s1.svc.cluster.local": "", // No such Service.
		"outbound|443||kube-apiserver.s1.svc.cluster.local":     "10.0.0.1:443",
		"outbound|443||kube-apiserver.s2.svc.cluster.local":     "", // Not exported.
		"outbound|1194||vpn-seed-server.s3.svc.cluster.local":   "", // Headless.
		"outbound|1194||vpn-seed-server.s4.svc.cluster.local":   "", // The port is missing.
		"outbound|443||kube-apiserver.s5.svc.cluster.local":     "[fd00::1]:443",
	} {
		d, ok := ParseDestination(value)
		if !ok {
			t.Errorf("ParseDestination(%q): not accepted", value)
		}
		got := ""
		if b, ok := table.Destination(d); ok {
			got = b.Address.String()
		}
		if got != want {
			t.Errorf("Destination(%q) = %q, want %q", value, got, want)
		}
	}
	for to, want := range map[string]string{
		"10.0.0.1:443":          "10.0.0.1:443",
		"[::ffff:10.0.0.1]:443": "10.0.0.1:443",
		"[fd00::1]:443":         "[fd00::1]:443",
		"10.0.0.1:22":           "",
		"10.0.0.2:443":          "",
		"10.0.0.4:443":          "",
		"127.0.0.1:443":         "",
	} {
		got := ""
		if b, ok := table.APIServer(netip.MustParseAddrPort(to)); ok {
			got = b.Address.String()
		}
		if got != want {
			t.Errorf("APIServer(%q) = %q, want %q", to, got, want)
		}
	}
}

func TestParseDestinationRefusesEverythingElse(t *testing.T) {
	for _, value := range []string{
		"",
		"outbound|1194||vpn-seed-server.s1.svc.cluster.local ",
		"outbound|1194||vpn-seed-server.s1.svc.cluster.local\n",
		"inbound|1194||vpn-seed-server.s1.svc.cluster.local",
		"outbound|1195||vpn-seed-server.s1.svc.cluster.local",
		"outbound|443||vpn-seed-server.s1.svc.cluster.local",
		"outbound|1194||kube-apiserver.s1.svc.cluster.local",
		"outbound|1194|x|vpn-seed-server.s1.svc.cluster.local",
		"outbound|1194||vpn-seed-server-5.s1.svc.cluster.local",
		"outbound|1194||vpn-seed-server-01.s1.svc.cluster.local",
		"outbound|1194||vpn-seed-server.s1.svc.cluster.local.evil.com",
		"outbound|1194||vpn-seed-server.s1.x.svc.cluster.local",
		"outbound|1194||vpn-seed-server.S1.svc.cluster.local",
		"outbound|1194||vpn-seed-server..svc.cluster.local",
		"outbound|1194||vpn-seed-server.-a.svc.cluster.local",
		"outbound|443||kube-apiserver-0.s1.svc.cluster.local",
		"outbound|1194||evil.s1.svc.cluster.local",
		"kube-apiserver.s1.svc.cluster.local:443",
	} {
		if d, ok := ParseDestination(value); ok {
			t.Errorf("ParseDestination(%q) = %v, want refusal", value, d)
		}
	}
}
