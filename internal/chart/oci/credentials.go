package oci

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// credentials of registries, by host or by host and the beginning of the repository's path.
type credentials map[string]authn.AuthConfig

// parseCredentials reads the format of .dockerconfigjson. Errors do not quote it.
func parseCredentials(config []byte) (credentials, error) {
	if len(config) == 0 {
		return nil, nil
	}
	var file struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(config, &file); err != nil {
		return nil, errors.New("the credentials of registries are not in the format of .dockerconfigjson")
	}
	all := credentials{}
	for key, auth := range file.Auths {
		all[place(key)] = auth
	}
	return all, nil
}

// place is a key of the file without what clients add to it: https://index.docker.io/v1/ stands for index.docker.io.
func place(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	key = strings.TrimSuffix(key, "/")
	key = strings.TrimSuffix(strings.TrimSuffix(key, "/v1"), "/v2")
	if rest, found := strings.CutPrefix(key, "docker.io"); found && (rest == "" || rest[0] == '/') {
		key = "index.docker.io" + rest
	}
	return key
}

// Resolve implements authn.Keychain: of all keys that a repository begins with, the longest counts.
func (c credentials) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	longest := ""
	for key := range c {
		rest, found := strings.CutPrefix(resource.String(), key)
		if found && (rest == "" || rest[0] == '/') && len(key) > len(longest) {
			longest = key
		}
	}
	if longest == "" {
		return authn.Anonymous, nil
	}
	return authn.FromConfig(c[longest]), nil
}
