package validate

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// gatesValue is a flag value of the form Name=true,Name=false.
type gatesValue struct{ gates *map[string]bool }

func (v *gatesValue) String() string { return "" }
func (v *gatesValue) Type() string   { return "Name=bool" }

func (v *gatesValue) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q must have the form Name=true or Name=false", pair)
		}
		if *v.gates == nil {
			*v.gates = map[string]bool{}
		}
		(*v.gates)[name] = on
	}
	return nil
}

// setGates sets features by name.
func setGates(features *corev1beta1.Features, gates map[string]bool) error {
	for name, on := range gates {
		f := reflect.ValueOf(features).Elem().FieldByName(name)
		if !f.IsValid() {
			return fmt.Errorf("there is no feature gate %q", name)
		}
		f.SetBool(on)
	}
	return nil
}
