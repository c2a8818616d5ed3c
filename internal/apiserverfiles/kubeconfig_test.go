package apiserverfiles

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/golden"
	"hortus.dev/hortus/internal/pki"
)

func TestKubeconfig(t *testing.T) {
	ca, err := pki.NewCA("webhook", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	good := `apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://webhook.example.org/authorize", certificate-authority-data: ` + base64.StdEncoding.EncodeToString(ca.CertPEM) + `}}]
users: [{name: a, user: {token: secret}}]
`
	user := func(fields string) string { return strings.Replace(good, "token: secret", fields, 1) }
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		content string
		refused bool
	}{
		"a good one": {good, false},
		"without a user": {
			strings.Replace(strings.Replace(good, ", user: a}", "}", 1), "users: [{name: a, user: {token: secret}}]",
				"", 1), false,
		},
		"empty":                   {"", true},
		"no YAML":                 {"secret: a: b", true},
		"no context":              {strings.Replace(good, "current-context: a", "", 1), true},
		"another context":         {strings.Replace(good, "current-context: a", "current-context: b", 1), true},
		"no cluster":              {strings.Replace(good, "cluster: a,", "cluster: b,", 1), true},
		"no such user":            {strings.Replace(good, "user: a}", "user: b}", 1), true},
		"not encrypted":           {strings.Replace(good, "https", "http", 1), true},
		"a server without a host": {strings.Replace(good, "webhook.example.org", "", 1), true},
		"a program":               {user("exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}"), true},
		"a plugin":                {user("auth-provider: {name: oidc}"), true},
		"the file of a token":     {user("tokenFile: /srv/kubernetes/service-account-key/id_rsa"), true},
		"files of certificates":   {user("client-certificate: /a, client-key: /b"), true},
		"the file of a CA": {
			strings.Replace(good, "certificate-authority-data: ", "certificate-authority: /a, x: ", 1), true,
		},
		"a program of another user": {
			strings.Replace(good, "token: secret}}]", "token: secret}}, {name: b, user: {exec: {command: sh}}}]", 1), true,
		},
		"a broken CA": {
			strings.Replace(good, "certificate-authority-data: ", "certificate-authority-data: AAAA, x: ", 1), true,
		},
		"too large":          {good + "#" + strings.Repeat("#", maxKubeconfig-len(good)), true},
		"as large as may be": {good + strings.Repeat("#", maxKubeconfig-len(good)), false},
		"half a key pair":    {user("client-certificate-data: AAAA"), true},
	} {
		err := Kubeconfig(map[string][]byte{KeyKubeconfig: []byte(tc.content)})
		if tc.refused != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret:") {
			t.Errorf("%s: the error quotes the content: %v", name, err)
		}
		messages[name] = err
	}
	golden.Messages(t, messages)
}
