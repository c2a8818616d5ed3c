// Package configuration describes the configuration of an etcd that may change while its pod runs: certificates,
// bundles and flags. The gardenlet and the process compute the same checksum from it.
package configuration

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files of the Secret with the certificates.
const (
	// CA is the bundle that verifies clients, and the server.
	CA = "ca.crt"
	// ServerCert and ServerKey are the certificate and key of etcd and of the service of its process.
	ServerCert = "server.crt"
	ServerKey  = "server.key"
	// ClientCert and ClientKey are the certificate and key of the process as a client of etcd.
	ClientCert = "client.crt"
	ClientKey  = "client.key"
	// PeerCA, PeerCert and PeerKey are the CA bundle, certificate and key for connections between members.
	PeerCA   = "peer-ca.crt"
	PeerCert = "peer.crt"
	PeerKey  = "peer.key"
)

// maxFile bounds the size of a file, in bytes; it is more than any bundle has.
const maxFile = 1 << 20

// files are the files of a configuration, and whether etcd reads them anew for every connection. Keys belong to their
// certificates.
var files = []struct {
	name     string
	reloads  bool
	optional bool
}{
	{CA, false, false}, {ServerCert, true, false}, {ClientCert, true, false}, {PeerCA, false, true},
	{PeerCert, true, true},
}

// Configuration of an etcd.
type Configuration struct {
	// Files are the files of the Secret, by name.
	Files map[string][]byte
	// Flags of etcd that may change, one per line.
	Flags string
}

// Checksum identifies a configuration, without anything secret.
func (c Configuration) Checksum() string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %d\n%s\n", f.name, len(c.Files[f.name]), c.Files[f.name])
	}
	for _, flag := range c.Args() {
		fmt.Fprintln(h, flag)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Args are the flags as arguments.
func (c Configuration) Args() []string {
	var args []string
	for line := range strings.Lines(c.Flags) {
		if line = strings.TrimSpace(line); line != "" {
			args = append(args, line)
		}
	}
	return args
}

// Change is the action by which etcd adopts another configuration.
type Change string

// The changes.
const (
	// None is needed.
	None Change = "None"
	// Reload means that etcd uses it for its next connection.
	Reload Change = "Reload"
	// Restart means that etcd has to be restarted.
	Restart Change = "Restart"
)

// Compare returns the action for the change from one configuration to another, and a description of the change.
func Compare(from, to Configuration) (Change, string) {
	change, what := None, []string(nil)
	for _, f := range files {
		if string(from.Files[f.name]) == string(to.Files[f.name]) {
			continue
		}
		what = append(what, f.name)
		switch {
		case !f.reloads:
			change = Restart
		case change == None:
			change = Reload
		}
	}
	if !slices.Equal(from.Args(), to.Args()) {
		change, what = Restart, append(what, "flags")
	}
	return change, strings.Join(what, ", ")
}

// Source reads a configuration from a folder with the files of the Secret, and from a file with flags.
type Source struct {
	Dir string
	// FlagsFile may be empty, or missing: then there are no flags that may change.
	FlagsFile string
}

// errChanging means that files were replaced while they were read.
var errChanging = errors.New("the files are being replaced")

// Read reads everything. A Secret is replaced as a whole by renaming a link, so the files are of one version.
func (s Source) Read() (Configuration, error) {
	for range 5 {
		c, err := s.read()
		if !errors.Is(err, errChanging) {
			return c, err
		}
	}
	return Configuration{}, errChanging
}

func (s Source) read() (Configuration, error) {
	before, err := s.Stamp()
	if err != nil {
		return Configuration{}, err
	}
	c := Configuration{Files: map[string][]byte{}}
	for _, f := range files {
		c.Files[f.name], err = readFile(filepath.Join(s.Dir, f.name))
		if err != nil && !(f.optional && errors.Is(err, fs.ErrNotExist)) {
			return Configuration{}, err
		}
	}
	if s.FlagsFile != "" {
		flags, err := readFile(s.FlagsFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Configuration{}, err
		}
		c.Flags = string(flags)
	}
	if after, err := s.Stamp(); err != nil || after != before {
		return Configuration{}, errors.Join(err, errChanging)
	}
	return c, nil
}

// Stamp changes when the files change. It does not read them.
func (s Source) Stamp() (string, error) {
	stamp := &strings.Builder{}
	for _, f := range files {
		info, err := os.Stat(filepath.Join(s.Dir, f.name))
		if f.optional && errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", fmt.Errorf("stat certificate file: %w", err)
		}
		fmt.Fprintf(stamp, "%d %d\n", info.ModTime().UnixNano(), info.Size())
	}
	if s.FlagsFile != "" {
		if info, err := os.Stat(s.FlagsFile); err == nil {
			fmt.Fprintf(stamp, "%d %d\n", info.ModTime().UnixNano(), info.Size())
		}
	}
	return stamp.String(), nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration of etcd: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read configuration of etcd: %w", err)
	}
	return data, nil
}
