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

// freeNameRule describes freeName.
const freeNameRule = "letters, digits, -, _ and ., first a letter or digit, at most 253 characters"

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
		return invalid("tags: too many: %d (at most %d)", len(tags), maxTags)
	}
	for k, v := range tags {
		if k == "" || strings.Contains(k, "=") || len(k) > maxTagBytes || len(v) > maxTagBytes {
			return invalid("tags: invalid key or value: %q (key: 1 to %d bytes without =, value: at most %[2]d bytes)", k,
				maxTagBytes)
		}
	}
	return nil
}

func validateInstance(in api.CreateInstance) error {
	if !hostLabel.MatchString(in.Name) {
		return invalid("name: invalid value: %q (a DNS label of at most 63 characters)", in.Name)
	}
	if len(in.UserData) > maxUserData {
		return invalid("userData: too long: %d bytes (at most %d)", len(in.UserData), maxUserData)
	}
	targets := map[string]bool{}
	for i, v := range in.Volumes {
		if !path.IsAbs(v.Path) || path.Clean(v.Path) != v.Path || v.Path == "/" {
			return invalid("volumes[%d].path: invalid value: %q (a clean absolute path)", i, v.Path)
		}
		if v.Path == api.VolumesDir || strings.HasPrefix(v.Path, api.VolumesDir+"/") ||
			strings.HasPrefix(api.VolumesDir, v.Path+"/") {
			return invalid("volumes[%d].path: invalid value: %q (outside of %s)", i, v.Path, api.VolumesDir)
		}
		if targets[v.Path] {
			return invalid("volumes[%d].path: duplicate value: %q", i, v.Path)
		}
		targets[v.Path] = true
	}
	return validateTags(in.Tags)
}

func validateListeners(listeners []api.Listener, idleTimeoutSeconds int, admin bool) error {
	if idleTimeoutSeconds < 0 {
		return invalid("idleTimeoutSeconds: invalid value: %d (at least 0)", idleTimeoutSeconds)
	}
	if len(listeners) > maxListeners {
		return invalid("listeners: too many: %d (at most %d)", len(listeners), maxListeners)
	}
	ports := map[int]bool{}
	for i, l := range listeners {
		if l.Port < 1 || l.Port > 65535 {
			return invalid("listeners[%d].port: invalid value: %d (1 to 65535)", i, l.Port)
		}
		if ports[l.Port] {
			return invalid("listeners[%d].port: duplicate value: %d", i, l.Port)
		}
		ports[l.Port] = true
		if len(l.Targets) > maxTargets {
			return invalid("listeners[%d].targets: too many: %d (at most %d)", i, len(l.Targets), maxTargets)
		}
		for j, t := range l.Targets {
			if t.Port < 1 || t.Port > 65535 {
				return invalid("listeners[%d].targets[%d].port: invalid value: %d (1 to 65535)", i, j, t.Port)
			}
			if (t.InstanceID == "") == (t.Host == "") {
				return invalid("listeners[%d].targets[%d]: invalid value: instanceID %q, host %q (exactly one of them)", i, j,
					t.InstanceID, t.Host)
			}
			if t.Host != "" && !admin {
				return api.Errorf(api.CodeUnauthorized, "listeners[%d].targets[%d].host: forbidden: %q (administrators only)",
					i, j, t.Host)
			}
		}
	}
	return nil
}

// validateAllowed checks the prefixes from which a load balancer takes connections.
func validateAllowed(cidrs []string) error {
	if len(cidrs) > maxAllowed {
		return invalid("allowedCIDRs: too many: %d (at most %d)", len(cidrs), maxAllowed)
	}
	for i, cidr := range cidrs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return invalid("allowedCIDRs[%d]: invalid value: %q (a prefix such as 192.0.2.0/24)", i, cidr)
		}
	}
	return nil
}

// normalizeRecord checks a DNS record and fills in its defaults.
func normalizeRecord(r api.DNSRecord) (api.DNSRecord, error) {
	r.Name = strings.ToLower(strings.TrimSuffix(r.Name, "."))
	r.Type = strings.ToUpper(r.Type)
	if len(r.Name) > maxNameBytes || !recordName.MatchString(r.Name) {
		return r, invalid("name: invalid value: %q (a DNS name)", r.Name)
	}
	if r.TTLSeconds == 0 {
		r.TTLSeconds = defaultTTL
	}
	if r.TTLSeconds < 1 || r.TTLSeconds > maxTTL {
		return r, invalid("ttlSeconds: invalid value: %d (1 to %d)", r.TTLSeconds, maxTTL)
	}
	if len(r.Values) == 0 {
		return r, invalid("values: required: record %s (at least one value)", r.Name)
	}
	r.Values = slices.Clone(r.Values)
	for i, v := range r.Values {
		switch r.Type {
		case "A":
			if a, err := netip.ParseAddr(v); err != nil || !a.Is4() {
				return r, invalid("values[%d]: invalid value: %q (an IPv4 address)", i, v)
			}
		case "CNAME":
			r.Values[i] = strings.ToLower(strings.TrimSuffix(v, "."))
			if len(r.Values) > 1 || !recordName.MatchString(r.Values[i]) {
				return r, invalid("values: invalid value: %q (exactly one DNS name)", r.Values)
			}
		case "TXT":
			if len(v) > 255 {
				return r, invalid("values[%d]: too long: %d bytes (at most 255)", i, len(v))
			}
		default:
			return r, invalid("type: unsupported value: %q (A, CNAME, TXT)", r.Type)
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
