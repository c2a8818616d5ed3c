package main

import (
	"errors"
	"fmt"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/extension"
)

const (
	configVersion = "notice.example.com/v1alpha1"
	configKind    = "NoticeConfig"
	// messageLimit is the longest message, in bytes: it is to be read, not to store data.
	messageLimit = 1024
)

// Config is what the owner of a Shoot writes into the extension's providerConfig.
type Config struct {
	metav1.TypeMeta `json:",inline"`
	// message is shown to everybody who uses the Shoot. It is a template of text/template that knows .Shoot, .Region and
	// .Version. At most 1,024 bytes. Required.
	Message string `json:"message"`
}

// decode reads the providerConfig of an Extension.
func decode(raw *runtime.RawExtension) (*template.Template, error) {
	if raw == nil {
		return nil, errors.New("message: required")
	}
	config := &Config{}
	if err := yaml.UnmarshalStrict(raw.Raw, config); err != nil {
		return nil, err
	}
	switch {
	case config.APIVersion != configVersion || config.Kind != configKind:
		return nil, fmt.Errorf("apiVersion, kind: unknown: %q, %q (known are %s, %s)",
			config.APIVersion, config.Kind, configVersion, configKind)
	case config.Message == "":
		return nil, errors.New("message: required")
	}
	parsed, err := template.New("message").Parse(config.Message)
	if err != nil {
		return nil, fmt.Errorf("message: no template: %w", err)
	}
	return parsed, nil
}

// text is the message for one Shoot.
func text(message *template.Template, cluster *extension.Cluster) (string, error) {
	var out strings.Builder
	if err := message.Execute(&out, struct{ Shoot, Region, Version string }{
		Shoot: cluster.Shoot.Name, Region: cluster.Shoot.Spec.Region, Version: cluster.Shoot.Spec.Kubernetes.Version,
	}); err != nil {
		return "", fmt.Errorf("message: %w", err)
	}
	if out.Len() > messageLimit {
		return "", fmt.Errorf("message: too long: %d bytes (at most %d)", out.Len(), messageLimit)
	}
	return out.String(), nil
}

// objects are what the Shoot gets: the message, and the right of all its users to read it.
func objects(message string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "notice"}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"message": message}},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"notice"},
			Verbs: []string{"get", "watch"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "notice"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
		},
	}
}
