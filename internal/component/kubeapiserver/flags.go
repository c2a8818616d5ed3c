package kubeapiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// shutdownDelay is how long a server that is shutting down serves new connections: the Service's endpoints reach all
// proxies of a seed within a second or two, or three if the seed is busy.
const shutdownDelay = "5s"

// defaultPlugins are switched on besides the server's own defaults. NodeRestriction keeps a kubelet to its own objects.
var defaultPlugins = []string{"NodeRestriction"}

func (v Values) spec() corev1beta1.KubeAPIServerConfig {
	if v.Config == nil {
		return corev1beta1.KubeAPIServerConfig{}
	}
	return *v.Config
}

// flags renders the command line, in a fixed order. files are the configuration files that exist.
func flags(v Values, files map[string]string) []string {
	spec := v.spec()
	f := []string{
		"--advertise-address=" + v.AdvertiseIP,
		"--allow-privileged=true",
		// Standard output, apart from the server's own messages: the seed keeps, rotates and collects it like other logs.
		"--audit-log-path=-",
		"--audit-policy-file=" + pathConfig + "/" + keyAudit,
		"--authentication-config=" + pathConfig + "/" + keyAuthentication,
		authorizationFlag(files),
		"--bind-address=0.0.0.0",
		"--client-ca-file=" + pathClientCA + "/bundle.crt",
		"--egress-selector-config-file=" + pathConfig + "/" + keyEgress,
		"--enable-aggregator-routing=true",
		"--enable-bootstrap-token-auth=true",
		"--encryption-provider-config=" + pathEncryption + "/" + KeyEncryption,
		"--etcd-cafile=" + pathEtcdCA + "/bundle.crt",
		"--etcd-certfile=" + pathEtcdClient + "/tls.crt",
		"--etcd-keyfile=" + pathEtcdClient + "/tls.key",
		"--etcd-servers=" + etcdURLs(v),
		"--profiling=false",
		"--proxy-client-cert-file=" + pathAggregator + "/tls.crt",
		"--proxy-client-key-file=" + pathAggregator + "/tls.key",
		"--requestheader-allowed-names=system:kube-aggregator",
		"--requestheader-client-ca-file=" + pathFrontProxyCA + "/bundle.crt",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		fmt.Sprintf("--secure-port=%d", Port),
		"--service-account-issuer=" + v.Issuer,
	}
	for _, issuer := range v.AcceptedIssuers {
		f = append(f, "--service-account-issuer="+issuer)
	}
	f = append(f,
		"--service-account-key-file="+pathKeyBundle+"/bundle.key",
		"--service-account-signing-key-file="+pathServiceAccount+"/id_rsa",
		"--service-cluster-ip-range="+v.ServiceCIDR,
		// New connections keep coming until all clients have noticed the shutdown; until then none is refused.
		"--shutdown-delay-duration="+shutdownDelay,
		"--shutdown-send-retry-after=true",
		"--tls-cert-file="+pathServer+"/tls.crt",
		"--tls-private-key-file="+pathServer+"/tls.key",
	)
	if v.ExternalHost != "" {
		f = append(f, "--external-hostname="+v.ExternalHost)
	}
	if v.Workers {
		f = append(f,
			"--kubelet-certificate-authority="+pathKubeletCA+"/bundle.crt",
			"--kubelet-client-certificate="+pathKubeletClient+"/tls.crt",
			"--kubelet-client-key="+pathKubeletClient+"/tls.key",
			"--kubelet-preferred-address-types=InternalIP,Hostname,ExternalIP",
		)
	}
	if v.Replicas > 1 {
		f = append(f, "--goaway-chance=0.001") // Spreads long-lived connections over the replicas again.
	}
	f = append(f, pluginFlags(spec, files)...)
	return append(f, specFlags(spec)...)
}

// authorizationFlag: a file and modes exclude each other.
func authorizationFlag(files map[string]string) string {
	if files[keyAuthorization] != "" {
		return "--authorization-config=" + pathConfig + "/" + keyAuthorization
	}
	return "--authorization-mode=Node,RBAC"
}

func pluginFlags(spec corev1beta1.KubeAPIServerConfig, files map[string]string) []string {
	enabled := slices.Clone(defaultPlugins)
	var disabled, f []string
	for _, p := range spec.AdmissionPlugins {
		if isTrue(p.Disabled) {
			disabled = append(disabled, p.Name)
			enabled = slices.DeleteFunc(enabled, func(name string) bool { return name == p.Name })
		} else if !slices.Contains(enabled, p.Name) {
			enabled = append(enabled, p.Name)
		}
	}
	slices.Sort(enabled)
	slices.Sort(disabled)
	if len(enabled) > 0 {
		f = append(f, "--enable-admission-plugins="+strings.Join(enabled, ","))
	}
	if len(disabled) > 0 {
		f = append(f, "--disable-admission-plugins="+strings.Join(disabled, ","))
	}
	if files[keyAdmission] != "" {
		f = append(f, "--admission-control-config-file="+pathConfig+"/"+keyAdmission)
	}
	return f
}

// specFlags are those that mirror a field of the Shoot; a field that is not set leaves the server's default.
func specFlags(spec corev1beta1.KubeAPIServerConfig) []string {
	audiences := append([]string{"kubernetes", "gardener"}, spec.APIAudiences...)
	f := []string{"--api-audiences=" + strings.Join(unique(audiences), ",")}
	if spec.DefaultNotReadyTolerationSeconds != nil {
		f = append(f, fmt.Sprintf("--default-not-ready-toleration-seconds=%d", *spec.DefaultNotReadyTolerationSeconds))
	}
	if spec.DefaultUnreachableTolerationSeconds != nil {
		f = append(f, fmt.Sprintf("--default-unreachable-toleration-seconds=%d", *spec.DefaultUnreachableTolerationSeconds))
	}
	if spec.EventTTL != nil {
		f = append(f, "--event-ttl="+spec.EventTTL.Duration.String())
	}
	if len(spec.FeatureGates) > 0 {
		f = append(f, "--feature-gates="+boolMap(withIssuerEgress(spec.FeatureGates)))
	}
	if len(spec.RuntimeConfig) > 0 {
		f = append(f, "--runtime-config="+boolMap(spec.RuntimeConfig))
	}
	if r := spec.Requests; r != nil {
		if r.MaxNonMutatingInflight != nil {
			f = append(f, fmt.Sprintf("--max-requests-inflight=%d", *r.MaxNonMutatingInflight))
		}
		if r.MaxMutatingInflight != nil {
			f = append(f, fmt.Sprintf("--max-mutating-requests-inflight=%d", *r.MaxMutatingInflight))
		}
	}
	if s := spec.ServiceAccountConfig; s != nil {
		if s.ExtendTokenExpiration != nil {
			f = append(f, fmt.Sprintf("--service-account-extend-token-expiration=%t", *s.ExtendTokenExpiration))
		}
		if s.MaxTokenExpiration != nil {
			f = append(f, "--service-account-max-token-expiration="+s.MaxTokenExpiration.Duration.String())
		}
	}
	if spec.TLSMinVersion != nil {
		f = append(f, fmt.Sprintf("--tls-min-version=%s", *spec.TLSMinVersion))
	}
	if w := spec.WatchCacheSizes; w != nil {
		if w.Default != nil {
			f = append(f, fmt.Sprintf("--default-watch-cache-size=%d", *w.Default))
		}
		var sizes []string
		for _, r := range w.Resources {
			name := r.Resource
			if r.APIGroup != nil && *r.APIGroup != "" {
				name += "." + *r.APIGroup
			}
			sizes = append(sizes, fmt.Sprintf("%s#%d", name, r.CacheSize))
		}
		if len(sizes) > 0 {
			f = append(f, "--watch-cache-sizes="+strings.Join(sizes, ","))
		}
	}
	if l := spec.Logging; l != nil {
		if l.Verbosity != nil {
			f = append(f, fmt.Sprintf("--v=%d", *l.Verbosity))
		}
		if l.HTTPAccessVerbosity != nil {
			f = append(f, fmt.Sprintf("--vmodule=httplog=%d", *l.HTTPAccessVerbosity))
		}
	}
	return f
}

// gateIssuerEgress is the feature that lets issuers of tokens have an egress selector: on by default since 1.34, the
// oldest supported version.
const gateIssuerEgress = "StructuredAuthenticationConfigurationEgressSelector"

// withIssuerEgress keeps that feature on: without it the server would refuse its configuration.
func withIssuerEgress(gates map[string]bool) map[string]bool {
	_, named := gates[gateIssuerEgress]
	if _, all := gates["AllBeta"]; !named && !all {
		return gates
	}
	gates = maps.Clone(gates)
	gates[gateIssuerEgress] = true
	return gates
}

func boolMap(m map[string]bool) string {
	var parts []string
	for _, k := range sortedKeys(m) {
		parts = append(parts, fmt.Sprintf("%s=%t", k, m[k]))
	}
	return strings.Join(parts, ",")
}

// unique drops repetitions and keeps the order.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
