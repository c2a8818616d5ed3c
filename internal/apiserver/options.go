package apiserver

import (
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	corev1 "hortus.dev/hortus/api/core/v1"
	"hortus.dev/hortus/internal/apiserver/admission/plugins"
	"hortus.dev/hortus/internal/apiserver/codec"
)

// etcdPrefix separates our objects from those of the kube-apiserver, which may use the same etcd.
const etcdPrefix = "/registry-gardener"

// defaultKubeconfigMaxExpiration bounds the lifetime of client certificates, which cannot be revoked.
const defaultKubeconfigMaxExpiration = 24 * time.Hour

// Options are the flags of the API server.
type Options struct {
	Recommended *genericoptions.RecommendedOptions
	// AdminKubeconfigMaxExpiration and ViewerKubeconfigMaxExpiration bound the lifetime of kubeconfigs of Shoots. At
	// least 1h; default 24h.
	AdminKubeconfigMaxExpiration  time.Duration
	ViewerKubeconfigMaxExpiration time.Duration

	// Features holds the feature gates.
	Features featuregate.MutableFeatureGate

	// Clock determines which versions are expired. Only tests set it.
	Clock clock.PassiveClock

	// ResolveShootKubeconfigs puts IP addresses instead of host names into kubeconfigs of Shoots.
	ResolveShootKubeconfigs bool

	// Tokens configures the tokens of WorkloadIdentities.
	Tokens TokenOptions

	// ClusterIdentity is the identity of the garden; "" leaves it as it is.
	ClusterIdentity string

	// EncryptionRevision is the lowest accepted revision of the encryption configuration, a number; "" accepts any.
	EncryptionRevision string

	scheme     *runtime.Scheme
	codecs     serializer.CodecFactory
	serializer runtime.NegotiatedSerializer
}

// NewOptions returns options with their defaults.
func NewOptions() *Options {
	scheme := newServerScheme()
	codecs, ns := codec.New(scheme)
	recommended := genericoptions.NewRecommendedOptions(etcdPrefix, codec.NewStorage(scheme, groupVersions...))
	recommended.Etcd.StorageConfig.EncodeVersioner = schema.GroupVersions(append([]schema.GroupVersion{},
		groupVersions...))
	recommended.SecureServing.BindPort = 8443
	plugins.Register(recommended.Admission)
	features := featuregate.NewFeatureGate()
	utilruntime.Must(features.Add(gates()))
	return &Options{
		Features:                      features,
		Recommended:                   recommended,
		AdminKubeconfigMaxExpiration:  defaultKubeconfigMaxExpiration,
		ViewerKubeconfigMaxExpiration: defaultKubeconfigMaxExpiration,
		Clock:                         clock.RealClock{},
		Tokens:                        TokenOptions{MaxExpiration: defaultTokenMaxExpiration},
		scheme:                        scheme,
		codecs:                        codecs,
		serializer:                    ns,
	}
}

// AddFlags adds the options to a flag set.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Recommended.AddFlags(flags)
	o.Features.AddFlag(flags)
	o.Tokens.addFlags(flags)
	flags.StringVar(&o.EncryptionRevision, "encryption-revision", "",
		"Lowest revision of the encryption configuration to start with; "+
			"that of the configuration is in the file 'revision' next to it. Empty: any.")
	flags.StringVar(&o.ClusterIdentity, "cluster-identity", "",
		"Identity of the garden, unique among all gardens, which is the suffix of the identities of its Shoots; it cannot "+
			"change. Empty: the identity that it has; a new garden gets the UID of its namespace kube-system.")
	flags.DurationVar(&o.AdminKubeconfigMaxExpiration, "shoot-admin-kubeconfig-max-expiration",
		o.AdminKubeconfigMaxExpiration,
		"Maximum lifetime of the credentials in administrators' kubeconfigs of Shoots; longer requests are shortened to it.")
	flags.DurationVar(&o.ViewerKubeconfigMaxExpiration, "shoot-viewer-kubeconfig-max-expiration",
		o.ViewerKubeconfigMaxExpiration,
		"Maximum lifetime of the credentials in readers' kubeconfigs of Shoots; longer requests are shortened to it.")
	flags.BoolVar(&o.ResolveShootKubeconfigs, "shoot-kubeconfig-resolve", false,
		"Put the address of the API server into kubeconfigs of Shoots, and its name for TLS only; for users whose resolvers do not know the name.")
}

// Validate returns an error if the options are invalid.
func (o *Options) Validate() error {
	errs := append(o.Recommended.Validate(), o.Tokens.validate()...)
	for name, duration := range map[string]time.Duration{
		"shoot-admin-kubeconfig-max-expiration":  o.AdminKubeconfigMaxExpiration,
		"shoot-viewer-kubeconfig-max-expiration": o.ViewerKubeconfigMaxExpiration,
	} {
		if duration < time.Hour {
			errs = append(errs, fmt.Errorf("--%s: must be at least 1h: %s", name, duration))
		}
	}
	if problems := validation.IsDNS1123Subdomain(o.ClusterIdentity); o.ClusterIdentity != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--cluster-identity: invalid value: %q (%s)", o.ClusterIdentity, problems[0]))
	}
	return utilerrors.NewAggregate(errs)
}

// complete checks the revision of the encryption configuration. It creates a self-signed serving certificate if none is
// given, for tests and first steps.
func (o *Options) complete() error {
	if err := o.checkEncryptionRevision(); err != nil {
		return err
	}
	if err := o.Recommended.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil,
		[]net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return fmt.Errorf("make serving certificate: %w", err)
	}
	return nil
}

// prioritize makes the scheme list versions in the order that clients should prefer.
func prioritize(scheme *runtime.Scheme) error {
	for _, gv := range groupVersions {
		versions := []schema.GroupVersion{gv}
		if gv.Group == corev1.GroupName {
			versions = append(versions, corev1.SchemeGroupVersion)
		}
		if err := scheme.SetVersionPriority(versions...); err != nil {
			return fmt.Errorf("set version priority of %s: %w", gv.Group, err)
		}
	}
	return nil
}
