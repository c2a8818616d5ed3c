package extensionobject

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// TestWebhooksMayChangeASpec has a webhook of an extension that sets a field of each object that is written. The object
// is written once for each spec that is wanted, and not for ever.
func TestWebhooksMayChangeASpec(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := extensionsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	writes := 0
	mutate := func(o client.Object) {
		writes++
		o.(*extensionsv1alpha1.BackupBucket).Spec.Region = "of the webhook"
	}
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			mutate(o)
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			mutate(o)
			return c.Update(ctx, o)
		},
	})
	ensure := func(secret string) *extensionsv1alpha1.BackupBucket {
		o := &extensionsv1alpha1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: "o"}}
		o.Spec.Region, o.Spec.SecretRef.Name = "of the gardenlet", secret
		if _, err := Ensure(t.Context(), c, Wanted{Object: o, Checksum: "1"}, noon); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, step := range []struct {
		secret string
		writes int
	}{{"a", 1}, {"a", 1}, {"b", 2}, {"b", 2}, {"a", 3}} {
		ensure(step.secret)
		if writes != step.writes {
			t.Fatalf("%d writes after secret %q was wanted, want %d", writes, step.secret, step.writes)
		}
	}
	if o := ensure("a"); o.Spec.Region != "of the webhook" || o.Spec.SecretRef.Name != "a" {
		t.Errorf("the spec is %+v", o.Spec)
	}
}
