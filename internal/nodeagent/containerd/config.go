package containerd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/BurntSushi/toml"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
)

const cniBinDir = "/opt/cni/bin"

// Patch sets the keys of config.toml that follow from the configuration of the container runtime, and reports whether
// any of them had another value. If none had, the content is returned as it was, comments included.
func Patch(content []byte, cri *extensionsv1alpha1.CRIConfig) ([]byte, bool, error) {
	tree := map[string]any{}
	if _, err := toml.Decode(string(content), &tree); err != nil {
		return nil, false, fmt.Errorf("parse config.toml: %w", err)
	}
	before := map[string]any{}
	if _, err := toml.Decode(string(content), &before); err != nil { // A second copy to compare with.
		return nil, false, fmt.Errorf("parse config.toml: %w", err)
	}
	if err := patch(tree, cri); err != nil {
		return nil, false, err
	}
	if reflect.DeepEqual(before, tree) {
		return content, false, nil
	}
	var out bytes.Buffer
	encoder := toml.NewEncoder(&out)
	encoder.Indent = "  "
	if err := encoder.Encode(tree); err != nil {
		return nil, false, fmt.Errorf("encode config.toml: %w", err)
	}
	return out.Bytes(), true, nil
}

func patch(tree map[string]any, cri *extensionsv1alpha1.CRIConfig) error {
	version, _ := tree["version"].(int64)
	systemd := cri.CgroupDriver != nil && *cri.CgroupDriver == extensionsv1alpha1.CgroupDriverSystemd
	var settings []setting
	switch {
	case version < 2:
		return fmt.Errorf("config.toml has version %d; versions from 2 on are supported", version)
	case version == 2:
		const plugin = "io.containerd.grpc.v1.cri"
		settings = []setting{
			{[]string{plugin, "registry", "config_path"}, config.ContainerdCertsDir},
			{[]string{plugin, "containerd", "runtimes", "runc", "options", "SystemdCgroup"}, systemd},
			{[]string{plugin, "cni", "bin_dir"}, cniBinDir},
		}
		if cri.Containerd != nil && cri.Containerd.SandboxImage != "" {
			settings = append(settings, setting{[]string{plugin, "sandbox_image"}, cri.Containerd.SandboxImage})
		}
	default:
		const images, runtime = "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"
		settings = []setting{
			{[]string{images, "registry", "config_path"}, config.ContainerdCertsDir},
			{[]string{runtime, "containerd", "runtimes", "runc", "options", "SystemdCgroup"}, systemd},
			{[]string{runtime, "cni", "bin_dirs"}, []any{cniBinDir}},
		}
		if hasKey(tree, "plugins", runtime, "cni", "bin_dir") { // The only spelling before containerd 2.2; both are refused.
			settings[2] = setting{[]string{runtime, "cni", "bin_dir"}, cniBinDir}
		}
		if cri.Containerd != nil && cri.Containerd.SandboxImage != "" {
			settings = append(settings, setting{[]string{images, "pinned_images", "sandbox"}, cri.Containerd.SandboxImage})
		}
	}
	addImport(tree, config.ContainerdConfDir+"/*.toml")
	for _, s := range settings {
		if err := set(tree, append([]string{"plugins"}, s.path...), s.value); err != nil {
			return err
		}
	}
	if cri.Containerd == nil {
		return nil
	}
	for _, plugin := range cri.Containerd.Plugins {
		if err := patchPlugin(tree, plugin); err != nil {
			return err
		}
	}
	return nil
}

type setting struct {
	path  []string
	value any
}

func addImport(tree map[string]any, pattern string) {
	imports, _ := tree["imports"].([]any)
	if !slices.Contains(imports, any(pattern)) {
		tree["imports"] = append(imports, pattern)
	}
}

// patchPlugin applies the change of an extension, after all others.
func patchPlugin(tree map[string]any, plugin extensionsv1alpha1.PluginConfig) error {
	path := append([]string{"plugins"}, plugin.Path...)
	if plugin.Op != nil && *plugin.Op == extensionsv1alpha1.RemovePluginPathOperation {
		remove(tree, path)
		return nil
	}
	var value any = map[string]any{}
	if plugin.Values != nil && len(plugin.Values.Raw) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(plugin.Values.Raw))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			return fmt.Errorf("containerd plugin %q: decode values: %w", plugin.Path, err)
		}
		value = fromJSON(value)
	}
	// Tables are merged, since several extensions may add to one; anything else is replaced.
	table, isTable := value.(map[string]any)
	if !isTable {
		return set(tree, path, value)
	}
	if len(table) == 0 {
		_, err := descend(tree, path)
		return err
	}
	for key, value := range table {
		if err := set(tree, append(slices.Clone(path), key), value); err != nil {
			return err
		}
	}
	return nil
}

// fromJSON converts numbers to the types of TOML; JSON has only one.
func fromJSON(value any) any {
	switch value := value.(type) {
	case json.Number:
		if integer, err := value.Int64(); err == nil {
			return integer
		}
		float, _ := value.Float64() // Syntax was checked by the decoder.
		return float
	case map[string]any:
		for key := range value {
			value[key] = fromJSON(value[key])
		}
	case []any:
		for i := range value {
			value[i] = fromJSON(value[i])
		}
	}
	return value
}

func set(tree map[string]any, path []string, value any) error {
	parent, err := descend(tree, path[:len(path)-1])
	if err != nil {
		return err
	}
	parent[path[len(path)-1]] = value
	return nil
}

// descend returns the table at path and makes it if needed.
func descend(tree map[string]any, path []string) (map[string]any, error) {
	for i, key := range path {
		child, exists := tree[key]
		if !exists {
			child = map[string]any{}
			tree[key] = child
		}
		table, ok := child.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("config.toml: %q is not a table", path[:i+1])
		}
		tree = table
	}
	return tree, nil
}

func hasKey(tree map[string]any, path ...string) bool {
	for _, key := range path[:len(path)-1] {
		child, ok := tree[key].(map[string]any)
		if !ok {
			return false
		}
		tree = child
	}
	_, found := tree[path[len(path)-1]]
	return found
}

func remove(tree map[string]any, path []string) {
	for _, key := range path[:len(path)-1] {
		child, ok := tree[key].(map[string]any)
		if !ok {
			return
		}
		tree = child
	}
	delete(tree, path[len(path)-1])
}
