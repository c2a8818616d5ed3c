package store

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// googleValues are credentials for a server that implements Google Cloud Storage, with a bucket, and issues access
// tokens for keys of service accounts.
func googleValues(t *testing.T) map[string]string {
	t.Helper()
	const bucket, token = "backups", "token-of-the-test"
	var storage http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, token)
		case r.Header.Get("Authorization") != "Bearer "+token:
			http.Error(w, "no token", http.StatusUnauthorized)
		default:
			storage.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, ExternalURL: server.URL, PublicHost: strings.TrimPrefix(server.URL, "http://"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Stop)
	fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	storage = fake.HTTPHandler()

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "backups@example.org", "private_key_id": "1", "token_uri": server.URL +
			"/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"serviceaccount.json": string(account), "bucketName": bucket, "endpoint": server.URL + "/storage/v1/",
	}
}
