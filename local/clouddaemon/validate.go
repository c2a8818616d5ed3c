package clouddaemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	api "hortus.dev/hortus/local/cloud"
)

var (
	// hostLabel is a DNS label (RFC 1123 section 2.1), since instance names become host names.
	hostLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	// freeName is for names that only people and programs read.
	freeName = regexp.MustCompile(`^[A-Za-z0-9][-_.A-Za-z0-9]{0,252}$`)
	// bucketName is the common part of the naming rules of object stores.
	bucketName = regexp.MustCompile(`^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$`)
	// recordName allows underscores as in _service labels, and a wildcard as first label.
	recordName = regexp.MustCompile(`^(\*\.)?([_a-z0-9]([-_a-z0-9]{0,61}[_a-z0-9])?)(\.[_a-z0-9]([-_a-z0-9]{0,61}[_a-z0-9])?)*$`)
)

const (
	maxUserData  = 1 << 20
	maxTags      = 50
	maxTagBytes  = 512
	maxListeners = 50
	// maxAllowed suffices for all addresses but a few of either family: one IPv6 address is excluded by 128 prefixes.
	maxAllowed   = 256
	maxTargets   = 1000
	maxNameBytes = 253 // RFC 1035 section 2.3.4.
	maxTTL       = 3600
	defaultTTL   = 5
	maxKeyBytes  = 1024
)

func invalid(format string, args ...any) error { return api.Errorf(api.CodeInvalid, format, args...) }

func validateTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return invalid("%d tags are more than the %d allowed", len(tags), maxTags)
	}
	for k, v := range tags {
		if k == "" || strings.Contains(k, "=") || len(k) > maxTagBytes || len(v) > maxTagBytes {
			return invalid("tag %q: a key is not empty and without =, key and value have at most %d bytes", k, maxTagBytes)
		}
	}
	return nil
}

func validateInstance(in api.CreateInstance) error {
	if !hostLabel.MatchString(in.Name) {
		return invalid("name %q is not a DNS label of at most 63 characters", in.Name)
	}
	if len(in.UserData) > maxUserData {
		return invalid("userData has %d bytes, at most %d are allowed", len(in.UserData), maxUserData)
	}
	targets := map[string]bool{}
	for _, v := range in.Volumes {
		if !path.IsAbs(v.Path) || path.Clean(v.Path) != v.Path || v.Path == "/" {
			return invalid("path %q of volume %q is not a clean absolute path", v.Path, v.VolumeID)
		}
		if v.Path == api.VolumesDir || strings.HasPrefix(v.Path, api.VolumesDir+"/") ||
			strings.HasPrefix(api.VolumesDir, v.Path+"/") {
			return invalid("path %q of volume %q overlaps with %s", v.Path, v.VolumeID, api.VolumesDir)
		}
		if targets[v.Path] {
			return invalid("two volumes have the path %q", v.Path)
		}
		targets[v.Path] = true
	}
	return validateTags(in.Tags)
}

func validateListeners(listeners []api.Listener, idleTimeoutSeconds int, admin bool) error {
	if idleTimeoutSeconds < 0 {
		return invalid("idleTimeoutSeconds must not be negative")
	}
	if len(listeners) > maxListeners {
		return invalid("%d listeners are more than the %d allowed", len(listeners), maxListeners)
	}
	ports := map[int]bool{}
	for _, l := range listeners {
		if l.Port < 1 || l.Port > 65535 {
			return invalid("listener port %d is not in 1-65535", l.Port)
		}
		if ports[l.Port] {
			return invalid("two listeners have the port %d", l.Port)
		}
		ports[l.Port] = true
		if len(l.Targets) > maxTargets {
			return invalid("listener %d: %d targets are more than the %d allowed", l.Port, len(l.Targets), maxTargets)
		}
		for _, t := range l.Targets {
			if t.Port < 1 || t.Port > 65535 {
				return invalid("listener %d: target port %d is not in 1-65535", l.Port, t.Port)
			}
			if (t.InstanceID == "") == (t.Host == "") {
				return invalid("listener %d: a target has either an instanceID or a host", l.Port)
			}
			if t.Host != "" && !admin {
				return api.Errorf(api.CodeUnauthorized, "only administrators may use targets outside of networks")
			}
		}
	}
	return nil
}

// validateAllowed checks the prefixes from which a load balancer takes connections.
func validateAllowed(cidrs []string) error {
	if len(cidrs) > maxAllowed {
		return invalid("%d allowed prefixes are more than the %d possible", len(cidrs), maxAllowed)
	}
	for _, cidr := range cidrs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return invalid("allowed prefix %q is not a prefix such as 192.0.2.0/24", cidr)
		}
	}
	return nil
}

// normalizeRecord checks a DNS record and fills in its defaults.
func normalizeRecord(r api.DNSRecord) (api.DNSRecord, error) {
	r.Name = strings.ToLower(strings.TrimSuffix(r.Name, "."))
	r.Type = strings.ToUpper(r.Type)
	if len(r.Name) > maxNameBytes || !recordName.MatchString(r.Name) {
		return r, invalid("%q is not a DNS name", r.Name)
	}
	if r.TTLSeconds == 0 {
		r.TTLSeconds = defaultTTL
	}
	if r.TTLSeconds < 1 || r.TTLSeconds > maxTTL {
		return r, invalid("ttlSeconds %d is not in 1-%d", r.TTLSeconds, maxTTL)
	}
	if len(r.Values) == 0 {
		return r, invalid("record %s needs at least one value", r.Name)
	}
	r.Values = slices.Clone(r.Values)
	for i, v := range r.Values {
		switch r.Type {
		case "A":
			if a, err := netip.ParseAddr(v); err != nil || !a.Is4() {
				return r, invalid("value %q of A record %s is not an IPv4 address", v, r.Name)
			}
		case "CNAME":
			r.Values[i] = strings.ToLower(strings.TrimSuffix(v, "."))
			if len(r.Values) > 1 || !recordName.MatchString(r.Values[i]) {
				return r, invalid("CNAME record %s needs exactly one DNS name, not %q", r.Name, v)
			}
		case "TXT":
			if len(v) > 255 {
				return r, invalid("a value of TXT record %s has more than 255 bytes", r.Name)
			}
		default:
			return r, invalid("record type %q is not one of A, CNAME, TXT", r.Type)
		}
	}
	slices.Sort(r.Values)
	r.Values = slices.Compact(r.Values)
	return r, nil
}

// hash identifies the parameters of a create call.
func hash(in any) string {
	data, err := json.Marshal(in)
	if err != nil {
		panic(err) // Requests were decoded from JSON.
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// tagsMatch reports whether all wanted tags are present.
func tagsMatch(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}
