package encryption

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Ciphers, as an EncryptionConfiguration names them.
const (
	AESCBC    = "aescbc"
	AESGCM    = "aesgcm"
	Secretbox = "secretbox"
)

// identity is the provider of plain text in an EncryptionConfiguration.
const identity = "identity"

// ciphers in the order in which readers are listed.
var ciphers = []string{AESCBC, AESGCM, Secretbox}

// Provider is one way to store an object: a cipher with a key of that name, or in plain text.
type Provider struct{ Cipher, Key string }

// Plain stores objects as they are.
var Plain = Provider{Cipher: identity}

// Prefix is what a value in etcd begins with that was written by the provider; "" for plain text, whose values begin
// with anything that is not PrefixEncrypted.
func (p Provider) Prefix() string {
	if p == Plain {
		return ""
	}
	return PrefixEncrypted + p.Cipher + ":v1:" + p.Key + ":"
}

// PrefixEncrypted is what every encrypted value in etcd begins with.
const PrefixEncrypted = "k8s:enc:"

// Stores reports whether the provider has written the value.
func (p Provider) Stores(value []byte) bool {
	if p == Plain {
		return !hasPrefix(value, PrefixEncrypted)
	}
	return hasPrefix(value, p.Prefix())
}

func hasPrefix(value []byte, prefix string) bool {
	return len(value) >= len(prefix) && string(value[:len(prefix)]) == prefix
}

// Config is the encryption configuration of API servers.
type Config struct {
	// Providers of each resource, such as secrets or deployments.apps. The first one writes, all read. Resources without
	// an entry are stored in plain text. A list ends with Plain unless Plain writes.
	Providers map[string][]Provider
	// Keys holds the keys in base64 by name.
	Keys map[string]string
}

// Of returns the providers of a resource.
func (c Config) Of(resource string) []Provider {
	if list := c.Providers[resource]; len(list) > 0 {
		return list
	}
	return []Provider{Plain}
}

// Equal reports whether both configure the servers in the same way.
func (c Config) Equal(other Config) bool {
	return maps.EqualFunc(c.Providers, other.Providers, slices.Equal[[]Provider]) && maps.Equal(c.Keys, other.Keys)
}

// The parts of an EncryptionConfiguration that are used
// (https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/).
type (
	file struct {
		APIVersion string      `json:"apiVersion"`
		Kind       string      `json:"kind"`
		Resources  []fileEntry `json:"resources"`
	}
	fileEntry struct {
		Resources []string                  `json:"resources"`
		Providers []map[string]fileProvider `json:"providers"`
	}
	fileProvider struct {
		Keys []fileKey `json:"keys,omitempty"`
	}
	fileKey struct {
		Name   string `json:"name"`
		Secret string `json:"secret"`
	}
)

// Render returns the EncryptionConfiguration; the same bytes for the same Config.
func (c Config) Render() []byte {
	byProviders := map[string][]string{}
	for resource, providers := range c.Providers {
		key := fmt.Sprint(providers)
		byProviders[key] = append(byProviders[key], resource)
	}
	out := file{APIVersion: "apiserver.config.k8s.io/v1", Kind: "EncryptionConfiguration"}
	for _, resources := range byProviders {
		slices.Sort(resources)
		out.Resources = append(out.Resources, fileEntry{Resources: resources, Providers: c.render(c.Providers[resources[0]])})
	}
	slices.SortFunc(out.Resources, func(a, b fileEntry) int { return cmp.Compare(a.Resources[0], b.Resources[0]) })
	text, err := yaml.Marshal(out)
	if err != nil {
		panic(fmt.Sprintf("encryption: marshal %T: %v", out, err)) // Plain data.
	}
	return text
}

// render makes one entry of adjacent providers with the same cipher.
func (c Config) render(list []Provider) []map[string]fileProvider {
	var out []map[string]fileProvider
	for i, p := range list {
		if i > 0 && p.Cipher == list[i-1].Cipher {
			last := out[len(out)-1][p.Cipher]
			last.Keys = append(last.Keys, fileKey{p.Key, c.Keys[p.Key]})
			out[len(out)-1][p.Cipher] = last
			continue
		}
		entry := fileProvider{}
		if p != Plain {
			entry.Keys = []fileKey{{p.Key, c.Keys[p.Key]}}
		}
		out = append(out, map[string]fileProvider{p.Cipher: entry})
	}
	return out
}

// Parse reads what Render has written.
func Parse(text []byte) (Config, error) {
	in := file{}
	if err := yaml.UnmarshalStrict(text, &in); err != nil {
		// The text holds keys, which a quoted part of it would show.
		return Config{}, fmt.Errorf("parse EncryptionConfiguration: it is not valid")
	}
	c := Config{Providers: map[string][]Provider{}, Keys: map[string]string{}}
	for _, entry := range in.Resources {
		var list []Provider
		for _, one := range entry.Providers {
			for cipher, p := range one {
				if cipher != identity && !slices.Contains(ciphers, cipher) {
					return Config{}, fmt.Errorf("parse EncryptionConfiguration: unknown provider: %q (%s, %s)",
						cipher, strings.Join(ciphers, ", "), identity)
				}
				if cipher == identity {
					list = append(list, Plain)
				}
				for _, k := range p.Keys {
					list = append(list, Provider{cipher, k.Name})
					c.Keys[k.Name] = k.Secret
				}
			}
		}
		for _, resource := range entry.Resources {
			c.Providers[resource] = slices.Clone(list)
		}
	}
	return c, nil
}

// ordered returns the list with the writer in front and the readers in a fixed order: those with the writer's cipher
// first, since an EncryptionConfiguration lists a cipher once, and plain text last.
func ordered(writer Provider, readers ...Provider) []Provider {
	rest := slices.DeleteFunc(slices.Clone(readers), func(p Provider) bool { return p == writer })
	if writer != Plain && !slices.Contains(rest, Plain) {
		rest = append(rest, Plain)
	}
	rank := func(p Provider) int {
		switch p.Cipher {
		case writer.Cipher:
			return 0
		case identity:
			return len(ciphers) + 1
		}
		return 1 + slices.Index(ciphers, p.Cipher)
	}
	slices.SortFunc(rest, func(a, b Provider) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.Key, b.Key))
	})
	return append([]Provider{writer}, slices.Compact(rest)...)
}

// withUsedKeys drops keys that no provider uses.
func (c Config) withUsedKeys() Config {
	used := map[string]string{}
	for _, list := range c.Providers {
		for _, p := range list {
			if p != Plain {
				used[p.Key] = c.Keys[p.Key]
			}
		}
	}
	return Config{Providers: c.Providers, Keys: used}
}

// resources of both, sorted.
func resources(a, b map[string][]Provider) []string {
	all := slices.Collect(maps.Keys(a))
	all = slices.AppendSeq(all, maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
