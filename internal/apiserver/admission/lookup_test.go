package admission

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestMissingProfile(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	profile := func(name string) client.Object {
		return &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	own := func(namespace, name string) client.Object {
		return &corev1beta1.NamespacedCloudProfile{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1beta1.NamespacedCloudProfileSpec{Parent: corev1beta1.CloudProfileReference{
				Kind: "CloudProfile", Name: "gone",
			}},
		}
	}
	var many []client.Object
	for i := range 12 {
		many = append(many, profile(fmt.Sprintf("p%02d", i)))
	}
	for name, tc := range map[string]struct {
		objects    []client.Object
		kind, name string
		want       string
	}{
		"none at all": {nil, "CloudProfile", "aws", "there is no CloudProfile"},
		"others": {
			[]client.Object{profile("local"), profile("gcp")}, "CloudProfile", "aws", `there are CloudProfiles "gcp", "local"`,
		},
		"many others": {many, "CloudProfile", "aws", `"p09" and 2 more`},
		"those of ours": {
			[]client.Object{profile("local"), own("dev", "ours"), own("prod", "theirs")}, "NamespacedCloudProfile", "mine",
			`there are NamespacedCloudProfiles "ours"`,
		},
		"its parent": {[]client.Object{own("dev", "ours")}, "NamespacedCloudProfile", "ours", `"gone" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.objects...).Build()
			o := &Objects{Cached: reader, Live: reader}
			_, err := o.Profile(t.Context(), "dev", corev1beta1.CloudProfileReference{Kind: tc.kind, Name: tc.name})
			answer := InternalError(fmt.Errorf("read: %w", err))
			var status *apierrors.StatusError
			if !errors.As(answer, &status) || !apierrors.IsInternalError(answer) {
				t.Fatalf("InternalError() = %v", answer)
			}
			for _, text := range []string{
				`spec.cloudProfile.name: Not found: "` + tc.name + `"`, "could not find referenced cloud profile", tc.want,
			} {
				if !strings.Contains(answer.Error(), text) {
					t.Errorf("%q does not say %q", answer, text)
				}
			}
			cause := status.ErrStatus.Details.Causes[0]
			if diff := cmp.Diff([]string{"FieldValueNotFound", "spec.cloudProfile.name"},
				[]string{string(cause.Type), cause.Field}); diff != "" {
				t.Errorf("cause (-want +got):\n%s", diff)
			}
		})
	}
	if err := InternalError(errors.New("etcd is down")); !apierrors.IsInternalError(err) ||
		!strings.Contains(err.Error(), "etcd is down") {
		t.Errorf("InternalError() = %v", err)
	}
}
