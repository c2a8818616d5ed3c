package kubeapiserver

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/internal/component/vpnseedserver"
)

// healthPaths can be requested without credentials, because the kubelet of the seed has none for the Shoot.
var healthPaths = []string{"/livez", "/readyz", "/healthz"}

//go:embed audit-policy.yaml
var auditPolicyFile string

// defaultAuditPolicy is for Shoots without one.
func defaultAuditPolicy() string {
	return strings.Replace(auditPolicyFile, "${UNLOGGED_USERS}", strings.Join(unloggedUsers(), "\n  - "), 1)
}

// configFiles renders the files of the ConfigMap.
func configFiles(v Values) (map[string]string, error) {
	authentication, err := authenticationConfiguration(v)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationConfiguration(v)
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		keyAuthentication: authentication, keyAudit: v.AuditPolicy, keyEgress: egressSelectorConfiguration(),
	}
	if v.AuditPolicy == "" {
		files[keyAudit] = defaultAuditPolicy()
	}
	if authorization != "" {
		files[keyAuthorization] = authorization
	}
	if plugins := admissionConfiguration(v); plugins != "" {
		files[keyAdmission] = plugins
	}
	return files, nil
}

// authenticationConfiguration is the user's with anonymous access to health checks added, unless the user has decided
// about anonymous access, and with the way to the issuers of tokens.
func authenticationConfiguration(v Values) (string, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(v.Authentication), &config); err != nil {
		return "", fmt.Errorf("read the Shoot's AuthenticationConfiguration: %w", err)
	}
	if len(config) == 0 {
		config = map[string]any{"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration"}
	}
	if _, ok := config["anonymous"]; !ok {
		anonymous := map[string]any{"enabled": true}
		if !isTrue(v.spec().EnableAnonymousAuthentication) {
			var conditions []any
			for _, p := range healthPaths {
				conditions = append(conditions, map[string]any{"path": p})
			}
			anonymous["conditions"] = conditions
		}
		config["anonymous"] = anonymous
	}
	selectEgress(config)
	return marshal(config), nil
}

// selectEgress makes the server reach issuers of tokens through the tunnel server; without a selector the server dials
// them itself, even addresses in the seed. A selector that the user has set stays, since all of them lead through the
// tunnel server. All API versions of the configuration have the field.
func selectEgress(config map[string]any) {
	authenticators, _ := config["jwt"].([]any)
	for _, a := range authenticators {
		authenticator, _ := a.(map[string]any)
		issuer, ok := authenticator["issuer"].(map[string]any)
		if !ok {
			continue // The server rejects it with a better message.
		}
		if selector, _ := issuer["egressSelectorType"].(string); selector == "" {
			issuer["egressSelectorType"] = "controlplane"
		}
	}
}

// admissionConfiguration carries the configuration of the plugins that have one, or is "".
func admissionConfiguration(v Values) string {
	var plugins []any
	for _, p := range v.spec().AdmissionPlugins {
		if p.Config == nil || isTrue(p.Disabled) {
			continue
		}
		plugins = append(plugins, map[string]any{"name": p.Name, "configuration": object(p.Config)})
	}
	if len(plugins) == 0 {
		return ""
	}
	return marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins,
	})
}

// egressSelectorConfiguration sends all connections with user-defined destinations through the tunnel server: those to
// nodes, pods and services of the Shoot, and those to URLs of webhooks and issuers of tokens. Only etcd is reached
// directly.
func egressSelectorConfiguration() string {
	through := func(port int) map[string]any {
		return map[string]any{"proxyProtocol": "HTTPConnect", "transport": map[string]any{"tcp": map[string]any{
			"url": fmt.Sprintf("https://%s:%d", vpnseedserver.Name, port),
			"tlsConfig": map[string]any{
				"caBundle":   pathVPNCA + "/bundle.crt",
				"clientCert": pathVPNClient + "/tls.crt",
				"clientKey":  pathVPNClient + "/tls.key",
			},
		}}}
	}
	// The group has no "config" in its name, unlike those of its neighbours; the server exits on the other spelling.
	return marshal(map[string]any{
		"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
		"egressSelections": []any{
			map[string]any{"name": "cluster", "connection": through(vpnseedserver.ProxyPort)},
			map[string]any{"name": "controlplane", "connection": through(vpnseedserver.EgressPort)},
			map[string]any{"name": "etcd", "connection": map[string]any{"proxyProtocol": "Direct"}},
		},
	})
}

// object is raw JSON as a value to be marshalled again.
func object(raw *runtime.RawExtension) any {
	var value any
	if err := yaml.Unmarshal(raw.Raw, &value); err != nil {
		return nil // The API server of the garden accepts only JSON objects.
	}
	return value
}

func marshal(value any) string {
	out, err := yaml.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("kubeapiserver: marshal %v: %v", value, err)) // Maps of plain values.
	}
	return string(out)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func isTrue(b *bool) bool { return b != nil && *b }
