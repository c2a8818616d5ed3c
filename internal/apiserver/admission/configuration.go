package admission

import (
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// ReadConfiguration reads the configuration of a plugin: a document of the kind Configuration in the plugin's own
// group. Without a configuration, into keeps its value.
func ReadConfiguration(reader io.Reader, plugin, apiVersion string, into any) error {
	if reader == nil {
		return nil
	}
	content, err := io.ReadAll(reader)
	if err != nil || len(content) == 0 {
		return err
	}
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(content, &meta); err != nil {
		return fmt.Errorf("read configuration of %s: %w", plugin, err)
	}
	if meta.APIVersion != apiVersion || meta.Kind != "Configuration" {
		return fmt.Errorf("configuration of %s is %s %s, must be %s Configuration", plugin, meta.APIVersion, meta.Kind,
			apiVersion)
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		return fmt.Errorf("read configuration of %s: %w", plugin, err)
	}
	return nil
}
