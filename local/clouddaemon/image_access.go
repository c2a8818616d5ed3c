package clouddaemon

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/registry"
)

// imageKeyBytes is the size, in bytes, of the key from which the passwords of instances are derived: the size of the
// hash.
const imageKeyBytes = sha256.Size

// imageKey reads the key of the registry, or makes it.
func imageKey(path string, random io.Reader) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil && len(key) == imageKeyBytes {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read key of the registry: %w", err)
	}
	key = make([]byte, imageKeyBytes)
	if _, err := io.ReadFull(random, key); err != nil {
		return nil, fmt.Errorf("make key of the registry: %w", err)
	}
	if err := os.WriteFile(path, key, 0o600); err != nil {
		return nil, fmt.Errorf("write key of the registry: %w", err)
	}
	return key, nil
}

// imagePassword returns the password with which an instance pulls images; its user name is its ID. It is derived from
// the key, so nothing is stored per instance.
func (c *Cloud) imagePassword(id string) string {
	mac := hmac.New(sha256.New, c.imageKey)
	mac.Write([]byte(id))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// guardImages admits existing instances and callers with credentials for the API, since a pull may make the cloud build
// the image.
func (c *Cloud) guardImages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.mayPull(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			registry.Refuse(w, "pull with the credentials of an instance, or of the API")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *Cloud) mayPull(r *http.Request) bool {
	id, password, ok := r.BasicAuth()
	if ok && subtle.ConstantTimeCompare([]byte(password), []byte(c.imagePassword(id))) == 1 {
		var found instance
		var exists bool
		c.store.view(func() { found, exists = c.store.instances.get(id) })
		return exists && found.State != api.StateTerminating
	}
	_, err := c.authenticate(r)
	return err == nil
}
