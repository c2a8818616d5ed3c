package clouddaemon

import (
	"strings"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/nameserver"
)

func (c *Cloud) setDNSRecord(who caller, in api.DNSRecord) (*api.DNSRecord, error) {
	r, err := normalizeRecord(in)
	if err != nil {
		return nil, err
	}
	r.Account, r.UpdatedAt = who.account, c.clock.Now().UTC()
	err = c.store.update(func(tx *tx) error {
		for _, other := range []string{"A", "CNAME", "TXT"} {
			old, ok := c.store.dnsRecords.get(dnsKey(r.Name, other))
			switch {
			case !ok:
			case !who.may(old.Account):
				return api.Errorf(api.CodeUnauthorized, "name: forbidden: %s (names of other accounts)", r.Name)
			case other == r.Type:
				r.Account = old.Account
			case other == "CNAME" || r.Type == "CNAME":
				// RFC 1034 section 3.6.2: a name with a CNAME has no other data. The new record wins, so that clients can
				// change the type of a name in one call.
				c.store.dnsRecords.remove(tx, dnsKey(r.Name, other))
			}
		}
		c.store.dnsRecords.put(tx, dnsKey(r.Name, r.Type), dnsRecord{r})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &r, nil
}

func (c *Cloud) listDNSRecords(who caller, f api.Filter) (out api.List[api.DNSRecord]) {
	out.Items = []api.DNSRecord{}
	c.store.view(func() {
		out.Revision = c.store.revision
		for _, r := range c.store.dnsRecords.sorted(func(r dnsRecord) bool {
			return who.may(r.Account) && (f.Name == "" || f.Name == r.Name)
		}) {
			out.Items = append(out.Items, r.DNSRecord)
		}
	})
	return out
}

func (c *Cloud) deleteDNSRecord(who caller, name, recordType string) error {
	key := dnsKey(strings.ToLower(strings.TrimSuffix(name, ".")), strings.ToUpper(recordType))
	return c.store.update(func(tx *tx) error {
		r, ok := c.store.dnsRecords.get(key)
		if !ok || !who.may(r.Account) {
			return api.Errorf(api.CodeNotFound, "DNS record: not found: %s of type %s", name, recordType)
		}
		c.store.dnsRecords.remove(tx, key)
		return nil
	})
}

// zone lets the name server read the records.
type zone struct{ store *store }

func (z zone) Records(name string) []nameserver.Record {
	var out []nameserver.Record
	z.store.view(func() {
		for _, t := range []string{"A", "CNAME", "TXT"} {
			if r, ok := z.store.dnsRecords.get(dnsKey(name, t)); ok {
				out = append(out, nameserver.Record{Type: t, Values: r.Values, TTLSeconds: r.TTLSeconds})
			}
		}
	})
	return out
}

func (z zone) HasBelow(name string) bool {
	found := false
	z.store.view(func() {
		for _, r := range z.store.dnsRecords.rows {
			if found = strings.HasSuffix(r.Name, "."+name); found {
				return
			}
		}
	})
	return found
}
