package apiserverfiles

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	api "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/audit/policy"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// decoder reads the files of the group apiserver.config.k8s.io as strictly as the kube-apiserver does.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
}()

// apiVersion of a file and the first minor of Kubernetes that reads it.
type apiVersion struct {
	name  string
	since uint
}

// newest stands for a minor that reads every version.
const newest = math.MaxUint

// Versions of the files, the newest first.
var (
	policyVersions         = []apiVersion{{"audit.k8s.io/v1", 12}}
	authenticationVersions = []apiVersion{
		{"apiserver.config.k8s.io/v1", 34}, {"apiserver.config.k8s.io/v1beta1", 30}, {"apiserver.config.k8s.io/v1alpha1", 29},
	}
	authorizationVersions = []apiVersion{
		{"apiserver.config.k8s.io/v1", 32}, {"apiserver.config.k8s.io/v1beta1", 30}, {"apiserver.config.k8s.io/v1alpha1", 29},
	}
)

// typeProblem says why a file is not of the kind, in a version that a minor of Kubernetes reads. The decoders' own
// words for that name no alternative.
func typeProblem(content []byte, kind string, versions []apiVersion, minor uint) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(content, &meta); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	var read []string
	for _, v := range versions {
		if v.since <= minor {
			read = append(read, v.name)
		}
	}
	switch {
	case meta.Kind == kind && slices.Contains(read, meta.APIVersion):
		return nil
	case len(read) == 0:
		return fmt.Errorf("is not supported by Kubernetes 1.%d", minor)
	}
	return fmt.Errorf("is kind %q with apiVersion %q, must be kind %q with apiVersion %s", meta.Kind, meta.APIVersion,
		kind, strings.Join(read, " or "))
}

// read decodes a file of the group apiserver.config.k8s.io. An error may stand for several.
func read[T runtime.Object](content []byte, kind string, versions []apiVersion, minor uint) (T, error) {
	var none T
	if err := typeProblem(content, kind, versions, minor); err != nil {
		return none, err
	}
	object, err := runtime.Decode(decoder, content)
	if err != nil {
		return none, fmt.Errorf("cannot be read: %w", err)
	}
	config, ok := object.(T)
	if !ok {
		return none, fmt.Errorf("is a %T", object)
	}
	return config, nil
}

func split(err error) []error {
	var many utilerrors.Aggregate
	if errors.As(err, &many) {
		return many.Errors()
	}
	return []error{err}
}

func auditPolicy(minor uint) func([]byte) []error {
	return func(content []byte) []error {
		if err := typeProblem(content, "Policy", policyVersions, minor); err != nil {
			return []error{err}
		}
		if _, err := policy.LoadPolicyFromBytes(content); err != nil {
			return split(err)
		}
		return nil
	}
}

// probes of the kubelet have no credentials.
var probes = []string{"/livez", "/readyz"}

// authentication: own are the cluster's issuers. Only with workers the server has something to select an egress from.
func authentication(minor uint, own []string, workers bool) func([]byte) []error {
	return func(content []byte) []error {
		config, err := read[*api.AuthenticationConfiguration](content, "AuthenticationConfiguration", authenticationVersions,
			minor)
		if err != nil {
			return []error{err}
		}
		if errs := costs(authenticationExpressions(config)); len(errs) > 0 {
			return asErrors(errs)
		}
		errs := validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), config, own)
		if !letsProbesIn(config.Anonymous) {
			errs = append(errs, field.Forbidden(field.NewPath("anonymous"),
				"must be left out, or be enabled for "+strings.Join(probes, " and ")+
					", which the kubelet of the seed probes without credentials"))
		}
		for i, jwt := range config.JWT {
			if jwt.Issuer.EgressSelectorType != "" && !workers {
				errs = append(errs, field.Forbidden(field.NewPath("jwt").Index(i).Child("issuer", "egressSelectorType"),
					"must be left out, the Shoot has no workers"))
			}
		}
		return asErrors(errs)
	}
}

func letsProbesIn(config *api.AnonymousAuthConfig) bool {
	if config == nil || config.Enabled && len(config.Conditions) == 0 {
		return true
	}
	return config.Enabled && !slices.ContainsFunc(probes, func(path string) bool {
		return !slices.ContainsFunc(config.Conditions, func(c api.AnonymousAuthCondition) bool { return c.Path == path })
	})
}

// modes are the names of the authorizers that are added to those of the user.
var modes = []string{"node", "rbac"}

// maxConditions of a webhook. The kube-apiserver takes one more, which is added.
const maxConditions = 63

// authorization: the file has only the webhooks of the user. The modes Node and RBAC, and the kubeconfigs of the
// webhooks, are added to it.
func authorization(minor uint, kubeconfigs []corev1beta1.AuthorizerKubeconfigReference) func([]byte) []error {
	return func(content []byte) []error {
		config, err := read[*api.AuthorizationConfiguration](content, "AuthorizationConfiguration", authorizationVersions,
			minor)
		if err != nil {
			return []error{err}
		}
		if errs := costs(authorizationExpressions(config)); len(errs) > 0 {
			return asErrors(errs)
		}
		webhooks := map[string]bool{}
		var errs field.ErrorList
		for i := range config.Authorizers {
			authorizer, path := &config.Authorizers[i], field.NewPath("authorizers").Index(i)
			if authorizer.Type != api.TypeWebhook {
				continue
			}
			webhooks[authorizer.Name] = true
			if slices.Contains(modes, authorizer.Name) {
				errs = append(errs, field.Forbidden(path.Child("name"),
					fmt.Sprintf("%s is the name of an authorizer that is added", authorizer.Name)))
			}
			if !slices.ContainsFunc(kubeconfigs,
				func(k corev1beta1.AuthorizerKubeconfigReference) bool { return k.AuthorizerName == authorizer.Name }) {
				errs = append(errs, field.Invalid(path.Child("name"), authorizer.Name,
					"must be the authorizerName of one of the Shoot's kubeconfigs"))
			}
			if authorizer.Webhook == nil {
				continue
			}
			if len(authorizer.Webhook.MatchConditions) > maxConditions {
				errs = append(errs, field.TooMany(path.Child("webhook", "matchConditions"), len(authorizer.Webhook.MatchConditions),
					maxConditions))
			}
			given := &authorizer.Webhook.ConnectionInfo
			if given.KubeConfigFile != nil || given.Type != "" &&
				given.Type != api.AuthorizationWebhookConnectionInfoTypeKubeConfigFile {
				errs = append(errs, field.Forbidden(path.Child("webhook", "connectionInfo"),
					"must be left out; the Shoot names the Secret with the kubeconfig"))
			}
			// Validation accepts this type, which needs no file.
			*given = api.WebhookConnectionInfo{Type: api.AuthorizationWebhookConnectionInfoTypeInCluster}
		}
		for _, kubeconfig := range kubeconfigs {
			if !webhooks[kubeconfig.AuthorizerName] {
				errs = append(errs, field.Required(field.NewPath("authorizers"),
					fmt.Sprintf("the Shoot has a kubeconfig for a Webhook with the name %q", kubeconfig.AuthorizerName)))
			}
		}
		known := sets.New(string(api.TypeWebhook))
		return asErrors(append(errs, validation.ValidateAuthorizationConfiguration(authorizationcel.NewDefaultCompiler(), nil,
			config, known, known)...))
	}
}

func asErrors(list field.ErrorList) []error {
	var errs []error
	for _, err := range list {
		errs = append(errs, err)
	}
	return errs
}
