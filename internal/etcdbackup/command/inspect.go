package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/keeper"
	"hortus.dev/hortus/internal/etcdbackup/verify"
	"hortus.dev/hortus/internal/output"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// statusTimeout bounds `status`.
const statusTimeout = 15 * time.Second

// listing is the output of `list`.
type listing struct {
	Location string        `json:"location"`
	Claims   []chain.Claim `json:"claims,omitempty"`
	Chains   []listedChain `json:"chains"`
	// Branches began when etcd was restored to an earlier point; only backups after the newest branch count.
	Branches []chain.Branch `json:"branches,omitempty"`
	// Unused objects extend no full snapshot, or were written by an old owner after a newer epoch had begun.
	Unused []chain.Object `json:"unused,omitempty"`
}

type listedChain struct {
	chain.Chain
	LastRevision int64     `json:"lastRevision"`
	Newest       time.Time `json:"newest"`
	SizeBytes    int64     `json:"sizeBytes"`
	Verified     bool      `json:"verified"`
}

func newListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the backups in the store",
		Args:  cobra.NoArgs,
	}
	flags := addStoreFlags(cmd)
	output.AddFlag(cmd, &format, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := list(cmd.Context(), flags)
		if err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), format, l, func(w io.Writer) { table(w, l) })
	}
	return cmd
}

func list(ctx context.Context, flags *keeper.StoreFlags) (*listing, error) {
	s, err := flags.Open()
	if err != nil {
		return nil, err
	}
	found, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	verified, err := s.Verified(ctx)
	if err != nil {
		return nil, err
	}
	owned, late := chain.Owned(found.Objects, found.Claims)
	l := &listing{
		Location: s.Location(), Claims: found.Claims, Branches: found.Branches, Chains: []listedChain{}, Unused: late,
	}
	used := map[string]bool{}
	for _, c := range chain.Build(owned) {
		objects := c.Objects()
		for _, o := range objects {
			used[o.Name()] = true
		}
		l.Chains = append(l.Chains, listedChain{Chain: c, LastRevision: c.Last(), Newest: objects[len(objects)-1].Created,
			SizeBytes: c.Size(),
			Verified:  verified != nil && verified.Full.Name() == c.Full.Name()})
	}
	for _, o := range owned {
		if !used[o.Name()] {
			l.Unused = append(l.Unused, o)
		}
	}
	return l, nil
}

func table(w io.Writer, l *listing) {
	fmt.Fprintln(w, "EPOCH\tFULL SNAPSHOT\tREVISION\tDELTAS\tUP TO REVISION\tNEWEST\tSIZE\tVERIFIED")
	for _, c := range l.Chains {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%s\t%.1f MiB\t%t\n", c.Full.Epoch, stamp(c.Full.Created), c.Full.Last,
			len(c.Deltas),
			c.LastRevision, stamp(c.Newest), float64(c.SizeBytes)/(1<<20), c.Verified)
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func newVerifyCommand() *cobra.Command {
	var format, tempDir string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Restore the newest chain as a test, into a temporary file",
		Args:  cobra.NoArgs,
	}
	flags := addStoreFlags(cmd)
	cmd.Flags().StringVar(&tempDir, "temp-dir", "", "folder for the database file; default the system's")
	output.AddFlag(cmd, &format, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := flags.Open()
		if err != nil {
			return err
		}
		found, err := s.List(cmd.Context())
		if err != nil {
			return err
		}
		c, ok := found.Newest()
		if !ok {
			return fmt.Errorf("no backup in %s below %s", s.Location(), flags.Prefix)
		}
		v, err := verify.Chain(cmd.Context(), c, verify.Options{Store: s, Identity: flags.Identity, TempDir: tempDir,
			Clock:    clock.RealClock{},
			Progress: cmd.ErrOrStderr()})
		if err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), format, v, func(w io.Writer) {
			fmt.Fprintln(w, "FULL SNAPSHOT\tDELTAS\tREVISION\tKEYS\tCHECKSUM COMPARED")
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%t\n", stamp(c.Full.Created), len(c.Deltas), v.Revision, v.Keys, v.HashCompared)
		})
	}
	return cmd
}

func newStatusCommand() *cobra.Command {
	var address string
	format := "yaml"
	files := &certs.Files{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of a running etcd and its backups",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&address, "url", fmt.Sprintf("https://localhost:%d", etcdbackup.Port), "URL of the service")
	cmd.Flags().StringVar(&files.CA, "ca-file", "/var/etcd/ssl/ca.crt", "PEM bundle of the service's CA")
	cmd.Flags().StringVar(&files.Cert, "cert-file", "/var/etcd/ssl/client.crt", "PEM client certificate")
	cmd.Flags().StringVar(&files.Key, "key-file", "/var/etcd/ssl/client.key", "PEM key of the client certificate")
	output.AddFlag(cmd, &format, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" {
			return fmt.Errorf("--url: invalid value: %q", address)
		}
		config, err := files.Client(u.Hostname())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), statusTimeout)
		defer cancel()
		s, err := etcdbackup.NewClient(address, config).Status(ctx)
		if err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), format, s, func(w io.Writer) {
			fmt.Fprintln(w, "PHASE\tEPOCH\tETCD REVISION\tSAVED REVISION\tBEHIND\tCHAINS\tSIZE\tERROR")
			message := ""
			if s.LastError != nil {
				message = s.LastError.Message
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.0f s\t%d\t%.1f MiB\t%s\n", s.Phase, s.Epoch, s.EtcdRevision, s.SavedRevision,
				s.SecondsBehind,
				s.Chains, float64(s.SizeBytes)/(1<<20), message)
		})
	}
	return cmd
}

// show prints a value in one of the formats.
func show(out io.Writer, format string, value any, asTable func(io.Writer)) error {
	switch format {
	case "json":
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, string(data))
		return err
	case "yaml":
		data, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	asTable(w)
	return w.Flush()
}
