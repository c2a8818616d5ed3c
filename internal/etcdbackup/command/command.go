package command

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup/store"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// NewCommand returns `etcd-backup` with its subcommands.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd-backup",
		Short: "Back up etcd to an object store, and restore it before it starts",
	}
	cmd.AddCommand(newRunCommand(), newRestoreCommand(), newListCommand(), newVerifyCommand(), newStatusCommand(),
		newMeasureCommand())
	return cmd
}

// storeFlags are where backups are, and who owns them.
type storeFlags struct {
	dir, prefix, identity, holder string
	epoch                         int64
}

func addStoreFlags(cmd *cobra.Command) *storeFlags {
	f := &storeFlags{}
	cmd.Flags().StringVar(&f.dir, "store-credentials", "/etc/etcd-backup/store",
		"folder with the files of the provider's Secret")
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "prefix of all objects, for example shoot--dev--a--uid/etcd-main")
	cmd.Flags().StringVar(&f.identity, "identity", "", "identity that objects must have; default the prefix")
	require(cmd, "prefix")
	return f
}

func (f *storeFlags) addOwner(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&f.epoch, "epoch", 1,
		"ownership epoch; of two owners the one with the lower epoch stops writing")
	cmd.Flags().StringVar(&f.holder, "holder", "", "name of the owner, the same for all members, for example the seed; "+
		"of two owners with the same epoch only the first may write")
}

func (f *storeFlags) open() (*store.Store, error) {
	if f.identity == "" {
		f.identity = f.prefix
	}
	return store.Open(f.dir, f.prefix, clock.RealClock{})
}

// etcdFlags are how etcd is reached.
type etcdFlags struct {
	endpoint string
	files    certs.Files
}

func (f *etcdFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.endpoint, "etcd-endpoint", "https://localhost:2379",
		"client URL of the etcd member beside this process")
	cmd.Flags().StringVar(&f.files.CA, "etcd-ca-file", "/etc/etcd-backup/etcd/ca.crt", "PEM bundle of etcd's CA")
	cmd.Flags().StringVar(&f.files.Cert, "etcd-cert-file", "/etc/etcd-backup/etcd/tls.crt", "PEM certificate for etcd")
	cmd.Flags().StringVar(&f.files.Key, "etcd-key-file", "/etc/etcd-backup/etcd/tls.key", "PEM key for etcd")
}

func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // The flag is defined by the caller.
		}
	}
}

// nonce tells this process's claims from those of others.
func nonce() string { return rand.Text() }

// errNoChild is for environments in which a child process cannot be started.
var errNoChild = errors.New("cannot start a process for etcd")

// executable is this program.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoChild, err)
	}
	return path, nil
}
