package v1beta1

import "strings"

// internalLabel is in every internal domain, so that it is not mistaken for one of users.
const internalLabel = "internal"

// InternalDomain is the domain below which the Seed has the internal names of Shoots, "" if it has none. The label
// "internal" is put in front unless the domain has that word already.
func (s *SeedSpec) InternalDomain() string {
	switch {
	case s.DNS.Internal == nil:
		return ""
	case strings.Contains(s.DNS.Internal.Domain, internalLabel):
		return s.DNS.Internal.Domain
	}
	return internalLabel + "." + s.DNS.Internal.Domain
}
