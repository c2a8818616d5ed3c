package diff

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/kubecontrollermanager"
	"hortus.dev/hortus/internal/component/kubescheduler"
)

// Part is a part of the control plane whose pods are replaced.
type Part struct {
	Name    string   `json:"name"`
	Reasons []string `json:"reasons"` // Fields.
}

// restarts are the fields of a Shoot whose change replaces pods of the control plane. A test of the gardenlet compares
// them with the pods that it writes.
var restarts = []struct {
	path   []string
	parts  []string
	except []string // Fields below the path that have no effect on pods.
}{
	{
		[]string{"kubernetes", "version"},
		[]string{kubeapiserver.Name, kubecontrollermanager.Name, kubescheduler.Name}, nil,
	},
	{
		[]string{"kubernetes", "kubeAPIServer"}, []string{kubeapiserver.Name},
		[]string{"autoscaling", "enableAnonymousAuthentication"},
	},
	{[]string{"kubernetes", "kubeControllerManager"}, []string{kubecontrollermanager.Name}, nil},
	{[]string{"kubernetes", "kubeScheduler"}, []string{kubescheduler.Name}, nil},
	{[]string{"controlPlane", "highAvailability"}, []string{kubeapiserver.Name, etcd.Name}, nil},
}

// Restarts returns the parts of the control plane whose pods an edit replaces, by the specs of the Shoot before and
// after it.
func Restarts(before, after map[string]any) []Part {
	reasons := map[string][]string{}
	for _, r := range restarts {
		changed := fields(name(r.path), without(before, r.path, r.except), without(after, r.path, r.except))
		for _, part := range r.parts {
			for _, f := range changed {
				reasons[part] = append(reasons[part], f.Path)
			}
		}
	}
	if workers, _, _ := unstructured.NestedSlice(after, "provider", "workers"); len(workers) == 0 {
		delete(reasons, kubescheduler.Name) // Nothing is scheduled.
	}
	var out []Part
	for _, part := range []string{etcd.Name, kubeapiserver.Name, kubecontrollermanager.Name, kubescheduler.Name} {
		if len(reasons[part]) > 0 {
			out = append(out, Part{part, reasons[part]})
		}
	}
	return out
}

// without is the value at a path, if it is an object without some of its fields; nil for an empty one.
func without(spec map[string]any, path, except []string) any {
	value, _, _ := unstructured.NestedFieldCopy(spec, path...)
	object, isObject := value.(map[string]any)
	if !isObject {
		return value
	}
	for _, field := range except {
		delete(object, field)
	}
	if len(object) == 0 {
		return nil
	}
	return object
}

func name(path []string) string {
	out := "spec"
	for _, field := range path {
		out += "." + field
	}
	return out
}
