package shoot

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

func TestEveryKindOfExtensionObjectsIsWatched(t *testing.T) {
	kinds := map[string]bool{}
	for _, o := range watched() {
		kinds[fmt.Sprintf("%T", o)] = true
	}
	for _, kind := range extensionobject.Kinds {
		if !kinds[fmt.Sprintf("%T", kind.New())] {
			t.Errorf("%s is not watched", kind.Name)
		}
	}
}

// TestEveryKindOfExtensionObjectsCanKeepAShootFailed: as long as any object reports an exceeded quota, another attempt
// would fail again.
func TestEveryKindOfExtensionObjectsCanKeepAShootFailed(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := extensionsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	shoot := &corev1beta1.Shoot{Status: corev1beta1.ShootStatus{TechnicalID: "shoot--p--s"}}
	for _, kind := range extensionobject.Kinds {
		for name, tc := range map[string]struct {
			namespace string
			code      corev1beta1.ErrorCode
			want      bool
		}{
			"an exceeded quota":          {shoot.Status.TechnicalID, corev1beta1.ErrorInfraQuotaExceeded, false},
			"another code":               {shoot.Status.TechnicalID, corev1beta1.ErrorInfraDependencies, true},
			"the quota of another Shoot": {"shoot--p--other", corev1beta1.ErrorInfraQuotaExceeded, true},
		} {
			t.Run(kind.Name+" with "+name, func(t *testing.T) {
				o := kind.New()
				o.SetNamespace(tc.namespace)
				o.SetName("any")
				o.GetDefaultStatus().LastError = &corev1beta1.LastError{Codes: []corev1beta1.ErrorCode{tc.code}}
				r := &Reconciler{Seed: fake.NewClientBuilder().WithScheme(scheme).WithObjects(o).Build()}
				if got, err := r.healed(t.Context(), shoot); err != nil || got != tc.want {
					t.Errorf("healed() = %t, %v, want %t", got, err, tc.want)
				}
			})
		}
	}
}
