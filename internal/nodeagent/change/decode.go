package change

import (
	"encoding/base64"
	"fmt"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Decode returns the content of an inline file.
func Decode(inline *extensionsv1alpha1.FileContentInline) ([]byte, error) {
	switch inline.Encoding {
	case "":
		return []byte(inline.Data), nil
	case "b64":
		content, err := base64.StdEncoding.DecodeString(inline.Data)
		if err != nil {
			return nil, fmt.Errorf("decode base64: %w", err)
		}
		return content, nil
	}
	return nil, fmt.Errorf("unknown encoding %q", inline.Encoding)
}
