package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestDecode(t *testing.T) {
	const head = `"apiVersion":"local.provider.hortus.dev/v1alpha1","kind":"InfrastructureConfig"`
	for name, tc := range map[string]struct {
		raw  string
		want string // The network.
		fail bool
	}{
		"nothing at all":         {raw: ""},
		"null":                   {raw: "null"},
		"an empty object":        {raw: "{}"},
		"a full object":          {raw: "{" + head + `,"networks":{"cidr":"10.0.0.0/16"}}`, want: "10.0.0.0/16"},
		"an object without type": {raw: `{"networks":{"cidr":"10.0.0.0/16"}}`, want: "10.0.0.0/16"},
		"a misspelt field":       {raw: "{" + head + `,"networks":{"cird":"10.0.0.0/16"}}`, fail: true},
		"another kind": {
			raw: `{"apiVersion":"local.provider.hortus.dev/v1alpha1","kind":"WorkerConfig"}`, fail: true,
		},
		"another provider": {raw: `{"apiVersion":"aws/v1","kind":"InfrastructureConfig"}`, fail: true},
		"two objects":      {raw: "{}{}", fail: true},
		"not an object":    {raw: `"x"`, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := &InfrastructureConfig{}
			err := Decode(&runtime.RawExtension{Raw: []byte(tc.raw)}, "InfrastructureConfig", got)
			if (err != nil) != tc.fail {
				t.Fatalf("Decode() error is %v, want one: %v", err, tc.fail)
			}
			if !tc.fail && got.Networks.CIDR != tc.want {
				t.Errorf("cidr is %q, want %q", got.Networks.CIDR, tc.want)
			}
		})
	}
}

func TestImage(t *testing.T) {
	cfg := CloudProfileConfig{MachineImages: []MachineImage{{Name: "os", Versions: []MachineImageVersion{
		{Version: "1.0.0", Image: "arm", Architecture: "arm64"}, {Version: "1.0.0", Image: "amd", Architecture: "amd64"},
		{Version: "2.0.0", Image: "any"},
	}}}}
	for _, tc := range []struct{ name, version, architecture, want string }{
		{"os", "1.0.0", "amd64", "amd"}, {"os", "1.0.0", "arm64", "arm"}, {"os", "1.0.0", "", "arm"},
		{"os", "2.0.0", "arm64", "any"},
		{"os", "3.0.0", "amd64", ""}, {"other", "1.0.0", "amd64", ""},
	} {
		got, err := cfg.Image(tc.name, tc.version, tc.architecture)
		if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.want != "") {
			t.Errorf("Image(%q, %q, %q) = %q, %v, want %q", tc.name, tc.version, tc.architecture, got, err, tc.want)
		}
	}
}
