package managedseed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/admission/shootmanagedseed"
)

// config is a GardenletConfiguration, of which only the Seed is decoded. The other fields are kept unchanged.
type config struct {
	document map[string]json.RawMessage
	seed     corev1beta1.SeedTemplate
}

const keySeed = "seedConfig"

// readConfig decodes the configuration; nil if it has no Seed.
func readConfig(raw *runtime.RawExtension) (*config, error) {
	if raw == nil || len(raw.Raw) == 0 {
		return nil, nil
	}
	c := &config{}
	if err := json.Unmarshal(raw.Raw, &c.document); err != nil {
		return nil, err
	}
	seed := c.document[keySeed]
	if len(seed) == 0 || string(seed) == "null" {
		return nil, nil
	}
	return c, json.Unmarshal(seed, &c.seed)
}

func (c *config) write() (*runtime.RawExtension, error) {
	seed, err := json.Marshal(&c.seed)
	if err != nil {
		return nil, fmt.Errorf("write seedConfig: %w", err)
	}
	c.document[keySeed] = seed
	raw, err := json.Marshal(c.document)
	if err != nil {
		return nil, fmt.Errorf("write gardenlet configuration: %w", err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

func ingressDomain(shoot *corev1beta1.Shoot) string { return "ingress." + *shoot.Spec.DNS.Domain }

// fillSeed sets the empty fields of a Seed that follow from the Shoot it runs in. domains are the default domains of
// the Seed that runs the Shoot's control plane.
func fillSeed(seed *corev1beta1.SeedSpec, shoot *corev1beta1.Shoot, domains []corev1beta1.SeedDNSProviderConfig) {
	setEmpty(&seed.Provider.Type, shoot.Spec.Provider.Type)
	setEmpty(&seed.Provider.Region, shoot.Spec.Region)
	if len(seed.Provider.Zones) == 0 {
		seed.Provider.Zones = shootmanagedseed.ZonesOf(shoot)
	}
	if networking := shoot.Spec.Networking; networking != nil {
		if seed.Networks.Nodes == nil && networking.Nodes != nil {
			seed.Networks.Nodes = new(*networking.Nodes)
		}
		setEmpty(&seed.Networks.Pods, ptr.Deref(networking.Pods, ""))
		setEmpty(&seed.Networks.Services, ptr.Deref(networking.Services, ""))
	}
	if seed.Ingress == nil {
		seed.Ingress = &corev1beta1.Ingress{}
	}
	setEmpty(&seed.Ingress.Domain, ingressDomain(shoot))
	setEmpty(&seed.Ingress.Controller.Kind, "nginx")
	if seed.DNS.Provider == nil {
		seed.DNS.Provider = dnsProvider(shoot, domains)
	}
	if seed.Backup != nil {
		setEmpty(&seed.Backup.Provider, shoot.Spec.Provider.Type)
	}
	if seed.Settings == nil {
		seed.Settings = &corev1beta1.SeedSettings{}
	}
	if seed.Settings.VerticalPodAutoscaler == nil { // The Shoot has one.
		seed.Settings.VerticalPodAutoscaler = &corev1beta1.SeedSettingVerticalPodAutoscaler{Enabled: false}
	}
}

// dnsProvider returns the provider of the Shoot's own domain: the Shoot's primary provider, or the default domain's.
func dnsProvider(shoot *corev1beta1.Shoot, domains []corev1beta1.SeedDNSProviderConfig) *corev1beta1.SeedDNSProvider {
	for _, provider := range shoot.Spec.DNS.Providers {
		if provider.Primary == nil || !*provider.Primary || provider.Type == nil || provider.CredentialsRef == nil {
			continue
		}
		ref := provider.CredentialsRef
		return &corev1beta1.SeedDNSProvider{Type: *provider.Type, CredentialsRef: &corev1.ObjectReference{
			APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: shoot.Namespace, Name: ref.Name,
		}}
	}
	for i := range domains {
		if strings.HasSuffix(*shoot.Spec.DNS.Domain, "."+domains[i].Domain) {
			return &corev1beta1.SeedDNSProvider{Type: domains[i].Type, CredentialsRef: new(domains[i].CredentialsRef)}
		}
	}
	return nil
}

// contradictions returns the fields of a Seed that contradict the Shoot it runs in.
func contradictions(seed *corev1beta1.SeedSpec, shoot *corev1beta1.Shoot) field.ErrorList {
	path := configPath.Child("spec")
	var errs field.ErrorList
	same := func(path *field.Path, got, want string) {
		if want != "" && got != want {
			errs = append(errs, field.Invalid(path, got, fmt.Sprintf("must be %q, as in the Shoot", want)))
		}
	}
	same(path.Child("provider", "type"), seed.Provider.Type, shoot.Spec.Provider.Type)
	same(path.Child("provider", "region"), seed.Provider.Region, shoot.Spec.Region)
	zones := shootmanagedseed.ZonesOf(shoot)
	for i, zone := range seed.Provider.Zones {
		if !slices.Contains(zones, zone) {
			errs = append(errs, field.Invalid(path.Child("provider", "zones").Index(i), zone,
				fmt.Sprintf("no pool of the Shoot is there; its zones are %v", zones)))
		}
	}
	if networking := shoot.Spec.Networking; networking != nil {
		same(path.Child("networks", "nodes"), ptr.Deref(seed.Networks.Nodes, ""), ptr.Deref(networking.Nodes, ""))
		same(path.Child("networks", "pods"), seed.Networks.Pods, ptr.Deref(networking.Pods, ""))
		same(path.Child("networks", "services"), seed.Networks.Services, ptr.Deref(networking.Services, ""))
	}
	same(path.Child("ingress", "domain"), seed.Ingress.Domain, ingressDomain(shoot))
	if vpa := seed.Settings.VerticalPodAutoscaler; vpa.Enabled {
		errs = append(errs, field.Invalid(path.Child("settings", "verticalPodAutoscaler", "enabled"), true,
			"must be false: the Shoot has one already"))
	}
	return errs
}

func setEmpty(field *string, value string) {
	if *field == "" {
		*field = value
	}
}
