package test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

const (
	auditPolicy    = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n"
	authentication = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: "https://idp.example.org", audiences: [me]}
  claimMappings: {username: {claim: sub, prefix: ""}}
`
	authorization = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: mine
  webhook: {timeout: 3s, failurePolicy: Deny, subjectAccessReviewVersion: v1, authorizedTTL: 1s, unauthorizedTTL: 1s}
`
	webhookKubeconfig = `apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://webhook.example.org"}}]
users: [{name: a, user: {token: t}}]
`
)

// files are a user's objects in the project for API servers.
type files struct {
	policy, authentication, authorization *corev1.ConfigMap
	kubeconfig                            *corev1.Secret
}

// newShootWithFiles creates a Shoot that refers to files.
func (w *world) newShootWithFiles() (*corev1beta1.Shoot, files) {
	w.t.Helper()
	configMap := func(key, content string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: env.Name("file-")},
			Data:       map[string]string{key: content},
		}
	}
	f := files{
		configMap("policy", auditPolicy), configMap("config.yaml", authentication), configMap("config.yaml", authorization),
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: env.Name("kubeconfig-")},
			Data:       map[string][]byte{"kubeconfig": []byte(webhookKubeconfig)},
		},
	}
	w.Create(w.t, f.policy, f.authentication, f.authorization, f.kubeconfig)
	s := w.newShoot()
	before := s.DeepCopy()
	s.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{
		AuditConfig: &corev1beta1.AuditConfig{
			AuditPolicy: &corev1beta1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: f.policy.Name}},
		},
		StructuredAuthentication: &corev1beta1.StructuredAuthentication{ConfigMapName: f.authentication.Name},
		StructuredAuthorization: &corev1beta1.StructuredAuthorization{
			ConfigMapName: f.authorization.Name,
			Kubeconfigs:   []corev1beta1.AuthorizerKubeconfigReference{{AuthorizerName: "mine", SecretName: f.kubeconfig.Name}},
		},
	}
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	return s, f
}

// mounted returns the objects that the pods of the Shoot's API server mount at a path.
func (w *world) mounted(s *corev1beta1.Shoot, path string) (name string, data map[string]string) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "kube-apiserver"}, d))
	spec, data := d.Spec.Template.Spec, map[string]string{}
	for _, mount := range spec.Containers[0].VolumeMounts {
		if mount.MountPath != path {
			continue
		}
		volume := spec.Volumes[slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })]
		if source := volume.Secret; source != nil {
			secret := &corev1.Secret{}
			w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: d.Namespace, Name: source.SecretName}, secret))
			for key, value := range secret.Data {
				data[key] = string(value)
			}
			return secret.Name, data
		}
		configMap := &corev1.ConfigMap{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: d.Namespace, Name: volume.ConfigMap.Name}, configMap))
		return configMap.Name, configMap.Data
	}
	return "", data
}

const pathConfig = "/etc/kubernetes/config"

func TestFilesOfTheUserReachTheAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, f := w.newShootWithFiles()
	s = w.run(s, succeeded)

	first, data := w.mounted(s, pathConfig)
	if data["audit-policy.yaml"] != auditPolicy {
		t.Errorf("audit policy:\n%s", data["audit-policy.yaml"])
	}
	if !strings.Contains(data["authentication.yaml"], "https://idp.example.org") {
		t.Errorf("authentication:\n%s", data["authentication.yaml"])
	}
	_, kubeconfigs := w.mounted(s, "/etc/kubernetes/authorization")
	if !strings.Contains(data["authorization.yaml"], "/etc/kubernetes/authorization/mine.kubeconfig") ||
		kubeconfigs["mine.kubeconfig"] != webhookKubeconfig {
		t.Errorf("authorization:\n%s\nkubeconfigs: %v", data["authorization.yaml"], kubeconfigs)
	}

	t.Run("a change with the next reconciliation", func(t *testing.T) {
		f.policy.Data["policy"] = strings.Replace(auditPolicy, "Request", "Metadata", 1)
		w.must(w.Client.Update(w.ctx, f.policy))
		w.clock.Step(time.Hour)
		w.seedActs(s)
		s = w.run(s, succeeded)
		second, data := w.mounted(s, pathConfig)
		if second == first || data["audit-policy.yaml"] != f.policy.Data["policy"] {
			t.Errorf("ConfigMap %s after %s has the policy\n%s", second, first, data["audit-policy.yaml"])
		}
		// Servers that have not been replaced yet keep their configuration.
		old := &corev1.ConfigMap{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: first}, old))
		if !ptr.Deref(old.Immutable, false) || old.Data["audit-policy.yaml"] != auditPolicy {
			t.Errorf("the previous ConfigMap has the policy\n%s", old.Data["audit-policy.yaml"])
		}
	})
	t.Run("no more files", func(t *testing.T) {
		before := s.DeepCopy()
		s.Spec.Kubernetes.KubeAPIServer.AuditConfig, s.Spec.Kubernetes.KubeAPIServer.StructuredAuthorization = nil, nil
		w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
		s = w.run(s, succeeded)
		if _, data := w.mounted(s, pathConfig); data["authorization.yaml"] != "" || data["audit-policy.yaml"] == "" ||
			data["audit-policy.yaml"] == f.policy.Data["policy"] {
			t.Errorf("files of the server: %v", data)
		}
		if name, _ := w.mounted(s, "/etc/kubernetes/authorization"); name != "" {
			t.Errorf("the server still mounts %s", name)
		}
	})
}

func TestBrokenFilesOfTheUserAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, f := w.newShootWithFiles()
	s = w.run(s, succeeded)
	good, _ := w.mounted(s, pathConfig)
	host := s.Status.AdvertisedAddresses[slices.IndexFunc(s.Status.AdvertisedAddresses,
		func(a corev1beta1.ShootAdvertisedAddress) bool { return a.Name == "service-account-issuer" })].URL

	for _, tc := range []struct {
		name        string
		do, undo    func()
		field, text string
	}{
		{
			"a policy without rules",
			func() {
				f.policy.Data["policy"] = strings.Replace(auditPolicy, "{level: Request}", "", 1)
				w.must(w.Client.Update(w.ctx, f.policy))
			},
			func() { f.policy.Data["policy"] = auditPolicy; w.must(w.Client.Update(w.ctx, f.policy)) },
			"auditConfig.auditPolicy.configMapRef.name", "0 rules",
		},
		{
			"the cluster's own issuer",
			func() {
				f.authentication.Data["config.yaml"] = strings.Replace(authentication, "https://idp.example.org", host, 1)
				w.must(w.Client.Update(w.ctx, f.authentication))
			},
			func() {
				f.authentication.Data["config.yaml"] = authentication
				w.must(w.Client.Update(w.ctx, f.authentication))
			},
			"structuredAuthentication.configMapName", "disallowed issuers",
		},
		{
			"a kubeconfig that runs a program",
			func() {
				f.kubeconfig.Data["kubeconfig"] = []byte(strings.Replace(webhookKubeconfig, "token: t",
					"exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}", 1))
				w.must(w.Client.Update(w.ctx, f.kubeconfig))
			},
			func() {
				f.kubeconfig.Data["kubeconfig"] = []byte(webhookKubeconfig)
				w.must(w.Client.Update(w.ctx, f.kubeconfig))
			},
			"structuredAuthorization.kubeconfigs[0].secretName", "exec",
		},
		{
			"a deleted ConfigMap",
			func() { w.must(w.Client.Delete(w.ctx, f.authorization)) },
			func() {
				f.authorization.ObjectMeta = metav1.ObjectMeta{Namespace: f.authorization.Namespace, Name: f.authorization.Name}
				w.must(w.Client.Create(w.ctx, f.authorization))
			},
			"structuredAuthorization.configMapName", "Not found",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.do()
			w.clock.Step(time.Hour)
			w.seedActs(s)
			s = w.run(s, func(s *corev1beta1.Shoot) bool {
				return s.Status.LastOperation.State == corev1beta1.LastOperationStateFailed
			})
			e := s.Status.LastErrors[0]
			if len(s.Status.LastErrors) != 1 || ptr.Deref(e.TaskID, "") != "kube-apiserver" ||
				!slices.Equal(e.Codes, []corev1beta1.ErrorCode{corev1beta1.ErrorConfigurationProblem}) {
				t.Errorf("errors = %+v", s.Status.LastErrors)
			}
			if !strings.Contains(e.Description, "spec.kubernetes.kubeAPIServer."+tc.field) ||
				!strings.Contains(e.Description, tc.text) {
				t.Errorf("description = %q, want field %s and %q", e.Description, tc.field, tc.text)
			}
			if now, _ := w.mounted(s, pathConfig); now != good {
				t.Errorf("the server got ConfigMap %s instead of %s", now, good)
			}

			tc.undo()
			before := s.DeepCopy()
			s.Annotations = map[string]string{corev1beta1.AnnotationOperation: "retry"}
			w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
			s = w.run(s, succeeded)
		})
	}
}

// The owner can delete a broken Shoot without repairing it first.
func TestBrokenFilesDoNotHoldUpADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, f := w.newShootWithFiles()
	s = w.run(s, succeeded)
	f.policy.Data["policy"] = "broken"
	w.must(w.Client.Update(w.ctx, f.policy))
	w.delete(s)
	w.run(s, gone)
}
