package ssh

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// knownHosts records host keys of nodes that publish none. Each line has the UID of the Shoot and the name of the node,
// and the key as in a file of authorized keys: addresses say nothing, since Shoots may use the same ones.
type knownHosts struct{ path string }

// defaultKnownHosts is in the user's folder for configuration.
func defaultKnownHosts() string {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "" // Must be given then.
	}
	return filepath.Join(folder, "hortus", "known_hosts")
}

// check returns the check of a node's host key: against the published one, otherwise against the recorded one. A first
// key is recorded.
func (k knownHosts) check(name string, published ssh.PublicKey, notices io.Writer) ssh.HostKeyCallback {
	if published != nil {
		return func(_ string, _ net.Addr, key ssh.PublicKey) error {
			return sameKey(published, key, "published by the node")
		}
	}
	return func(_ string, _ net.Addr, key ssh.PublicKey) error {
		recorded, err := k.recorded(name)
		if err != nil {
			return err
		}
		if recorded != nil {
			return sameKey(recorded, key, "recorded in "+k.path)
		}
		fmt.Fprintf(notices, "The node publishes no host key. Recording %s in %s\n", ssh.FingerprintSHA256(key), k.path)
		return k.record(name, key)
	}
}

func sameKey(want, got ssh.PublicKey, where string) error {
	if bytes.Equal(want.Marshal(), got.Marshal()) {
		return nil
	}
	return fmt.Errorf("host key differs: %s (%s: %s)", ssh.FingerprintSHA256(got), where, ssh.FingerprintSHA256(want))
}

// recorded returns the key of a name, nil if there is none.
func (k knownHosts) recorded(name string) (ssh.PublicKey, error) {
	file, err := os.Open(k.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read recorded host keys: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), name+" ")
		if !ok {
			continue
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("read recorded host keys: %s: %s: %w", k.path, name, err)
		}
		return key, nil
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read recorded host keys: %w", err)
	}
	return nil, nil
}

func (k knownHosts) record(name string, key ssh.PublicKey) error {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return fmt.Errorf("record host key: %w", err)
	}
	file, err := os.OpenFile(k.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("record host key: %w", err)
	}
	_, err = fmt.Fprintf(file, "%s %s", name, ssh.MarshalAuthorizedKey(key))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("record host key: %w", err)
	}
	return nil
}
