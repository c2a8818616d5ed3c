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

// knownHosts records host keys of nodes, for later connections to those that publish none or cannot be reached. Each
// line has the UID of the Shoot and the name or the address of the node, and the key as in a file of authorized keys.
// The UID is needed because Shoots may use the same addresses. The last line for a name counts.
type knownHosts struct{ path string }

// hostKeyCheck is how to check a host key.
type hostKeyCheck struct {
	callback ssh.HostKeyCallback
	// algorithms are those of the known key, so that a node with several keys shows that one; empty means any.
	algorithms []string
}

// defaultKnownHosts is in the user's folder for configuration.
func defaultKnownHosts() string {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "" // Must be given then.
	}
	return filepath.Join(folder, "hortus", "known_hosts")
}

// check returns the check of a node's host key: against the published one, otherwise against the one recorded for the
// first name. A published key is recorded for all names, so is a first key if it was read from the node.
func (k knownHosts) check(names []string, p publication, notices io.Writer) (hostKeyCheck, error) {
	if p.key != nil {
		return checkFor(p.key, "published by the node", func() {
			if err := k.record(names, p.key); err != nil {
				fmt.Fprintln(notices, err) // Only connections without the published key need it.
			}
		}), nil
	}
	recorded, err := k.recorded(names[0])
	switch {
	case err != nil:
		return hostKeyCheck{}, err
	case recorded != nil:
		if p.err != nil {
			fmt.Fprintf(notices, "%v. Using the host key recorded in %s\n", p.err, k.path)
		}
		return checkFor(recorded, "recorded in "+k.path, func() {}), nil
	case p.err != nil:
		return hostKeyCheck{}, fmt.Errorf("%w. The host key cannot be checked: none is recorded for this node in %s",
			p.err, k.path)
	}
	return hostKeyCheck{callback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
		fmt.Fprintf(notices, "%s. Recording %s in %s\n", p.missing, ssh.FingerprintSHA256(key), k.path)
		return k.record(names, key)
	}}, nil
}

// checkFor accepts only one key, and calls accepted then.
func checkFor(want ssh.PublicKey, where string, accepted func()) hostKeyCheck {
	return hostKeyCheck{algorithms: algorithmsOf(want), callback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if err := sameKey(want, key, where); err != nil {
			return err
		}
		accepted()
		return nil
	}}
}

// algorithmsOf returns the signature algorithms of a host key. SHA-1 is not among those of RSA.
func algorithmsOf(key ssh.PublicKey) []string {
	if key.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{key.Type()}
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
	var last ssh.PublicKey
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
		last = key
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read recorded host keys: %w", err)
	}
	return last, nil
}

// record records a key for the names that have another one or none.
func (k knownHosts) record(names []string, key ssh.PublicKey) error {
	var lines strings.Builder
	for _, name := range names {
		recorded, err := k.recorded(name)
		if err != nil {
			return err
		}
		if recorded == nil || !bytes.Equal(recorded.Marshal(), key.Marshal()) {
			fmt.Fprintf(&lines, "%s %s", name, ssh.MarshalAuthorizedKey(key))
		}
	}
	if lines.Len() == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return fmt.Errorf("record host key: %w", err)
	}
	file, err := os.OpenFile(k.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("record host key: %w", err)
	}
	_, err = file.WriteString(lines.String())
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("record host key: %w", err)
	}
	return nil
}
