//go:build landscape

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"hortus.dev/hortus/test/specs"
)

const asAdmin = " [Privileged:ClusterAdmin] "

// selectedSpecs are specs of Kubernetes, by the prefix of their names, that take seconds each. Together they use every
// connection into a Shoot and out of it, and each part of a Shoot; 'make conformance' runs all specs.
var selectedSpecs = []struct{ shows, sig, spec string }{
	{"commands in pods", "node", "Pods should support remote command execution over websockets"},
	{"logs of pods", "node", "Pods should support retrieving logs from the container over websockets"},
	{"logs by kubectl", "cli", "Kubectl logs logs should be able to retrieve and filter logs"},
	{
		"forwarded ports", "cli",
		"Kubectl Port forwarding With a server listening on localhost should support forwarding over websockets",
	},
	{
		"the proxy to pods and Services", "network",
		"Proxy version v1 A set of valid responses are returned for both pod and service Proxy [Conformance]",
	},
	{"webhooks that refuse", "api-machinery", "AdmissionWebhook" + asAdmin + "should deny crd creation"},
	{"webhooks that change", "api-machinery", "AdmissionWebhook" + asAdmin + "should mutate configmap"},
	{
		"webhooks that convert", "api-machinery",
		"CustomResourceConversionWebhook" + asAdmin + "should be able to convert from CR v1 to CR v2",
	},
	{
		"an aggregated API", "api-machinery",
		"Aggregator Should be able to support the 1.17 Sample API Server using the current Aggregator",
	},
	{
		"custom resources", "api-machinery",
		"CustomResourceDefinition resources" + asAdmin +
			"Simple CustomResourceDefinition listing custom resource definition objects works",
	},
	{
		"pods that ask their API server", "auth",
		"ServiceAccounts ServiceAccountIssuerDiscovery should support OIDC discovery of service account issuer",
	},
	{"tokens of pods", "auth", "ServiceAccounts should mount an API token into pods"},
	{"certificates of users", "auth", "Certificates API" + asAdmin + "should support CSR API operations"},
	{"the address of the API server", "network",
		"API Server should have Endpoints and EndpointSlices pointing to API Server"},
	{"names of Services", "network", "DNS should provide DNS for the cluster [Conformance]"},
	{"Services", "network", "Services should serve multiport endpoints from pods"},
	{"ports of nodes", "network", "Services should be able to change the type from ExternalName to NodePort"},
	{"pods of other nodes", "network",
		"Networking Granular Checks: Pods should function for intra-pod communication: http"},
	{"projected volumes", "storage", "Projected combined should project all components that make up the projection API"},
	{
		"secrets in volumes", "storage",
		"Secrets should be consumable from pods in volume as non-root with defaultMode and fsGroup set",
	},
	{"volumes in memory", "storage", "EmptyDir volumes should support (non-root,0666,tmpfs)"},
	{
		"StatefulSets", "apps",
		"StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should validate Statefulset Status endpoints",
	},
	{"Deployments", "apps", "Deployment RollingUpdateDeployment should delete old pods and create new ones"},
	{"Jobs", "apps", "Job should delete a job"},
	{"garbage collection", "api-machinery", "Garbage collector should delete RS created by deployment when not orphaning"},
	{"quotas", "api-machinery",
		"ResourceQuota should create a ResourceQuota and ensure its status is promptly calculated."},
	{"init containers", "node", "InitContainer [NodeConformance] should invoke init containers on a RestartNever pod"},
	{"ephemeral containers", "node",
		"Ephemeral Containers [NodeConformance] will start an ephemeral container in an existing pod"},
	{
		"users of containers", "node",
		"Security Context should support pod.Spec.SecurityContext.RunAsUser And pod.Spec.SecurityContext.RunAsGroup",
	},
	{
		"parameters of the kernel", "node",
		"Sysctls [LinuxOnly] [NodeConformance] should support sysctls [Environment:NotInUserNS] [Conformance]",
	},
	{"limits by default", "scheduling", "LimitRange should list, patch and delete a LimitRange by collection"},
	{"events", "instrumentation", "Events API should delete a collection of events"},
}

// TestConformanceSelection runs some of Kubernetes' specs on a Shoot of two nodes, alongside other stories.
func TestConformanceSelection(t *testing.T) {
	story(t, firstSeed)
	const name = "selection"
	applyShootOn(t, "shoot-two-pools.yaml", name, "local-1")
	buildSpecs(t, exampleKubernetes)
	awaitSucceeded(t, name)
	var names []string
	for _, s := range selectedSpecs {
		names = append(names, regexp.QuoteMeta("[sig-"+s.sig+"] "+s.spec))
	}
	results := runSpecs(t, name, specRun{focus: strings.Join(names, "|"), side: 4})
	for _, s := range selectedSpecs {
		passed := 0
		for _, r := range results {
			if r.State == specs.Passed && strings.HasPrefix(r.Name, "[sig-"+s.sig+"] "+s.spec) {
				passed++
			}
		}
		if passed != 1 {
			t.Errorf("%s: %d passed of the specs of sig-%s that begin with %q, want 1", s.shows, passed, s.sig, s.spec)
		}
	}
}
