package codec

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestSharedSetsAreBounded(t *testing.T) {
	f := &fieldSets{}
	for i := range 100 {
		f.share([]byte(strings.Repeat("x", longestShared-10) + string(rune('a'+i))))
	}
	f.share(make([]byte, 2*sharedBytes))
	if f.bytes > sharedBytes || len(f.sets) > 16 {
		t.Errorf("%d sets of %d bytes are kept", len(f.sets), f.bytes)
	}
}

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
		t.Errorf("the version before has changed (-want +got):\n%s", diff)
	}
	if first.Spec.Kubernetes.KubeAPIServer != second.Spec.Kubernetes.KubeAPIServer ||
		&first.Spec.Provider.Workers[0] != &second.Spec.Provider.Workers[0] {
		t.Error("equal parts of the spec are in memory twice")
	}
	if &first.Status.Conditions[0] == &second.Status.Conditions[0] {
		t.Error("different conditions share memory")
	}

	if &first.ManagedFields[0].FieldsV1.Raw[0] != &second.ManagedFields[0].FieldsV1.Raw[0] {
		t.Error("equal sets of managed fields are in memory twice")
	}

	updated := decode(s, changed, &corev1beta1.Shoot{})
	if updated.Spec.Kubernetes.KubeAPIServer == second.Spec.Kubernetes.KubeAPIServer {
		t.Error("an object that is about to be changed shares memory with one in the caches")
	}
	runtime.KeepAlive(first)
}

// TestVersionsAreReadWhileOthersAreDecoded means something with the race detector, which 'make test' runs it with.
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

func TestVersionsAreForgottenWithTheLastObject(t *testing.T) {
	s := newSharing(storage(newJSON(testScheme(), false)))
	if _, _, err := s.Decode([]byte(`{"kind":"Shoot","apiVersion":"core.gardener.cloud/v1beta1","metadata":{"uid":"a"}}`),
		nil, nil); err != nil {
		t.Fatal(err)
	}
	known := func() int {
		s.latest.mu.Lock()
		defer s.latest.mu.Unlock()
		return len(s.latest.shoots)
	}
	for known() > 0 {
		if t.Context().Err() != nil {
			t.Fatal("a Shoot that nobody keeps is still known")
		}
		runtime.GC()
		time.Sleep(time.Millisecond) // Cleanups run beside.
	}
}

// TestAdoptChangesNoValue lets random Shoots adopt parts of others.
func TestAdoptChangesNoValue(t *testing.T) {
	filler := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 3).MaxDepth(20).Funcs(
		func(r *apiruntime.RawExtension, c randfill.Continue) { r.Raw = []byte(c.String(5)) },
	)
	for range 50 {
		var one, other corev1beta1.Shoot
		filler.Fill(&one)
		filler.Fill(&other)
		other.Spec.Provider, other.Status.Conditions = one.DeepCopy().Spec.Provider, one.DeepCopy().Status.Conditions
		wantOne, wantOther := one.DeepCopy(), other.DeepCopy()
		equal := adopt(reflect.ValueOf(&one).Elem(), reflect.ValueOf(&other).Elem())
		if equal != reflect.DeepEqual(wantOne, wantOther) {
			t.Errorf("values are equal: %t", equal)
		}
		if !reflect.DeepEqual(&one, wantOne) || !reflect.DeepEqual(&other, wantOther) {
			t.Errorf("values have changed")
		}
		if len(one.Spec.Provider.Workers) > 0 && &one.Spec.Provider.Workers[0] != &other.Spec.Provider.Workers[0] {
			t.Errorf("equal workers are in memory twice")
		}
	}
}
