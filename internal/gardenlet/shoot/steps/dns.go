package steps

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// DNSInternal is the DNS record by which machines find the API server.
var DNSInternal = &flow.Step[*Scope]{
	Name:   "dns-internal",
	After:  []*flow.Step[*Scope]{References, GatewayAddress},
	SkipIf: when(asleep),
	Ensure: use4(ensureDNSInternal),
	Remove: use2(func(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
		return removeRecord(ctx, s, extensions, "internal")
	}),
}

// DNSExternal is the DNS record by which users find the API server. Its zone may belong to the user, and nothing else
// needs the record: without it a Shoot can be hibernated, and be restored from its backups.
var DNSExternal = &flow.Step[*Scope]{
	Name:   "dns-external",
	After:  []*flow.Step[*Scope]{References, GatewayAddress},
	Aside:  true,
	SkipIf: when(asleep, withoutExternalDomain),
	Ensure: use4(ensureDNSExternal),
	Remove: use2(func(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
		return removeRecord(ctx, s, extensions, "external")
	}),
}

func withoutExternalDomain(s *Values) string {
	return reasonIf(s.ExternalDomain() == "", "no external domain")
}

// dnsProvider is where a record is kept.
type dnsProvider struct {
	kind string
	zone *string
	data map[string][]byte
}

func ensureDNSInternal(
	ctx context.Context, s *Values, seed *SeedNamespace, garden *GardenNamespace, extensions *Extensions,
) (flow.Outcome, error) {
	if err := requireDomain(s); err != nil {
		return flow.Outcome{}, err
	}
	internal := s.SeedObject.Spec.DNS.Internal
	data, err := garden.credentials(ctx, internal.CredentialsRef, corev1beta1.GardenNamespace)
	if err != nil {
		return flow.Outcome{}, err
	}
	return ensureRecord(ctx, s, seed, extensions, "internal", "api."+s.InternalDomain(),
		corev1beta1.ShootTaskDeployDNSRecordInternal, dnsProvider{internal.Type, internal.Zone, data})
}

func ensureDNSExternal(
	ctx context.Context, s *Values, seed *SeedNamespace, garden *GardenNamespace, extensions *Extensions,
) (flow.Outcome, error) {
	provider, err := externalProvider(ctx, s, garden)
	if err != nil {
		return flow.Outcome{}, err
	}
	return ensureRecord(ctx, s, seed, extensions, "external", "api."+s.ExternalDomain(),
		corev1beta1.ShootTaskDeployDNSRecordExternal, *provider)
}

// externalProvider is the Shoot's own provider, or the one of the default domain that the Shoot's domain lies in.
func externalProvider(ctx context.Context, s *Values, garden *GardenNamespace) (*dnsProvider, error) {
	if p := primaryProvider(s.Shoot.Spec.DNS.Providers); p != nil && ptr.Deref(p.Type, "") != "" {
		ref := corev1.ObjectReference{Kind: "Secret", Name: ptr.Deref(p.SecretName, "")}
		if p.CredentialsRef != nil {
			ref.Kind, ref.Name = p.CredentialsRef.Kind, p.CredentialsRef.Name
		}
		if ref.Name == "" {
			data, err := cloudCredentials(ctx, s, garden)
			return &dnsProvider{kind: *p.Type, data: data}, err
		}
		data, err := garden.credentials(ctx, ref, s.Shoot.Namespace)
		return &dnsProvider{kind: *p.Type, data: data}, err
	}
	domain := s.ExternalDomain()
	for _, d := range s.SeedObject.Spec.DNS.Defaults {
		if domain == d.Domain || strings.HasSuffix(domain, "."+d.Domain) {
			data, err := garden.credentials(ctx, d.CredentialsRef, corev1beta1.GardenNamespace)
			return &dnsProvider{d.Type, d.Zone, data}, err
		}
	}
	return nil,
		flow.WithCodes(fmt.Errorf("no DNS provider for domain %q: the Shoot names none, and it is below no default domain of seed %q", domain, s.SeedObject.Name),
			string(corev1beta1.ErrorConfigurationProblem))
}

// primaryProvider is the one marked so, or the only one.
func primaryProvider(providers []corev1beta1.DNSProvider) *corev1beta1.DNSProvider {
	for i := range providers {
		if ptr.Deref(providers[i].Primary, false) {
			return &providers[i]
		}
	}
	if len(providers) == 1 {
		return &providers[0]
	}
	return nil
}

func ensureRecord(
	ctx context.Context, s *Values, seed *SeedNamespace, extensions *Extensions, suffix, host, task string,
	provider dnsProvider,
) (flow.Outcome, error) {
	address, err := gatewayAddress(ctx, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	name := s.Shoot.Name + "-" + suffix
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "dnsrecord-" + name, Namespace: s.Namespace}, Type: corev1.SecretTypeOpaque,
		Data: provider.data,
	}
	if err := seed.apply(ctx, secret); err != nil {
		return flow.Outcome{}, err
	}
	return extensions.reconcile(ctx, extensionRequest{
		object: &extensionsv1alpha1.DNSRecord{
			ObjectMeta: s.extensionMeta(name),
			Spec: extensionsv1alpha1.DNSRecordSpec{
				DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: provider.kind},
				SecretRef:   corev1.SecretReference{Name: secret.Name, Namespace: secret.Namespace},
				Zone:        provider.zone,
				Name:        host,
				RecordType:  recordType(address),
				Values:      []string{address},
				TTL:         ptr.To(s.DNSTTL),
			},
		},
		trigger: triggerIfNeeded,
		task:    task,
		severe:  severeDNS,
	})
}

// recordType is that of a record which points to the address.
func recordType(address string) extensionsv1alpha1.DNSRecordType {
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return extensionsv1alpha1.DNSRecordTypeCNAME
	case ip.Is4():
		return extensionsv1alpha1.DNSRecordTypeA
	}
	return extensionsv1alpha1.DNSRecordTypeAAAA
}

func removeRecord(ctx context.Context, s *Values, extensions *Extensions, suffix string) (flow.Outcome, error) {
	return extensions.delete(ctx, &extensionsv1alpha1.DNSRecord{ObjectMeta: s.extensionMeta(s.Shoot.Name + "-" + suffix)},
		severeDNS)
}
