package apiserverfiles

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Keys of the ConfigMaps.
const (
	keyPolicy = "policy"
	keyConfig = "config.yaml"
)

// Use is what a file is for.
type Use string

const (
	AuditPolicy    Use = "AuditPolicy"
	Authentication Use = "Authentication"
	Authorization  Use = "Authorization"
)

// File is one that a Shoot refers to.
type File struct {
	Use Use
	// ConfigMap is the name of the one that holds the file, in the Shoot's namespace.
	ConfigMap string
	// Path of the field with that name.
	Path *field.Path

	key string
	// rules identifies the inputs of check besides the content.
	rules string
	check func(content []byte) []error
}

// Of lists the files of a Shoot. No file may let somebody else issue tokens with the issuers, which are the cluster's
// own.
func Of(shoot *corev1beta1.Shoot, issuers []string) []File {
	server := shoot.Spec.Kubernetes.KubeAPIServer
	if server == nil {
		return nil
	}
	path, minor := field.NewPath("spec", "kubernetes", "kubeAPIServer"), minorOf(shoot.Spec.Kubernetes.Version)
	var files []File
	add := func(f File) {
		if f.ConfigMap != "" { // Validation demands a name.
			f.rules = fmt.Sprintf("%s %d %q %t %q", f.Use, minor, issuers, shoot.HasWorkers(), authorizers(server))
			files = append(files, f)
		}
	}
	if audit := server.AuditConfig; audit != nil && audit.AuditPolicy != nil && audit.AuditPolicy.ConfigMapRef != nil {
		add(File{
			Use: AuditPolicy, ConfigMap: audit.AuditPolicy.ConfigMapRef.Name, key: keyPolicy, check: auditPolicy(minor),
			Path: path.Child("auditConfig", "auditPolicy", "configMapRef", "name"),
		})
	}
	if config := server.StructuredAuthentication; config != nil {
		add(File{
			Use: Authentication, ConfigMap: config.ConfigMapName, key: keyConfig,
			check: authentication(minor, issuers, shoot.HasWorkers()),
			Path:  path.Child("structuredAuthentication", "configMapName"),
		})
	}
	if config := server.StructuredAuthorization; config != nil {
		add(File{
			Use: Authorization, ConfigMap: config.ConfigMapName, key: keyConfig,
			check: authorization(minor, config.Kubeconfigs),
			Path:  path.Child("structuredAuthorization", "configMapName"),
		})
	}
	return files
}

// Changed lists the files of a Shoot to which the references are new or changed, or whose rules depend on what has
// changed. old is nil for a new Shoot.
func Changed(shoot, old *corev1beta1.Shoot) []File {
	server, before := shoot.Spec.Kubernetes.KubeAPIServer, &corev1beta1.KubeAPIServerConfig{}
	if old != nil && old.Spec.Kubernetes.KubeAPIServer != nil {
		before = old.Spec.Kubernetes.KubeAPIServer
	}
	if server == nil {
		return nil
	}
	same := equality.Semantic.DeepEqual
	return slices.DeleteFunc(Of(shoot, issuers(server)), func(f File) bool {
		switch f.Use {
		case AuditPolicy:
			return same(server.AuditConfig, before.AuditConfig)
		case Authentication:
			return same(server.StructuredAuthentication, before.StructuredAuthentication) &&
				same(issuers(server), issuers(before))
		default:
			return same(server.StructuredAuthorization, before.StructuredAuthorization)
		}
	})
}

// authorizers are the names for which the Shoot has a kubeconfig.
func authorizers(server *corev1beta1.KubeAPIServerConfig) []string {
	var names []string
	if config := server.StructuredAuthorization; config != nil {
		for _, kubeconfig := range config.Kubeconfigs {
			names = append(names, kubeconfig.AuthorizerName)
		}
	}
	return names
}

// issuers are those of the cluster's own tokens, which nobody else may issue.
func issuers(server *corev1beta1.KubeAPIServerConfig) []string {
	config := server.ServiceAccountConfig
	if config == nil {
		return nil
	}
	list := config.AcceptedIssuers
	if config.Issuer != nil {
		list = append([]string{*config.Issuer}, list...)
	}
	return list
}

// Validate says what is wrong with a file, given the content of its ConfigMap.
func (f File) Validate(data map[string]string) field.ErrorList {
	content, found := data[f.key]
	if !found {
		return field.ErrorList{field.Invalid(f.Path, f.ConfigMap, fmt.Sprintf("the ConfigMap must have the key %q", f.key))}
	}
	if len(content) > maxSize {
		problem := fmt.Sprintf("key %q of the ConfigMap has %d bytes, must have at most %d", f.key, len(content), maxSize)
		return field.ErrorList{field.Invalid(f.Path, f.ConfigMap, problem)}
	}
	var errs field.ErrorList
	for _, problem := range checked.of(f.rules, []byte(content), f.check) {
		errs = append(errs, field.Invalid(f.Path, f.ConfigMap, fmt.Sprintf("key %q of the ConfigMap: %v", f.key, problem)))
	}
	return errs
}

// Content returns the file, given the content of its ConfigMap, or what is wrong with it.
func (f File) Content(data map[string]string) (string, error) {
	if errs := f.Validate(data); len(errs) > 0 {
		return "", errs.ToAggregate()
	}
	return data[f.key], nil
}

// minorOf a Kubernetes version, which may be given in part; newest if that leaves it open.
func minorOf(kubernetes string) uint {
	v, err := version.ParseGeneric(kubernetes)
	if err != nil {
		return newest
	}
	return v.Minor()
}
