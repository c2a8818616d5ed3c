package registry

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestBytesAreEqualByContent(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b *runtime.RawExtension
		want bool
	}{
		"same content":         {&runtime.RawExtension{Raw: []byte("{}")}, &runtime.RawExtension{Raw: []byte("{}")}, true},
		"other content":        {&runtime.RawExtension{Raw: []byte("{}")}, &runtime.RawExtension{Raw: []byte("[]")}, false},
		"other length":         {&runtime.RawExtension{Raw: []byte("{}")}, &runtime.RawExtension{Raw: []byte("{ }")}, false},
		"nothing is empty":     {&runtime.RawExtension{Raw: []byte{}}, &runtime.RawExtension{}, true},
		"a pointer that lacks": {nil, &runtime.RawExtension{Raw: []byte("{}")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := equality.Semantic.DeepEqual(tc.a, tc.b); got != tc.want {
				t.Errorf("equal is %t, want %t", got, tc.want)
			}
		})
	}
}

func BenchmarkDeepEqualOfConfiguration(b *testing.B) {
	x, y := &runtime.RawExtension{Raw: make([]byte, 2000)}, &runtime.RawExtension{Raw: make([]byte, 2000)}
	for b.Loop() {
		equality.Semantic.DeepEqual(x, y)
	}
}
