package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Provider is a kind of object store.
type Provider string

// The providers.
const (
	S3    Provider = "S3"
	GCS   Provider = "Google Cloud Storage"
	Azure Provider = "Azure Blob Storage"
	File  Provider = "folder"
)

// Keys of the Secret.
const (
	keyBucket = "bucketName"
	// keyEndpoint replaces the provider's public endpoint; optional, for S3, GCS and Azure.
	keyEndpoint = "endpoint"

	keyAccessKeyID     = "accessKeyID"
	keySecretAccessKey = "secretAccessKey"
	keyRegion          = "region"
	keyForcePathStyle  = "s3ForcePathStyle"
	keyTrustedCA       = "trustedCaCert"

	keyServiceAccount = "serviceaccount.json"

	keyStorageAccount = "storageAccount"
	keyStorageKey     = "storageKey"
	keyDomain         = "domain"

	keyPath = "path"
)

// needed are the keys by which a provider is recognised; it requires all of them.
var needed = []struct {
	provider Provider
	keys     []string
}{
	{S3, []string{keyAccessKeyID, keySecretAccessKey}},
	{GCS, []string{keyServiceAccount}},
	{Azure, []string{keyStorageAccount, keyStorageKey}},
	{File, []string{keyPath}},
}

// secrets are the keys whose values must not get into messages.
var secrets = []string{keyAccessKeyID, keySecretAccessKey, keyServiceAccount, keyStorageKey}

// maxValue is the size limit of a Secret.
const maxValue = 1 << 20

// credentials are the contents of the folder.
type credentials struct {
	dir    string
	values map[string]string
}

// readCredentials reads every file of the folder. Dot files are skipped: a Secret volume keeps its versions in them.
func readCredentials(dir string) (credentials, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return credentials{}, fmt.Errorf("read credentials: %w", err)
	}
	c := credentials{dir: dir, values: map[string]string{}}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(entry.Name(), ".") || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err == nil && info.Size() > maxValue {
			err = fmt.Errorf("%s: too large: %d bytes (at most %d)", path, info.Size(), maxValue)
		}
		if err != nil {
			return credentials{}, fmt.Errorf("read credentials: %w", err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return credentials{}, fmt.Errorf("read credentials: %w", err)
		}
		c.values[entry.Name()] = strings.TrimSpace(string(data))
	}
	return c, nil
}

// fingerprint changes when a file of the folder does; it is cheap enough to be computed often.
func fingerprint(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "unreadable"
	}
	var b strings.Builder
	for _, entry := range entries {
		if info, err := os.Stat(filepath.Join(dir, entry.Name())); err == nil { // Through the links of a Secret volume.
			fmt.Fprintf(&b, "%s %d %d\n", entry.Name(), info.ModTime().UnixNano(), info.Size())
		}
	}
	return b.String()
}

// provider is detected from the keys.
func (c credentials) provider() (Provider, error) {
	var found []string
	var is Provider
	for _, n := range needed {
		if !slices.ContainsFunc(n.keys, func(k string) bool { return c.values[k] != "" }) {
			continue
		}
		for _, k := range n.keys {
			if c.values[k] == "" {
				return "", fmt.Errorf("%s: required value: %s needs %s", filepath.Join(c.dir, k), n.provider, strings.Join(n.keys,
					" and "))
			}
		}
		found, is = append(found, n.keys[0]), n.provider
	}
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("%s: no credentials found (one of %s, %s, %s, %s)", c.dir, keyAccessKeyID, keyServiceAccount,
			keyStorageAccount, keyPath)
	case len(found) > 1:
		return "", fmt.Errorf("%s: credentials of several providers: %s (one of them)", c.dir, strings.Join(found, ", "))
	case is != File && c.values[keyBucket] == "":
		return "", fmt.Errorf("%s: required value", filepath.Join(c.dir, keyBucket))
	}
	return is, nil
}

func (c credentials) flag(key string) (bool, error) {
	value := c.values[key]
	if value == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%s: invalid value: %q (true, false)", filepath.Join(c.dir, key), value)
	}
	return b, nil
}

// scrub removes the values of secrets from a message.
func (c credentials) scrub(message string) string {
	for _, key := range secrets {
		if value := c.values[key]; len(value) >= 4 {
			message = strings.ReplaceAll(message, value, "<"+key+">")
		}
	}
	return message
}

// location names the location of the store in messages.
func (c credentials) location(p Provider) string {
	at := ""
	if endpoint := c.values[keyEndpoint]; endpoint != "" {
		at = " at " + endpoint
	}
	if p == File {
		return fmt.Sprintf("folder %q", c.folder())
	}
	return fmt.Sprintf("%s bucket %q%s", p, c.values[keyBucket], at)
}

// folder is the local folder of provider File.
func (c credentials) folder() string {
	return filepath.Join(c.values[keyPath], c.values[keyBucket])
}
