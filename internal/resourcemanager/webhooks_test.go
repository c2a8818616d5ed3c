package resourcemanager

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/resourcemanager/webhook"
	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
	"hortus.dev/hortus/test/env"
)

// apiServerHost is the host name of the API server that pods get, and setsHost is that change.
const (
	apiServerHost = "api.a.dev.internal.example.com"
	setsHost      = "host " + apiServerHost
)

// webhookServer is a resource-manager whose webhooks the shared API server calls.
type webhookServer struct {
	stop          func()
	configuration *admissionregistrationv1.MutatingWebhookConfiguration
}

// serveWebhooks runs the resource-manager of a class with webhooks only, and registers them with the API server as a
// gardenlet does, except for the address.
func serveWebhooks(
	t *testing.T, e *env.Environment, class string, c *admissionregistrationv1.MutatingWebhookConfiguration,
) webhookServer {
	t.Helper()
	ca, err := pki.NewCA("webhooks", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Request{CommonName: "webhooks", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Usage: pki.Server})
	if err != nil {
		t.Fatal(err)
	}
	dir, port := t.TempDir(), freePort(t)
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, content := range map[string][]byte{cert: pair.CertPEM, key: pair.KeyPEM} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mgr, err := newManager(options{
		namespace: metav1.NamespaceDefault, class: class, controllers: []string{"webhooks"}, healthAddr: "0",
		metricsAddr: "0", webhookPort: port, webhookCert: cert, webhookKey: key,
		webhooks: webhook.Settings{
			SystemComponentTolerations: []corev1.Toleration{{
				Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists,
			}},
			APIServerHost: apiServerHost,
		},
	}, e.Config, e.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	s := webhookServer{configuration: c, stop: func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	}}
	t.Cleanup(s.stop)
	for i := range c.Webhooks {
		config := &c.Webhooks[i].ClientConfig
		path := ptr.Deref(config.URL, "")
		if config.Service != nil {
			path = *config.Service.Path
		}
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		u.Scheme, u.Host = "https", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		*config = admissionregistrationv1.WebhookClientConfig{URL: ptr.To(u.String()), CABundle: ca.CertPEM}
	}
	e.Create(t, c)
	return s
}

// TestEveryReplicaServesWebhooks: a replica that is not the leader has the certificate of the webhooks, too, and is
// ready.
func TestEveryReplicaServesWebhooks(t *testing.T) {
	t.Parallel()
	e := env.Shared(t)
	namespace := env.Name("replicas-")
	e.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 2)
	var leaders []<-chan struct{}
	for range cap(done) {
		port, health := freePort(t), freePort(t)
		mgr, err := newManager(options{
			namespace: namespace, class: "seed", controllers: []string{"webhooks"}, leaderElect: true, metricsAddr: "0",
			healthAddr: net.JoinHostPort("127.0.0.1", strconv.Itoa(health)), webhookPort: port,
		}, e.Config, e.Config)
		if err != nil {
			t.Fatal(err)
		}
		leaders = append(leaders, mgr.Elected())
		go func() { done <- mgr.Start(ctx) }()
		url := fmt.Sprintf("http://127.0.0.1:%d/readyz", health)
		env.Eventually(t, fmt.Sprintf("replica %d is ready", len(leaders)), func() (bool, error) {
			response, err := http.Get(url)
			if err != nil {
				return false, err
			}
			return response.StatusCode == http.StatusOK, response.Body.Close()
		})
	}
	<-leaders[0]
	select {
	case <-leaders[1]:
		t.Error("both replicas are leaders")
	default:
	}
	cancel()
	for range cap(done) {
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	}
}

// admitted is an object, and its changes in the API server.
type admitted struct {
	object client.Object
	// want describes the changes of the webhooks; empty means none, for which no webhook may be called.
	want string
}

// checkAdmission creates each object in a dry run, with the webhooks and after they have ended.
func checkAdmission(t *testing.T, e *env.Environment, server webhookServer, cases map[string]admitted) {
	t.Helper()
	create := func(tc admitted) (string, error) {
		object := tc.object.DeepCopyObject().(client.Object)
		err := e.Client.Create(t.Context(), object, client.DryRunAll)
		return changes(tc.object, object), err
	}
	for name, tc := range cases {
		// The configuration takes effect in the API server after a moment.
		env.Eventually(t, name, func() (bool, error) {
			got, err := create(tc)
			if err == nil && got != tc.want {
				err = fmt.Errorf("changed: %q, want %q", got, tc.want)
			}
			return err == nil, err
		})
	}
	server.stop()
	refused := func(err error) bool { return err != nil && strings.Contains(err.Error(), "failed calling webhook") }
	for name, tc := range cases {
		// Nothing waits for a change that is optional.
		want := tc.want != "" && !strings.HasPrefix(tc.want, "host ")
		if got, err := create(tc); refused(err) != want || !want && got != "" {
			t.Errorf("%s: without the webhooks: %q, %v", name, got, err)
		}
	}
	// Which objects the API server sends to webhooks is seen only if it may not ignore failures.
	for i := range server.configuration.Webhooks {
		server.configuration.Webhooks[i].FailurePolicy = ptr.To(admissionregistrationv1.Fail)
	}
	if err := e.Client.Update(t.Context(), server.configuration); err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		if tc.want != "" {
			env.Eventually(t, name, func() (bool, error) {
				_, err := create(tc)
				return refused(err), err
			})
		}
	}
	for name, tc := range cases {
		if got, err := create(tc); tc.want == "" && err != nil {
			t.Errorf("%s: without webhooks that change it: %q, %v", name, got, err)
		}
	}
}

// changes describes the changes of webhooks.
func changes(before, after client.Object) string {
	var out []string
	switch after := after.(type) {
	case *appsv1.Deployment:
		if got := *after.Spec.Replicas; got != *before.(*appsv1.Deployment).Spec.Replicas {
			out = append(out, fmt.Sprintf("replicas %d", got))
		}
		for _, c := range after.Spec.Template.Spec.TopologySpreadConstraints {
			out = append(out, "spread over "+c.TopologyKey)
		}
	case *appsv1.StatefulSet:
		if got := *after.Spec.Replicas; got != *before.(*appsv1.StatefulSet).Spec.Replicas {
			out = append(out, fmt.Sprintf("replicas %d", got))
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		if got := *after.Spec.MinReplicas; got != *before.(*autoscalingv2.HorizontalPodAutoscaler).Spec.MinReplicas {
			out = append(out, fmt.Sprintf("at least %d", got))
		}
	case *corev1.Pod:
		before := before.(*corev1.Pod)
		for _, v := range after.Spec.Volumes[len(before.Spec.Volumes):] {
			out = append(out, "volume "+v.Name)
		}
		if len(after.Spec.NodeSelector) > len(before.Spec.NodeSelector) {
			out = append(out, "placed")
		}
		for _, c := range after.Spec.TopologySpreadConstraints {
			if c.LabelSelector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] != "" {
				out = append(out, "spread by version")
			}
		}
		profile := func(p *corev1.Pod) string {
			if s := p.Spec.SecurityContext; s != nil && s.SeccompProfile != nil {
				return string(s.SeccompProfile.Type)
			}
			return ""
		}
		if got := profile(after); got != profile(before) {
			out = append(out, "profile "+got)
		}
		hosts := func(p *corev1.Pod) []string {
			var out []string
			for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
				for _, e := range c.Env {
					if e.Name == configuration.EnvServiceHost {
						out = append(out, e.Value)
					}
				}
			}
			return out
		}
		if got := hosts(after); !slices.Equal(got, hosts(before)) {
			out = append(out, "host "+strings.Join(got, " and "))
		}
	}
	return strings.Join(out, ", ")
}

// system is a pod of a ManagedResource in kube-system that no webhook changes.
func system(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "a", Labels: map[string]string{
			resourcesv1alpha1.LabelManagedBy: resourcesv1alpha1.ManagedByGardener,
		}},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			NodeSelector: map[string]string{corev1beta1.LabelWorkerPoolSystemComponents: "true"},
			Tolerations:  []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}},
			Containers:   []corev1.Container{{Name: "a", Image: "a"}},
		},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// deployed returns a pod of each workload that the gardenlet deploys into the namespace, by its file and name.
func deployed(t *testing.T, namespace string) map[string]*corev1.Pod {
	t.Helper()
	files, err := filepath.Glob("../component/*/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*corev1.Pod{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "---\n") {
			d := &appsv1.StatefulSet{} // The relevant fields are the same in Deployments and DaemonSets.
			if err := yaml.Unmarshal([]byte(document), d); err != nil {
				continue // Another object, which has no pods.
			}
			pod := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
			if d.Namespace != namespace || len(pod.Spec.Containers) == 0 {
				continue
			}
			pod.Namespace, pod.Name, pod.Spec.PriorityClassName = namespace, d.Name, ""
			for _, claim := range d.Spec.VolumeClaimTemplates {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name})
			}
			if d.Kind == "Deployment" {
				pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "1"
			}
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: d.Kind, Name: d.Name, UID: "a", Controller: ptr.To(true),
			}}
			out[file+", "+d.Name] = pod
		}
	}
	if len(out) < 3 {
		t.Fatalf("pods in %s: %v, want several", namespace, slices.Sorted(maps.Keys(out)))
	}
	return out
}

// deployment has one replica.
func deployment(namespace string, labels map[string]string) *appsv1.Deployment {
	own := map[string]string{"app": "a"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: env.Name("d"), Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: own},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: own},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			},
		},
	}
}

func withoutProfile(p *corev1.Pod) { p.Spec.SecurityContext = nil }

// spreadPods has a constraint, of pods of a Deployment.
func spreadPods(p *corev1.Pod) {
	p.Labels = maps.Clone(p.Labels)
	metav1.SetMetaDataLabel(&p.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, "1")
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
	}}
}

// resolves has a pod use the name servers of its node.
func resolves(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSDefault }

func nowhere(p *corev1.Pod) { p.Spec.NodeSelector, p.Spec.Tolerations = nil, nil }

func TestWebhooksOfAShoot(t *testing.T) {
	e := env.Shared(t)
	server := serveWebhooks(t, e, "", configuration.ForShoot(nil))
	e.Create(t, &corev1.ServiceAccount{
		ObjectMeta:                   metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "frugal"},
		AutomountServiceAccountToken: ptr.To(false),
	})
	frugal := func(p *corev1.Pod) { p.Spec.ServiceAccountName = "frugal" }
	cases := map[string]admitted{
		"a pod that has all":               {object: system(nil)},
		"a pod whose account has no token": {system(frugal), "volume kube-api-access-gardener"},
		"a pod that disables the token": {object: system(func(p *corev1.Pod) {
			frugal(p)
			p.Spec.AutomountServiceAccountToken = ptr.To(false)
		})},
		"a pod without a seccomp profile": {system(withoutProfile), "profile RuntimeDefault"},
		"a privileged pod without a profile": {object: system(func(p *corev1.Pod) {
			withoutProfile(p)
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		})},
		"a privileged init container without a profile": {system(func(p *corev1.Pod) {
			withoutProfile(p)
			p.Spec.InitContainers = []corev1.Container{{Name: "b", Image: "b",
				SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}}
		}), "profile RuntimeDefault"},
		"a pod without a place":  {system(nowhere), "placed"},
		"a pod with constraints": {system(spreadPods), "spread by version"},
		"a pod with constraints but not of a Deployment": {object: system(func(p *corev1.Pod) {
			spreadPods(p)
			delete(p.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		})},
		"a pod without a place that is skipped": {object: system(func(p *corev1.Pod) {
			nowhere(p)
			p.Labels[configuration.LabelSkipSystemComponents] = "true"
		})},
		"a pod of a DaemonSet": {object: system(func(p *corev1.Pod) {
			nowhere(p)
			p.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "DaemonSet", Name: "a", UID: "a", Controller: ptr.To(true),
			}}
		})},
		"a pod that is skipped": {object: system(func(p *corev1.Pod) {
			withoutProfile(p)
			frugal(p)
			p.Labels[configuration.LabelSkipSeccomp], p.Labels[configuration.LabelSkipTokenMount] = "true", ""
		})},
		"a pod that uses the name servers of its node": {system(resolves), setsHost},
		"a pod on the network of its node": {system(func(p *corev1.Pod) {
			p.Spec.DNSPolicy, p.Spec.HostNetwork = corev1.DNSClusterFirst, true
		}), setsHost},
		"an init container with a host of its own": {system(func(p *corev1.Pod) {
			resolves(p)
			p.Spec.InitContainers = []corev1.Container{{Name: "b", Image: "b", Env: []corev1.EnvVar{
				{Name: configuration.EnvServiceHost, Value: "own"},
			}}}
		}), "host own and " + apiServerHost},
		"a pod that has a host": {object: system(func(p *corev1.Pod) {
			resolves(p)
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: configuration.EnvServiceHost, Value: "own"}}
		})},
		"a pod with variables of a ConfigMap": {object: system(func(p *corev1.Pod) {
			resolves(p)
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "a"},
			}}}
		})},
		"a pod that uses the cluster's DNS": {object: system(func(p *corev1.Pod) {
			p.Spec.DNSPolicy, p.Spec.HostNetwork = corev1.DNSClusterFirstWithHostNet, true
		})},
		"a pod that keeps the Service kubernetes": {object: system(func(p *corev1.Pod) {
			resolves(p)
			p.Labels[configuration.LabelServiceHost] = configuration.ServiceHostDisabled
		})},
		"a pod without a profile that uses the name servers of its node": {system(func(p *corev1.Pod) {
			withoutProfile(p)
			resolves(p)
		}), "profile RuntimeDefault, " + setsHost},
		"a pod of a user in kube-system that uses the name servers of its node": {object: system(func(p *corev1.Pod) {
			resolves(p)
			p.Labels = nil
		})},
		"a pod in another namespace that uses the name servers of its node": {object: system(func(p *corev1.Pod) {
			resolves(p)
			p.Namespace = metav1.NamespaceDefault
		})},
		"a pod of a user in kube-system": {object: system(func(p *corev1.Pod) { withoutProfile(p); p.Labels = nil })},
		"a pod in another namespace": {object: system(func(p *corev1.Pod) {
			withoutProfile(p)
			p.Namespace = metav1.NamespaceDefault
		})},
	}
	for name, pod := range deployed(t, metav1.NamespaceSystem) {
		pod.Labels[resourcesv1alpha1.LabelManagedBy] = resourcesv1alpha1.ManagedByGardener
		cases[name] = admitted{pod, setsHost} // And nothing that they do not start without.
	}
	checkAdmission(t, e, server, cases)
}

func TestWebhooksOfASeed(t *testing.T) {
	e := env.Shared(t)
	server := serveWebhooks(t, e, resourcesv1alpha1.ClassSeed, configuration.ForSeed("garden", nil))
	in := func(role string, change func(*corev1.Pod)) *corev1.Pod {
		namespace := e.Namespace(t, map[string]string{corev1beta1.LabelRole: role}).Name
		e.Create(t, &corev1.ServiceAccount{
			ObjectMeta:                   metav1.ObjectMeta{Namespace: namespace, Name: "frugal"},
			AutomountServiceAccountToken: ptr.To(false),
		})
		return system(func(p *corev1.Pod) {
			p.Namespace, p.Labels = namespace, nil
			p.Spec.ServiceAccountName = "frugal"
			p.Spec.AutomountServiceAccountToken = ptr.To(false)
			change(p)
		})
	}
	tolerant := e.Namespace(t, map[string]string{
		corev1beta1.LabelRole: corev1beta1.RoleShoot, resourcesv1alpha1.LabelHighAvailabilityConsider: "true",
	})
	tolerant.Annotations = map[string]string{
		resourcesv1alpha1.AnnotationHighAvailabilityFailureTolerance: "zone",
		resourcesv1alpha1.AnnotationHighAvailabilityZones:            "a,b,c",
	}
	if err := e.Client.Update(t.Context(), tolerant); err != nil {
		t.Fatal(err)
	}
	labelled := map[string]string{resourcesv1alpha1.LabelHighAvailabilityType: resourcesv1alpha1.HighAvailabilityServer}
	token := func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }
	existing := deployment(tolerant.Name, nil)
	e.Create(t, existing)
	env.Eventually(t, "an update that makes it a server", func() (bool, error) {
		existing.Labels, existing.Spec.Replicas = labelled, ptr.To(int32(1))
		err := e.Client.Update(t.Context(), existing, client.DryRunAll)
		return err == nil && *existing.Spec.Replicas == 2, err
	})
	cases := map[string]admitted{
		"a server": {deployment(tolerant.Name, labelled),
			"replicas 2, spread over kubernetes.io/hostname, spread over topology.kubernetes.io/zone"},
		"a StatefulSet": {&appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: tolerant.Name, Name: "b", Labels: labelled},
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To(int32(1)), Selector: existing.Spec.Selector, Template: existing.Spec.Template,
			},
		}, "replicas 2"},
		"an autoscaler": {&autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: tolerant.Name, Name: "c", Labels: labelled},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				MinReplicas: ptr.To(int32(1)), MaxReplicas: 1,
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "c"},
			},
		}, "at least 2"},
		"a workload without label":                           {object: deployment(tolerant.Name, nil)},
		"a server in another namespace":                      {object: deployment(metav1.NamespaceDefault, labelled)},
		"a pod of an extension whose account has no token":   {in(corev1beta1.RoleExtension, token), "volume kube-api-access-gardener"},
		"a pod of a control plane with constraints":          {in(corev1beta1.RoleShoot, spreadPods), "spread by version"},
		"a pod of a control plane without a seccomp profile": {in(corev1beta1.RoleShoot, withoutProfile), "profile RuntimeDefault"},
		"a pod of the garden": {object: in(corev1beta1.RoleGarden, func(p *corev1.Pod) {
			token(p)
			withoutProfile(p)
		})},
	}
	cases["a pod of an extension that uses the name servers of its node"] = admitted{
		object: in(corev1beta1.RoleExtension, resolves),
	}
	for name, pod := range deployed(t, "shoot--dev--a") {
		pod.Namespace = tolerant.Name
		cases[name] = admitted{object: pod}
	}
	checkAdmission(t, e, server, cases)
}

// freePort is an unused port of this machine.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
