package diff

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Field is a field with another value.
type Field struct {
	Path   string `json:"path"`
	Before any    `json:"before,omitempty"` // Absent if the field is new.
	After  any    `json:"after,omitempty"`  // Absent if the field is removed.
}

// fields returns the fields that differ, in the order of their paths. Elements of lists are found by their name, if all
// of them have one.
func fields(path string, before, after any) []Field {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	was, isMap := before.(map[string]any)
	is, bothMaps := after.(map[string]any)
	if isMap && bothMaps {
		return fieldsOf(was, is, func(key string) string { return path + "." + key })
	}
	formerly, isList := named(before)
	now, bothLists := named(after)
	if isList && bothLists {
		return fieldsOf(formerly, now, func(name string) string { return path + "[" + name + "]" })
	}
	return []Field{{path, before, after}}
}

func fieldsOf(before, after map[string]any, path func(string) string) (out []Field) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fields(path(key), before[key], after[key])...)
	}
	return out
}

// named returns the elements of a list by name. It returns false for lists of other things, and if two have one name.
func named(list any) (map[string]any, bool) {
	elements, ok := list.([]any)
	if !ok {
		return nil, false
	}
	out := map[string]any{}
	for _, element := range elements {
		object, _ := element.(map[string]any)
		name, _ := object["name"].(string)
		if name == "" || out[name] != nil {
			return nil, false
		}
		out[name] = element
	}
	return out, true
}

// text is a value in one line of a table.
func text(value any) string {
	if value == nil {
		return "-"
	}
	if s, ok := value.(string); ok {
		return s
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	const most = 60
	if r := []rune(string(data)); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return string(data)
}
