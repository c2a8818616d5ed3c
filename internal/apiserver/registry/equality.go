package registry

import (
	"bytes"

	"k8s.io/apimachinery/pkg/api/equality"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Bytes are compared as a whole, not one by one through reflection, with the same result. Every update compares
// configurations of extensions several times, and the sets of managed fields.
func init() { utilruntime.Must(equality.Semantic.AddFunc(bytes.Equal)) }
