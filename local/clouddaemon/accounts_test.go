package clouddaemon

import (
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"

	api "hortus.dev/hortus/local/cloud"
)

func TestCredentialsOfOlderVersionsLearnTheirSecretKey(t *testing.T) {
	s, err := openStore(filepath.Join(t.TempDir(), "db"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	c := &Cloud{store: s, log: slog.New(slog.DiscardHandler)}
	err = s.update(func(tx *tx) error {
		old := credentials{
			Credentials: api.Credentials{AccessKey: "ak-1", Account: "alice"}, SecretHash: secretHash("secret"),
		}
		s.credentials.put(tx, "ak-1", old)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ secret, want string }{{"wrong", ""}, {"secret", "secret"}} {
		r := httptest.NewRequest("GET", "/v1/about", nil)
		r.SetBasicAuth("ak-1", tc.secret)
		if _, err := c.authenticate(r); (err == nil) != (tc.want != "") {
			t.Errorf("authenticate() with %q = %v", tc.secret, err)
		}
		if known, _ := s.credentials.get("ak-1"); known.SecretKey != tc.want {
			t.Errorf("after a request with %q the secret key is %q, want %q", tc.secret, known.SecretKey, tc.want)
		}
	}
	for _, listed := range c.listCredentials().Items {
		if listed.SecretKey != "" {
			t.Error("a list of credentials shows secret keys")
		}
	}
}
