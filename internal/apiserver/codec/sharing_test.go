package codec

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// storage returns the codec of a storage of Shoots.
func storage(plain apiruntime.Serializer) apiruntime.Codec { return apiruntime.NewCodec(plain, plain) }

func TestVersionsOfAShootShareWhatIsEqual(t *testing.T) {
	data, err := os.ReadFile("testdata/stored-shoot.json")
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(strings.Replace(string(data), `ControlPlaneRunning`, `Other`, 1))
	decode := func(s apiruntime.Decoder, data []byte, into apiruntime.Object) *corev1beta1.Shoot {
		object, _, err := s.Decode(data, nil, into)
		if err != nil {
			t.Fatal(err)
		}
		return object.(*corev1beta1.Shoot)
	}
	plain := newJSON(testScheme(), false)
	want := decode(plain, changed, nil)
	if want.Status.Conditions[1].Reason != "Other" {
		t.Fatal("the second document does not differ from the first")
	}

	s := newSharing(storage(plain))
	first, second := decode(s, data, nil), decode(s, changed, nil)
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("decoded differently (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(decode(plain, data, nil), first); diff != "" {
		t.Errorf("the previous version has changed (-want +got):\n%s", diff)
	}
	if first.Spec.Kubernetes.KubeAPIServer != second.Spec.Kubernetes.KubeAPIServer ||
		&first.Spec.Provider.Workers[0] != &second.Spec.Provider.Workers[0] {
		t.Error("equal parts of the spec are in memory twice")
	}
	if &first.Status.Conditions[0] == &second.Status.Conditions[0] {
		t.Error("different statuses share memory")
	}

	if &first.ManagedFields[0].FieldsV1.Raw[0] != &second.ManagedFields[0].FieldsV1.Raw[0] {
		t.Error("equal sets of managed fields are in memory twice")
	}

	set := first.ManagedFields[0].FieldsV1.Raw
	if copied := first.DeepCopy(); &copied.ManagedFields[0].FieldsV1.Raw[0] == &set[0] {
		t.Error("a copy shares sets of managed fields, so that a change of the copy would change other objects")
	}

	updated := decode(s, changed, &corev1beta1.Shoot{})
	if updated.Spec.Kubernetes.KubeAPIServer == second.Spec.Kubernetes.KubeAPIServer {
		t.Error("an object that will be changed shares memory with one in the caches")
	}
	runtime.KeepAlive(first)
}

// TestVersionsAreReadWhileOthersAreDecoded is useful only with the race detector, which 'make test' enables.
func TestVersionsAreReadWhileOthersAreDecoded(t *testing.T) {
	data, err := os.ReadFile("testdata/stored-shoot.json")
	if err != nil {
		t.Fatal(err)
	}
	plain := newJSON(testScheme(), false)
	s := newSharing(storage(plain))
	var readers sync.WaitGroup
	for i := range 20 {
		object, _, err := s.Decode(bytes.Replace(data, []byte("ControlPlaneRunning"),
			fmt.Appendf(nil, "Reason%d", i), 1), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			if err := plain.Encode(object.DeepCopyObject(), io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
}
