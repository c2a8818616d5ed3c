package v1alpha1

import (
	"encoding/base64"
	"fmt"
)

// Names in contents of purpose reconcile that webhooks of extensions may rely on.
const (
	// KubeletUnitName is the unit of the kubelet, and KubeletConfigFile the path of its configuration.
	KubeletUnitName   = "kubelet.service"
	KubeletConfigFile = "/var/lib/kubelet/config/kubelet"
)

// EncodingBase64 is the encoding of inline content that is no text.
const EncodingBase64 = "b64"

// Decode returns the content itself.
func (c *FileContentInline) Decode() ([]byte, error) {
	switch c.Encoding {
	case "":
		return []byte(c.Data), nil
	case EncodingBase64:
		content, err := base64.StdEncoding.DecodeString(c.Data)
		if err != nil {
			return nil, fmt.Errorf("decode base64: %w", err)
		}
		return content, nil
	}
	return nil, fmt.Errorf("unknown encoding %q", c.Encoding)
}
