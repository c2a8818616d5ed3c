package clouddaemon

import (
	"time"

	api "hortus.dev/hortus/local/cloud"
)

// The records embed the types of the API and add the fields that only the daemon needs.

type instance struct {
	api.Instance
	// RequestHash distinguishes a repeated create call from one with other parameters under the same name.
	RequestHash string `json:"requestHash"`
	// Reboot requests that the reconciler stop the instance once.
	Reboot bool `json:"reboot,omitempty"`
	// Exits counts consecutive ends of the instance soon after its start; it determines the pause before the next boot.
	Exits int `json:"exits,omitempty"`
	// ExitedAt is the time at which the daemon saw the last end.
	ExitedAt time.Time `json:"exitedAt,omitzero"`
}

func (r instance) event() api.Event {
	return api.Event{Kind: "instance", ID: r.ID, Name: r.Name, State: r.State, Account: r.Account}
}
func (r instance) uniqueName() string { return nameKey(r.Account, r.Name) }

type network struct {
	api.Network
	RequestHash string `json:"requestHash"`
	// LastAddress is the last assigned address; the search for a free one continues after it. So an address is reused
	// as late as possible, and clients notice that the machine behind it has changed.
	LastAddress string `json:"lastAddress,omitempty"`
}

func (r network) event() api.Event {
	return api.Event{Kind: "network", ID: r.ID, Name: r.Name, State: r.State, Account: r.Account}
}
func (r network) uniqueName() string { return nameKey(r.Account, r.Name) }

type loadBalancer struct {
	api.LoadBalancer
	RequestHash string `json:"requestHash"`
}

func (r loadBalancer) event() api.Event {
	return api.Event{Kind: "loadbalancer", ID: r.ID, Name: r.Name, State: r.State, Account: r.Account}
}
func (r loadBalancer) uniqueName() string { return nameKey(r.Account, r.Name) }

type volume struct {
	api.Volume
	RequestHash string `json:"requestHash"`
}

func (r volume) event() api.Event {
	return api.Event{Kind: "volume", ID: r.ID, Name: r.Name, State: r.State, Account: r.Account}
}
func (r volume) uniqueName() string { return nameKey(r.Account, r.Name) }

type dnsRecord struct{ api.DNSRecord }

func (r dnsRecord) event() api.Event {
	return api.Event{Kind: "dnsrecord", ID: dnsKey(r.Name, r.Type), Account: r.Account}
}
func (r dnsRecord) uniqueName() string { return "" }

type bucket struct{ api.Bucket }

func (r bucket) event() api.Event   { return api.Event{Kind: "bucket", ID: r.Name, Account: r.Account} }
func (r bucket) uniqueName() string { return "" }

type object struct {
	api.Object
	Bucket string `json:"bucket"`
	// File is the name of the file with the content below the bucket's directory.
	File string `json:"file"`
	// ETag is the entity tag without quotes: the MD5 of the content, or of its parts with their number. Objects of older
	// versions have none.
	ETag string `json:"etag,omitempty"`
	// PartSizes are the sizes of the parts it was uploaded in, empty if it was uploaded as a whole.
	PartSizes []int64 `json:"partSizes,omitempty"`
	// Headers are the headers that S3 clients get back with the content: its type, their own metadata, its checksum.
	Headers map[string]string `json:"headers,omitempty"`
}

// etag is the entity tag without quotes.
func (r object) etag() string {
	if r.ETag == "" {
		return r.SHA256
	}
	return r.ETag
}

func (r object) event() api.Event   { return api.Event{} }
func (r object) uniqueName() string { return "" }

type credentials struct {
	api.Credentials
	// SecretHash is the SHA-256 of the secret key. The key itself is kept too, since signatures of S3 requests can only be
	// checked with it; credentials of older versions lack it until they are used once.
	SecretHash string `json:"secretHash"`
}

func (r credentials) event() api.Event   { return api.Event{} }
func (r credentials) uniqueName() string { return "" }

type accountLimits struct {
	Account string     `json:"account"`
	Limits  api.Limits `json:"limits"`
}

func (r accountLimits) event() api.Event {
	return api.Event{Kind: "quota", ID: r.Account, Account: r.Account}
}
func (r accountLimits) uniqueName() string { return "" }

type fault struct{ api.Fault }

func (r fault) event() api.Event   { return api.Event{Kind: "fault", ID: r.Name} }
func (r fault) uniqueName() string { return "" }

func nameKey(account, name string) string { return account + "/" + name }

func dnsKey(name, recordType string) string { return name + "/" + recordType }

func objectKey(bucket, key string) string { return bucket + "/" + key }
