package clouddaemon

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	api "hortus.dev/hortus/local/cloud"
)

const (
	adminAccount = "admin"
	secretBytes  = 32
)

// newCredentials makes and stores credentials; only this response has the secret key.
func (c *Cloud) newCredentials(account string, admin bool) (out *api.Credentials, err error) {
	if !freeName.MatchString(account) {
		return nil, invalid("account: invalid value: %q (%s)", account, freeNameRule)
	}
	err = c.store.update(func(tx *tx) error {
		out, err = c.addCredentials(tx, api.Credentials{Account: account, Admin: admin})
		return err
	})
	return out, err
}

// addCredentials completes credentials with keys and stores them.
func (c *Cloud) addCredentials(tx *tx, out api.Credentials) (*api.Credentials, error) {
	secret := make([]byte, secretBytes)
	if _, err := io.ReadFull(c.cfg.Rand, secret); err != nil {
		return nil, fmt.Errorf("read random bytes: %w", err)
	}
	id, err := c.newID("ak-", func(id string) bool { _, ok := c.store.credentials.get(id); return ok })
	if err != nil {
		return nil, err
	}
	out.AccessKey, out.SecretKey = id, base64.RawURLEncoding.EncodeToString(secret)
	out.CreatedAt = c.clock.Now().UTC()
	c.store.credentials.put(tx, id, credentials{Credentials: out, SecretHash: secretHash(out.SecretKey)})
	return &out, nil
}

func secretHash(secretKey string) string {
	sum := sha256.Sum256([]byte(secretKey))
	return hex.EncodeToString(sum[:])
}

// authenticate determines the caller of a request from basic authentication or a bearer token <access key>:<secret
// key>.
func (c *Cloud) authenticate(r *http.Request) (caller, error) {
	access, secret, ok := r.BasicAuth()
	if token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok && isBearer {
		access, secret, ok = strings.Cut(token, ":")
	}
	if !ok {
		return caller{}, api.Errorf(api.CodeAuthFailure, "authentication failed: the request has no credentials")
	}
	var found credentials
	c.store.view(func() { found, ok = c.store.credentials.get(access) })
	if !ok || subtle.ConstantTimeCompare([]byte(found.SecretHash), []byte(secretHash(secret))) != 1 {
		return caller{}, api.Errorf(api.CodeAuthFailure,
			"authentication failed: access key %q is unknown or its secret key is wrong", access)
	}
	if found.SecretKey == "" {
		c.learnSecret(access, secret)
	}
	return found.caller(), nil
}

// learnSecret adds the secret key to credentials of an older version, which stored only its hash.
func (c *Cloud) learnSecret(accessKey, secretKey string) {
	err := c.store.update(func(tx *tx) error {
		if found, ok := c.store.credentials.get(accessKey); ok && found.SecretHash == secretHash(secretKey) {
			found.SecretKey = secretKey
			c.store.credentials.put(tx, accessKey, found)
		}
		return nil
	})
	if err != nil { // The next request tries again.
		c.log.Error("Keeping a secret key failed", "accessKey", accessKey, "error", err)
	}
}

func (r credentials) caller() caller {
	return caller{account: r.Account, admin: r.Admin, bucket: r.Bucket}
}

func (c *Cloud) listCredentials() (out api.List[api.Credentials]) {
	out.Items = []api.Credentials{}
	c.store.view(func() {
		for _, r := range c.store.credentials.sorted(nil) {
			r.SecretKey = ""
			out.Items = append(out.Items, r.Credentials)
		}
	})
	return out
}

func (c *Cloud) deleteCredentials(accessKey string) error {
	return c.store.update(func(tx *tx) error {
		if _, ok := c.store.credentials.get(accessKey); !ok {
			return api.Errorf(api.CodeNotFound, "accessKey: not found: %q", accessKey)
		}
		c.store.credentials.remove(tx, accessKey)
		return nil
	})
}

func (c *Cloud) setQuota(account string, limits api.Limits) (*api.Quota, error) {
	if !freeName.MatchString(account) {
		return nil, invalid("account: invalid value: %q (%s)", account, freeNameRule)
	}
	var out api.Quota
	err := c.store.update(func(tx *tx) error {
		c.store.limits.put(tx, account, accountLimits{Account: account, Limits: limits})
		out = api.Quota{Account: account, Limits: limits, Used: usage(c.store, account, c.machineTypes)}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// listQuotas returns limits and usage of all accounts the caller may see.
func (c *Cloud) listQuotas(who caller) (out api.List[api.Quota]) {
	out.Items = []api.Quota{}
	c.store.view(func() {
		out.Revision = c.store.revision
		accounts := map[string]bool{who.account: true}
		if who.admin {
			for _, r := range c.store.credentials.rows {
				accounts[r.Account] = true
			}
			for _, l := range c.store.limits.rows {
				accounts[l.Account] = true
			}
		}
		for _, account := range slices.Sorted(maps.Keys(accounts)) {
			limits, _ := c.store.limits.get(account)
			out.Items = append(out.Items, api.Quota{
				Account: account, Limits: limits.Limits, Used: usage(c.store, account, c.machineTypes),
			})
		}
	})
	return out
}
