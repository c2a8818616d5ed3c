package seed

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestHealthExportsTheConditionsOfTheSeed(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	seed := func(name string, conditions ...corev1beta1.Condition) *corev1beta1.Seed {
		return &corev1beta1.Seed{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1beta1.SeedStatus{Conditions: conditions},
		}
	}
	ready := corev1beta1.Condition{Type: corev1beta1.SeedGardenletReady, Status: corev1beta1.ConditionTrue}
	h := &Health{
		Seeds: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
			seed("ours", ready,
				corev1beta1.Condition{Type: corev1beta1.SeedExtensionsReady, Status: corev1beta1.ConditionFalse},
				corev1beta1.Condition{Type: "OfAnExtension", Status: corev1beta1.ConditionTrue}),
			seed("other", ready)).Build(),
		SeedName: "ours", Elected: make(chan struct{}),
	}
	if n := testutil.CollectAndCount(h); n != 0 {
		t.Errorf("a process that is not elected has %d metrics", n)
	}
	elected := make(chan struct{})
	close(elected)
	h.Elected = elected
	const want = `
# HELP hortus_gardenlet_seed_conditions Conditions of the Seed by their status: 1 for the present one.
# TYPE hortus_gardenlet_seed_conditions gauge
hortus_gardenlet_seed_conditions{condition="ExtensionsReady",status="False"} 1
hortus_gardenlet_seed_conditions{condition="GardenletReady",status="True"} 1
`
	if err := testutil.CollectAndCompare(h, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	h.SeedName = "unknown"
	if n := testutil.CollectAndCount(h); n != 0 {
		t.Errorf("a Seed that does not exist has %d metrics", n)
	}
}
