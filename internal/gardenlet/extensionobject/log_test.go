package extensionobject

import (
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// TestRequestsAreLoggedOnce makes every pass twice: only the first one changes the object.
func TestRequestsAreLoggedOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := extensionsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	bucket := func(secret string) *extensionsv1alpha1.BackupBucket {
		o := &extensionsv1alpha1.BackupBucket{ObjectMeta: metav1.ObjectMeta{
			Name: "o", Finalizers: []string{"example.com/held"},
		}}
		o.Spec.SecretRef.Name = secret
		return o
	}
	ensure := func(w Wanted) error {
		_, err := Ensure(ctx, c, w, noon)
		return err
	}
	requested := func(operation, reason string) string {
		return `"level"=0 "msg"="Requested an operation of an extension" "object"="BackupBucket o" "operation"="` + operation +
			`" "reason"="` + reason + `"`
	}
	for _, step := range []struct {
		name string
		pass func() error
		want string
	}{
		{"new", func() error { return ensure(Wanted{Object: bucket("a"), Checksum: "1"}) },
			requested("reconcile", "the object is new")},
		{"another spec", func() error { return ensure(Wanted{Object: bucket("b"), Checksum: "1"}) },
			requested("reconcile", "its specification has changed")},
		{"other credentials", func() error { return ensure(Wanted{Object: bucket("b"), Checksum: "2", Restore: true}) },
			requested("restore", "its credentials have changed")},
		{"migrated", func() error {
			_, err := Migrate(ctx, c, bucket("b"), time.Time{}, noon)
			return err
		}, requested("migrate", "another seed takes it over")},
		{"deleted", func() error {
			_, err := Delete(ctx, c, bucket("b"), time.Time{}, noon)
			return err
		}, `"level"=0 "msg"="Requested the deletion of extension object" "object"="BackupBucket o"`},
	} {
		lines = nil
		for range 2 {
			if err := step.pass(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if diff := cmp.Diff([]string{step.want}, lines); diff != "" {
			t.Errorf("%s: lines mismatch (-want +got):\n%s", step.name, diff)
		}
	}
}
