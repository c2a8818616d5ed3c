package shootdnsrewriting

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestAdd(t *testing.T) {
	p, err := New(strings.NewReader("apiVersion: shootdnsrewriting.admission.gardener.cloud/v1alpha1\nkind: Configuration\ncommonSuffixes: [a.org, b.org]\n"))
	if err != nil {
		t.Fatal(err)
	}
	shoot := &corev1beta1.Shoot{}
	add(shoot, p.(*plugin).config.CommonSuffixes)
	if shoot.Spec.SystemComponents != nil {
		t.Error("a Shoot without workers gets suffixes")
	}
	shoot.Spec.Provider.Workers = []corev1beta1.Worker{{}}
	shoot.Spec.SystemComponents = &corev1beta1.SystemComponents{CoreDNS: &corev1beta1.CoreDNS{
		Rewriting: &corev1beta1.CoreDNSRewriting{CommonSuffixes: []string{"own.org", "a.org"}},
	}}
	add(shoot, p.(*plugin).config.CommonSuffixes)
	if diff := cmp.Diff([]string{"own.org", "a.org", "b.org"},
		shoot.Spec.SystemComponents.CoreDNS.Rewriting.CommonSuffixes); diff != "" {
		t.Errorf("suffixes (-want +got):\n%s", diff)
	}
}
