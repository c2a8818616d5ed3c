package v1beta1

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// reservedNetworks are used by the tunnel between control planes and clusters: no range of a Seed or a Shoot may meet
// one of 240.0.0.0/8 to 244.0.0.0/8, nor of a Shoot fd8f:6d53:b97a:1::/96.
var reservedNetworks = []netip.Prefix{
	netip.MustParsePrefix("240.0.0.0/8"), netip.MustParsePrefix("241.0.0.0/8"), netip.MustParsePrefix("242.0.0.0/8"),
	netip.MustParsePrefix("243.0.0.0/8"), netip.MustParsePrefix("244.0.0.0/8"),
	netip.MustParsePrefix("fd8f:6d53:b97a:1::/96"),
}

// NetworkConflict is an address range of a Shoot that keeps it off a Seed.
//
// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false
type NetworkConflict struct {
	// Field of spec.networking that the range is for: nodes, pods or services.
	Field string
	Range string
	// With is what the range overlaps, in words.
	With string
	// InUse: the range is in status.networking, so that a change of the spec cannot remove it.
	InUse bool
}

// String is the conflict in one line.
func (c NetworkConflict) String() string {
	of := "spec"
	if c.InUse {
		of = "status"
	}
	return fmt.Sprintf("the Shoot's %s.networking.%s %s overlaps %s", of, c.Field, c.Range, c.With)
}

// NetworksOnSeed returns the networking that a Shoot has on a Seed, which gives it default ranges of services and, if
// it has workers, of pods. Defaults count only if the Shoot has their IP family. Nil stays nil.
func NetworksOnSeed(shoot *Shoot, seed *SeedNetworks) *Networking {
	if shoot.Spec.Networking == nil || seed.ShootDefaults == nil {
		return shoot.Spec.Networking
	}
	networking := *shoot.Spec.Networking
	families := networking.IPFamilies
	if len(families) == 0 {
		families = []IPFamily{IPFamilyIPv4}
	}
	complete := func(own **string, fallback *string) {
		prefix, ok := parseCIDR(fallback)
		if *own != nil || !ok || !slices.Contains(families, familyOf(prefix)) {
			return
		}
		text := *fallback
		*own = &text
	}
	if shoot.HasWorkers() {
		complete(&networking.Pods, seed.ShootDefaults.Pods)
	}
	complete(&networking.Services, seed.ShootDefaults.Services)
	return &networking
}

// NetworkConflicts returns the ranges of a Shoot that keep it off a Seed: those of its spec, completed with the Seed's
// defaults, and those in use according to its status. IPv4 ranges may overlap the Seed's nodes and pods, because the
// tunnel does not route by address, but not its services, which contain the addresses that API servers advertise.
func NetworkConflicts(shoot *Shoot, inUse *NetworkingStatus, seed *SeedNetworks) []NetworkConflict {
	networking := NetworksOnSeed(shoot, seed)
	if networking == nil {
		return nil
	}
	if inUse == nil {
		inUse = &NetworkingStatus{}
	}
	var conflicts []NetworkConflict
	for _, own := range []struct {
		field  string
		wanted *string
		inUse  []string
	}{
		{"nodes", networking.Nodes, inUse.Nodes},
		{"pods", networking.Pods, inUse.Pods},
		{"services", networking.Services, inUse.Services},
	} {
		add := func(text string, used bool) {
			for _, other := range seed.conflictsWith(text) {
				conflicts = append(conflicts, NetworkConflict{Field: own.field, Range: text, With: other, InUse: used})
			}
		}
		if own.wanted != nil {
			add(*own.wanted, false)
		}
		for _, text := range own.inUse {
			if own.wanted == nil || text != *own.wanted {
				add(text, true)
			}
		}
	}
	return conflicts
}

// conflictsWith names what a range of a Shoot must not overlap, but does.
func (n *SeedNetworks) conflictsWith(shootRange string) []string {
	own, ok := parseCIDR(&shootRange)
	if !ok {
		return nil // Validation reports it.
	}
	var with []string
	for _, other := range []struct {
		name string
		cidr *string
	}{{"nodes", n.Nodes}, {"pods", &n.Pods}, {"services", &n.Services}} {
		prefix, ok := parseCIDR(other.cidr)
		if ok && own.Overlaps(prefix) && (own.Addr().Is6() || other.name == "services") {
			with = append(with, fmt.Sprintf("the Seed's spec.networks.%s %s", other.name, prefix))
		}
	}
	for _, reserved := range reservedNetworks {
		if own.Overlaps(reserved) {
			with = append(with, reserved.String()+", which is reserved for the tunnel")
		}
	}
	return with
}

func familyOf(prefix netip.Prefix) IPFamily {
	if prefix.Addr().Is6() {
		return IPFamilyIPv6
	}
	return IPFamilyIPv4
}

// EmergencyStop reports whether an operator has stopped the reconciliations of all Shoots on the Seed. Values that are
// not boolean do not stop anything.
func (s *Seed) EmergencyStop() bool {
	stop, err := strconv.ParseBool(s.Annotations[AnnotationEmergencyStopShootReconciliations])
	return err == nil && stop
}
