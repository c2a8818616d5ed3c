package v1beta1

import (
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of the API server's settings.
const (
	maxNonMutatingInflight = 5000
	maxMutatingInflight    = 2500
	maxEventTTL            = 24 * time.Hour
	// Tokens must outlive a month, because some clients read theirs only once, and not a quarter, after which keys are
	// due to be rotated.
	minTokenExpiration = 720 * time.Hour
	maxTokenExpiration = 2160 * time.Hour
)

func (v ShootValidation) kubeAPIServer(shoot *Shoot) field.ErrorList {
	config, path, version := shoot.Spec.Kubernetes.KubeAPIServer, specPath.Child("kubernetes", "kubeAPIServer"),
		shoot.Spec.Kubernetes.Version
	if config == nil {
		return nil
	}
	var errs field.ErrorList
	errs = append(errs, validateFeatureGates(config.FeatureGates, version, path.Child("featureGates"))...)
	errs = append(errs, validateRuntimeConfig(config.RuntimeConfig, version, shoot.HasWorkers(),
		path.Child("runtimeConfig"))...)
	errs = append(errs, validateAdmissionPlugins(config.AdmissionPlugins, shoot, path.Child("admissionPlugins"))...)
	errs = append(errs, validateAudiences(config.APIAudiences, path.Child("apiAudiences"))...)
	if audit := config.AuditConfig; audit != nil && audit.AuditPolicy != nil && audit.AuditPolicy.ConfigMapRef != nil {
		errs = append(errs, validateRequired(audit.AuditPolicy.ConfigMapRef.Name,
			path.Child("auditConfig", "auditPolicy", "configMapRef", "name"))...)
	}
	errs = append(errs, validateServiceAccountConfig(config.ServiceAccountConfig, path.Child("serviceAccountConfig"))...)
	errs = append(errs, validateWatchCacheSizes(config.WatchCacheSizes, version, path.Child("watchCacheSizes"))...)
	if requests := config.Requests; requests != nil {
		errs = append(errs, between(requests.MaxNonMutatingInflight, 0, maxNonMutatingInflight,
			path.Child("requests", "maxNonMutatingInflight"))...)
		errs = append(errs, between(requests.MaxMutatingInflight, 0, maxMutatingInflight,
			path.Child("requests", "maxMutatingInflight"))...)
	}
	if deref(config.EnableAnonymousAuthentication) && minorOf(version) >= 35 {
		errs = append(errs, field.Forbidden(path.Child("enableAnonymousAuthentication"),
			"not supported from Kubernetes 1.35 on; use structuredAuthentication"))
	}
	if ttl := config.EventTTL; ttl != nil && (ttl.Duration < 0 || ttl.Duration > maxEventTTL) {
		errs = append(errs, field.Invalid(path.Child("eventTTL"), ttl.Duration.String(), "must be between 0s and 24h"))
	}
	if logging := config.Logging; logging != nil {
		errs = append(errs, atLeast(logging.Verbosity, 0, path.Child("logging", "verbosity"))...)
		errs = append(errs, atLeast(logging.HTTPAccessVerbosity, 0, path.Child("logging", "httpAccessVerbosity"))...)
	}
	errs = append(errs, atLeast(config.DefaultNotReadyTolerationSeconds, 0,
		path.Child("defaultNotReadyTolerationSeconds"))...)
	errs = append(errs, atLeast(config.DefaultUnreachableTolerationSeconds, 0,
		path.Child("defaultUnreachableTolerationSeconds"))...)
	errs = append(errs, v.encryption(shoot, path.Child("encryptionConfig"))...)
	errs = append(errs, validateStructured(config, path)...)
	errs = append(errs, validateMinAllowed(config.Autoscaling, path.Child("autoscaling", "minAllowed"),
		minAllowedAPIServer)...)
	errs = append(errs, validateOptionalEnum(config.TLSMinVersion, path.Child("tlsMinVersion"), "VersionTLS12",
		"VersionTLS13")...)
	return errs
}

func validateAudiences(audiences []string, path *field.Path) field.ErrorList {
	errs := validateUniqueStrings(audiences, path)
	for i, audience := range audiences {
		if audience == "" || strings.Contains(audience, ",") {
			errs = append(errs, field.Invalid(path.Index(i), audience,
				"must not be empty and not contain a comma; add an entry for each audience"))
		}
	}
	return errs
}

func validateServiceAccountConfig(config *ServiceAccountConfig, path *field.Path) field.ErrorList {
	if config == nil {
		return nil
	}
	var errs field.ErrorList
	if config.MaxTokenExpiration != nil {
		path := path.Child("maxTokenExpiration")
		switch expiration := config.MaxTokenExpiration.Duration; {
		case expiration < 0:
			errs = append(errs, field.Invalid(path, expiration.String(), "must not be negative"))
		case expiration > 0 && expiration < minTokenExpiration, expiration > maxTokenExpiration:
			errs = append(errs, field.Forbidden(path, "must be between 720h and 2160h, or 0 for no bound"))
		}
	}
	if config.Issuer != nil {
		errs = append(errs, validateIssuer(*config.Issuer, path.Child("issuer"))...)
	}
	errs = append(errs, validateUniqueStrings(config.AcceptedIssuers, path.Child("acceptedIssuers"))...)
	for i, issuer := range config.AcceptedIssuers {
		path := path.Child("acceptedIssuers").Index(i)
		errs = append(errs, validateIssuer(issuer, path)...)
		if issuer == deref(config.Issuer) && issuer != "" {
			errs = append(errs, field.Invalid(path, issuer, "is the issuer already"))
		}
	}
	return errs
}

func validateIssuer(issuer string, path *field.Path) field.ErrorList {
	if problem := httpsURLProblem(issuer); problem != "" {
		return field.ErrorList{field.Invalid(path, issuer, problem)}
	}
	return nil
}

// httpsURLProblem returns why a text is not a plain https URL, "" if it is one.
func httpsURLProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "must be a URL such as https://example.org"
	case u.Scheme != "https":
		return "must begin with https://"
	case u.Host == "":
		return "must have a host"
	case u.User != nil:
		return "must not have a user"
	case u.RawQuery != "" || u.ForceQuery:
		return "must not have a query"
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return "must not have a fragment"
	}
	return ""
}

func validateWatchCacheSizes(sizes *WatchCacheSizes, version string, path *field.Path) field.ErrorList {
	if sizes == nil {
		return nil
	}
	var errs field.ErrorList
	errs = append(errs, atLeast(sizes.Default, 0, path.Child("default"))...)
	if sizes.Default != nil && minorOf(version) >= 35 {
		errs = append(errs, field.Forbidden(path.Child("default"), "not supported from Kubernetes 1.35 on, where it has no effect"))
	}
	for i, size := range sizes.Resources {
		path := path.Child("resources").Index(i)
		switch {
		case size.Resource == "":
			errs = append(errs, field.Required(path.Child("resource"), "must be a resource in plural, such as pods"))
		case size.Resource != strings.ToLower(size.Resource):
			errs = append(errs, field.Invalid(path.Child("resource"), size.Resource, "must be in lower case"))
		}
		errs = append(errs, atLeast(&size.CacheSize, 0, path.Child("size"))...)
	}
	return errs
}

func validateStructured(config *KubeAPIServerConfig, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if authentication := config.StructuredAuthentication; authentication != nil && authentication.ConfigMapName == "" {
		errs = append(errs, field.Forbidden(path.Child("structuredAuthentication", "configMapName"), "must not be empty"))
	}
	authorization := config.StructuredAuthorization
	if authorization == nil {
		return errs
	}
	path = path.Child("structuredAuthorization")
	if authorization.ConfigMapName == "" {
		errs = append(errs, field.Forbidden(path.Child("configMapName"), "must not be empty"))
	}
	if len(authorization.Kubeconfigs) == 0 {
		errs = append(errs, field.Required(path.Child("kubeconfigs"), "must name the kubeconfigs of the authorizers"))
	}
	for i, kubeconfig := range authorization.Kubeconfigs {
		path := path.Child("kubeconfigs").Index(i)
		errs = append(errs, validateRequired(kubeconfig.AuthorizerName, path.Child("authorizerName"))...)
		errs = append(errs, validateRequired(kubeconfig.SecretName, path.Child("secretName"))...)
	}
	errs = append(errs, validateUnique(authorization.Kubeconfigs, path.Child("kubeconfigs"),
		func(k *AuthorizerKubeconfigReference) string { return k.AuthorizerName }, child("authorizerName"))...)
	return errs
}

// Least resources of control plane components: with less they do not get through their start.
var (
	minAllowedAPIServer = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("200M"),
	}
	minAllowedETCDMain          = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("300M")}
	minAllowedETCDEvents        = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("60M")}
	minAllowedClusterAutoscaler = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("30M"),
	}
)

func validateMinAllowed(
	autoscaling *ControlPlaneAutoscaling, path *field.Path, least corev1.ResourceList,
) field.ErrorList {
	if autoscaling == nil {
		return nil
	}
	var errs field.ErrorList
	for _, name := range sortedKeys(autoscaling.MinAllowed) {
		path, amount := path.Key(string(name)), autoscaling.MinAllowed[name]
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			errs = append(errs, field.NotSupported(path, name, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}))
			continue
		}
		if bound := least[name]; amount.Cmp(bound) < 0 {
			errs = append(errs, field.Invalid(path, amount.String(), "must be at least "+bound.String()))
		}
	}
	return errs
}

// requiredAdmissionPlugins keep clusters safe or whole; without them our own components do not work.
var requiredAdmissionPlugins = []string{
	"NamespaceLifecycle", "ServiceAccount", "NodeRestriction", "Priority", "CertificateApproval", "CertificateSigning",
	"CertificateSubjectRestriction", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook",
}

// forbiddenAdmissionPlugins cannot work here: what they need cannot be given to them.
var forbiddenAdmissionPlugins = []string{"SecurityContextDeny"}

func validateAdmissionPlugins(plugins []AdmissionPlugin, shoot *Shoot, path *field.Path) field.ErrorList {
	errs := validateUnique(plugins, path, func(p *AdmissionPlugin) string { return p.Name }, child("name"))
	known := knownAdmissionPlugins(shoot.Spec.Kubernetes.Version)
	for i := range plugins {
		plugin, path := &plugins[i], path.Index(i)
		switch {
		case plugin.Name == "":
			errs = append(errs, field.Required(path.Child("name"), "must be given"))
		case slices.Contains(forbiddenAdmissionPlugins, plugin.Name):
			errs = append(errs, field.Forbidden(path.Child("name"), "cannot be used"))
		case known != nil && !slices.Contains(known, plugin.Name):
			errs = append(errs, field.Forbidden(path.Child("name"), plugin.Name+" does not exist in Kubernetes "+
				shoot.Spec.Kubernetes.Version))
		case deref(plugin.Disabled) && slices.Contains(requiredAdmissionPlugins, plugin.Name):
			errs = append(errs, field.Forbidden(path, plugin.Name+" cannot be disabled"))
		}
		if name := plugin.KubeconfigSecretName; name != nil &&
			!slices.ContainsFunc(shoot.Spec.Resources, func(r NamedResourceReference) bool {
				return r.ResourceRef.Kind == "Secret" && r.ResourceRef.Name == *name
			}) {
			errs = append(errs, field.Invalid(path.Child("kubeconfigSecretName"), *name,
				"must be a Secret that spec.resources refers to"))
		}
	}
	return errs
}
