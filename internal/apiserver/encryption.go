package apiserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// checkEncryptionRevision rejects an encryption configuration older than the requested revision: the kubelet may mount
// a Secret older than the pod, and another server may already encrypt with a key that the old configuration lacks.
func (o *Options) checkEncryptionRevision() error {
	if o.EncryptionRevision == "" {
		return nil
	}
	want, err := strconv.Atoi(o.EncryptionRevision)
	if err != nil {
		return fmt.Errorf("--encryption-revision: invalid value: %q (a number)", o.EncryptionRevision)
	}
	file := filepath.Join(filepath.Dir(o.Recommended.Etcd.EncryptionProviderConfigFilepath), "revision")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("0"), nil
	}
	if err != nil {
		return fmt.Errorf("read revision of the encryption configuration: %w", err)
	}
	if have, err := strconv.Atoi(string(text)); err != nil {
		return fmt.Errorf("%s: invalid value: %q (a number)", file, text)
	} else if have < want {
		return fmt.Errorf("the encryption configuration has revision %d, not yet %d", have, want)
	}
	return nil
}
