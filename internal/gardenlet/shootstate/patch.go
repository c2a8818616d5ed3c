package shootstate

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// sum identifies the JSON of an entry, independently of its formatting.
type sum [sha256.Size]byte

// entry is one item of a list of a ShootState.
type entry struct {
	key string
	sum sum
	// bytes of its JSON.
	bytes int
	// raw is the JSON; only of entries to be written.
	raw []byte
}

// content is a ShootState, list by list. A missing list is nil.
type content map[string][]entry

// lists of the spec of a ShootState.
var lists = []string{"gardener", "extensions", "resources"}

// contentOf computes the entries of a spec.
func contentOf(spec *corev1beta1.ShootStateSpec) (content, error) {
	c := content{}
	add := func(list, key string, item any) error {
		raw, err := canonical(item)
		if err != nil {
			return fmt.Errorf("encode entry %s of the state: %w", key, err)
		}
		c[list] = append(c[list], entry{key: key, sum: sha256.Sum256(raw), bytes: len(raw), raw: raw})
		return nil
	}
	for i := range spec.Gardener {
		if err := add(lists[0], spec.Gardener[i].Type+" "+spec.Gardener[i].Name, &spec.Gardener[i]); err != nil {
			return nil, err
		}
	}
	for i := range spec.Extensions {
		if err := add(lists[1], extensionKey(&spec.Extensions[i]), &spec.Extensions[i]); err != nil {
			return nil, err
		}
	}
	for i := range spec.Resources {
		ref := spec.Resources[i].CrossVersionObjectReference
		if err := add(lists[2], Reference{ref.APIVersion, ref.Kind, ref.Name}.key(), &spec.Resources[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func extensionKey(e *corev1beta1.ExtensionResourceState) string {
	key := e.Kind + " " + ptr.Deref(e.Name, "")
	if e.Purpose != nil {
		key += " (" + *e.Purpose + ")"
	}
	return key
}

func (r Reference) key() string { return r.APIVersion + " " + r.Kind + " " + r.Name }

// canonical is the JSON of a value with sorted keys. The API server does not keep their order.
func canonical(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // A float would lose digits.
	var plain any
	if err := decoder.Decode(&plain); err != nil {
		return nil, err
	}
	return json.Marshal(plain)
}

// size in bytes, and the largest entry.
func (c content) size() (bytes int, largest entry) {
	for _, list := range lists {
		for _, e := range c[list] {
			bytes += e.bytes
			if e.bytes > largest.bytes {
				largest = e
			}
		}
	}
	return bytes, largest
}

// secrets counts those among the entries.
func (c content) secrets() int {
	n := len(c[lists[0]])
	if slices.ContainsFunc(c[lists[0]], func(e entry) bool { return e.key == machineState+" "+machineState }) {
		n--
	}
	return n
}

// operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// diff returns the operations that make the lists of have those of want, and how they look then. Entries that are not
// in want but in keep stay. The order of the entries that stay is not changed.
func diff(have, want content, keep map[string]bool) (operations []operation, after content) {
	after = content{}
	for _, list := range lists {
		ops, entries := diffList("/spec/"+list, have[list], want[list], keep)
		operations = append(operations, ops...)
		if entries != nil {
			after[list] = entries
		}
	}
	return operations, after
}

func diffList(path string, have, want []entry, keep map[string]bool) (operations []operation, after []entry) {
	wanted := make(map[string]entry, len(want))
	for _, e := range want {
		wanted[e.key] = e
	}
	var removals []operation
	for i, old := range have {
		position := fmt.Sprintf("%s/%d", path, i)
		e, ok := wanted[old.key]
		delete(wanted, old.key) // The second entry with the same key is removed.
		switch {
		case ok && e.sum == old.sum:
			after = append(after, old)
		case ok:
			operations = append(operations, operation{"replace", position, e.raw})
			after = append(after, e)
		case keep[old.key]:
			after = append(after, old)
		default:
			removals = append(removals, operation{"remove", position, nil})
		}
	}
	slices.Reverse(removals) // Removing from the end keeps the positions in front.
	operations = append(operations, removals...)
	var added [][]byte
	for _, e := range want {
		if _, missing := wanted[e.key]; missing {
			added = append(added, e.raw)
			after = append(after, e)
		}
	}
	switch {
	case have == nil && len(added) > 0:
		operations = append(operations, operation{"add", path, join(added)})
	default:
		for _, raw := range added {
			operations = append(operations, operation{"add", path + "/-", raw})
		}
	}
	if after == nil && have != nil {
		after = []entry{}
	}
	return operations, after
}

// join makes a JSON list.
func join(items [][]byte) json.RawMessage {
	return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]"))
}

// withoutRaw drops the data that comparisons do not need.
func (c content) withoutRaw() content {
	for _, list := range lists {
		for i := range c[list] {
			c[list][i].raw = nil
		}
	}
	return c
}
