package codec

import (
	"io"
	"os"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	libraryjson "k8s.io/apimachinery/pkg/runtime/serializer/json"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// measure also reports cpu-ns/op, the CPU time of the process, on which other processes on the machine have little
// effect.
func measure(b *testing.B, size int, do func() error) {
	b.ReportAllocs()
	began := processorTime()
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime()-began)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(size), "bytes")
}

// processorTime of the process, in nanoseconds.
func processorTime() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// BenchmarkJSON compares our JSON with the library's, on a Shoot as it was stored by 'hortus bench api'.
func BenchmarkJSON(b *testing.B) {
	scheme := testScheme()
	file, err := os.ReadFile("testdata/stored-shoot.json")
	if err != nil {
		b.Fatal(err)
	}
	shoot, _, err := newJSON(scheme, true).Decode(file, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	data, err := runtime.Encode(newJSON(scheme, false), shoot)
	if err != nil {
		b.Fatal(err)
	}
	list := &corev1beta1.ShootList{}
	for range 1000 {
		list.Items = append(list.Items, *shoot.(*corev1beta1.Shoot))
	}
	for _, bc := range []struct {
		name string
		make func(strict bool) runtime.Serializer
	}{
		{"ours", func(strict bool) runtime.Serializer { return newJSON(scheme, strict) }},
		{"library", func(strict bool) runtime.Serializer {
			return libraryjson.NewSerializerWithOptions(libraryjson.DefaultMetaFactory, scheme, scheme,
				libraryjson.SerializerOptions{Strict: strict, StreamingCollectionsEncoding: true})
		}},
	} {
		loose, strict := bc.make(false), bc.make(true)
		b.Run("read/"+bc.name, func(b *testing.B) {
			measure(b, len(data), func() error { _, _, err := loose.Decode(data, nil, nil); return err })
		})
		b.Run("read-strictly/"+bc.name, func(b *testing.B) {
			measure(b, len(data), func() error { _, _, err := strict.Decode(data, nil, nil); return err })
		})
		b.Run("write/"+bc.name, func(b *testing.B) {
			measure(b, len(data), func() error { return loose.Encode(shoot, io.Discard) })
		})
		b.Run("write-list/"+bc.name, func(b *testing.B) {
			measure(b, len(list.Items)*len(data), func() error { return loose.Encode(list, io.Discard) })
		})
	}
}
