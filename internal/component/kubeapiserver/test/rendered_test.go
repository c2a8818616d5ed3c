package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserverfiles"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/env"
)

// rendered are the flags of a Shoot's server that concern the files of its user. The files have the paths in the flags.
func rendered(t *testing.T, idp *issuer, hook *webhook, ca *pki.CA, out *tunnelServer) map[string]string {
	t.Helper()
	v := kubeapiserver.Values{
		Namespace: "shoot--dev--a", Replicas: 1, ServiceCIDR: "100.64.0.0/16", Issuer: "https://shoot.example.org",
		Secrets: kubeapiserver.Secrets{VPNCABundle: "ca-vpn-bundle", VPNClient: "http-proxy"},
		Encryption: encryption.Target{
			Resources: []string{"secrets"}, Writer: encryption.Provider{Cipher: encryption.AESCBC, Key: "key1"},
			Keys: map[string]string{"key1": "c2VjcmV0"},
		}.Config(),
	}
	addFiles(t, &v, map[apiserverfiles.Use]string{
		apiserverfiles.AuditPolicy:    policy,
		apiserverfiles.Authentication: fmt.Sprintf(authentication, idp.url, indented(ca.CertPEM)),
		apiserverfiles.Authorization:  authorization,
	})
	kubeconfig, err := pki.Kubeconfig{Name: "mine", Server: hook.url, CAPEM: ca.CertPEM, Token: "t"}.Render()
	if err != nil {
		t.Fatal(err)
	}
	if err := apiserverfiles.Kubeconfig(map[string][]byte{apiserverfiles.KeyKubeconfig: kubeconfig}); err != nil {
		t.Fatal(err)
	}
	v.AuthorizationKubeconfigs = map[string][]byte{"mine": kubeconfig}
	objects, err := kubeapiserver.Render(v)
	if err != nil {
		t.Fatal(err)
	}
	template := objects.Deployment.Spec.Template.Spec
	dir := t.TempDir()
	for _, volume := range template.Volumes {
		data := map[string][]byte{}
		if m := volume.ConfigMap; m != nil && m.Name == objects.ConfigMap.Name {
			for key, content := range objects.ConfigMap.Data {
				data[key] = []byte(content)
			}
		}
		if s := volume.Secret; s != nil {
			data = map[string]map[string][]byte{
				objects.AuthorizationSecret.Name: objects.AuthorizationSecret.Data,
				v.Secrets.VPNCABundle:            {"bundle.crt": out.ca.CertPEM},
				v.Secrets.VPNClient:              {"tls.crt": out.client.CertPEM, "tls.key": out.client.KeyPEM},
			}[s.SecretName]
		}
		mount := template.Containers[0].VolumeMounts[slices.IndexFunc(template.Containers[0].VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.Name == volume.Name })]
		for key, content := range data {
			path := filepath.Join(dir, mount.MountPath, key)
			for _, root := range []string{"/etc/kubernetes/", "/srv/kubernetes/"} {
				content = bytes.ReplaceAll(content, []byte(root), []byte(dir+root))
			}
			for url, actual := range out.urls {
				content = bytes.ReplaceAll(content, []byte(url), []byte(actual))
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	flags := map[string]string{}
	for _, flag := range template.Containers[0].Args {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if kind, _, _ := strings.Cut(name,
			"-"); slices.Contains([]string{"audit", "authentication", "authorization", "egress"}, kind) {
			flags[name] = strings.Replace(value, "/etc/kubernetes/", dir+"/etc/kubernetes/", 1)
		}
	}
	if len(flags) != 5 {
		t.Fatalf("flags that concern the user's files: %v", flags)
	}
	return flags
}

// indented is a certificate as in a block of YAML.
func indented(pem []byte) string {
	return "      " + strings.ReplaceAll(strings.TrimSpace(string(pem)), "\n", "\n      ")
}

// addFiles applies the same checks to the files as the gardenlet.
func addFiles(t *testing.T, v *kubeapiserver.Values, files map[apiserverfiles.Use]string) {
	t.Helper()
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Kubernetes.Version = "1.36.3"
	shoot.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{
		AuditConfig: &corev1beta1.AuditConfig{
			AuditPolicy: &corev1beta1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: "a"}},
		},
		StructuredAuthentication: &corev1beta1.StructuredAuthentication{ConfigMapName: "a"},
		StructuredAuthorization: &corev1beta1.StructuredAuthorization{
			ConfigMapName: "a", Kubeconfigs: []corev1beta1.AuthorizerKubeconfigReference{
				{AuthorizerName: "mine", SecretName: "a"},
			},
		},
	}
	for _, file := range apiserverfiles.Of(shoot, []string{v.Issuer}) {
		content, err := file.Content(map[string]string{"policy": files[file.Use], "config.yaml": files[file.Use]})
		if err != nil {
			t.Fatal(err)
		}
		switch file.Use {
		case apiserverfiles.AuditPolicy:
			v.AuditPolicy = content
		case apiserverfiles.Authentication:
			v.Authentication = content
		case apiserverfiles.Authorization:
			v.Authorization = content
		}
	}
}

// allowReaders lets the group "readers" list ConfigMaps.
func allowReaders(t *testing.T, e *env.Environment) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "readers"}
	e.Create(t,
		&rbacv1.ClusterRole{
			ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}},
			},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: meta.Name}},
		})
}
