package codec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

func TestLeadingMeta(t *testing.T) {
	for name, tc := range map[string]struct {
		document, apiVersion, kind string
		ok                         bool
	}{
		"as our encoder writes": {
			`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","metadata":{}}`, "core.gardener.cloud/v1beta1", "Shoot",
			true,
		},
		"sorted, as clients write": {`{"apiVersion":"v1","kind":"Secret"}`, "v1", "Secret", true},
		"indented": {
			"{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Secret\",\n  \"a\": 1\n}", "v1", "Secret", true,
		},
		"behind the metadata":            {document: `{"metadata":{},"apiVersion":"v1","kind":"Secret"}`},
		"only one of them":               {document: `{"kind":"Secret","metadata":{}}`},
		"twice the same":                 {document: `{"kind":"Secret","kind":"Shoot","apiVersion":"v1"}`},
		"escaped, which is left to JSON": {document: `{"kind":"S\u0065cret","apiVersion":"v1"}`},
		"no object":                      {document: `[]`},
		"nothing":                        {document: ``},
		"cut off":                        {document: `{"kind":"Secret","apiVersion":"v1"`},
		"no string":                      {document: `{"kind":1,"apiVersion":"v1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			apiVersion, kind, ok := leadingMeta([]byte(tc.document))
			if !ok {
				apiVersion, kind = "", ""
			}
			if apiVersion != tc.apiVersion || kind != tc.kind || ok != tc.ok {
				t.Errorf("got %q, %q, %t", apiVersion, kind, ok)
			}
		})
	}
}

// FuzzQuickMeta compares with the library wherever that accepts a document. Of members that are written twice the
// library takes the last; they are told to the client when the document is decoded.
func FuzzQuickMeta(f *testing.F) {
	f.Add(`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","metadata":{}}`)
	f.Add("{ \"apiVersion\": \"v1\" ,\t\"kind\":\"Secret\"}")
	f.Fuzz(func(t *testing.T, document string) {
		lower := strings.ToLower(document)
		if strings.Count(lower, "kind") > 1 || strings.Count(lower, "apiversion") > 1 || strings.Contains(document, `\`) {
			return
		}
		want, err := json.DefaultMetaFactory.Interpret([]byte(document))
		if err != nil {
			return
		}
		got, err := quickMeta{}.Interpret([]byte(document))
		if err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", document, diff)
		}
	})
}
