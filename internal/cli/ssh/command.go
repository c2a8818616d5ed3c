// Package ssh has the command that logs in to nodes of a Shoot through a Bastion. It needs the garden, with the
// permissions of a member of the Shoot's project, the Bastion's address, and the API server of the Shoot, which knows
// the nodes and their host keys. Without that API server, it needs the internal address of a node whose host key has
// been recorded.
package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/internal/garden"
)

// command holds the flags and dependencies of the command.
type command struct {
	clock     clock.WithTicker
	access    garden.Access
	namespace string
	cidrs     []string
	tty       bool
	timeout   time.Duration

	config *rest.Config
	garden client.Client
	out    io.Writer // For progress.
}

const long = `Log in to a node of a Shoot as the user gardener, or run a command there, through a Bastion that exists only meanwhile.

The command creates a Bastion in the project, which the provider makes a machine of, keeps it alive, and deletes it at the end, also
after Ctrl-C. NODE is the name of a node or its internal address; without it the first node that is ready is used. The key of the
Bastion is generated for this session; that of the node is in the Secret SHOOT.ssh-keypair of the project. Both stay in memory.

Only the networks in --cidr can connect to the Bastion. By default it is the address of this machine from which the garden, and
later the Bastion, is reached. Behind a NAT give its public address, for example --cidr 203.0.113.7/32.

Host keys: that of the node is compared with the one that the node publishes, which is read through the API server of the Shoot, and
recorded in --known-hosts. If a node publishes none, its key is accepted and recorded the first time; another one is refused later. If
the API server or the node does not answer, only the recorded key is accepted; without API server, NODE must be an address. The key of
the Bastion is new each time and is not checked: the session is encrypted from here to the node, so the Bastion cannot read or change it.

The exit code is that of the command on the node.`

// NewCommand returns 'hortus ssh'.
func NewCommand() *cobra.Command {
	c := &command{clock: clock.RealClock{}}
	known := knownHosts{path: defaultKnownHosts()}
	cmd := &cobra.Command{
		Use:   "ssh SHOOT [NODE] [-- COMMAND...]",
		Short: "Log in to a node of a Shoot, or run a command there",
		Long:  long,
		Example: `  hortus ssh demo -n garden-dev
  hortus ssh demo shoot--dev--demo-pool-z1-7c9f5-abcde -n garden-dev -- uname -a
  hortus ssh demo --cidr 203.0.113.7/32`,
		ValidArgsFunction: c.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := parseArgs(args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			if err := c.connect(); err != nil {
				return err
			}
			c.out = cmd.ErrOrStderr()
			return c.run(cmd.Context(), target, known, streams{in: os.Stdin, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()})
		},
	}
	c.access.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "garden-dev", "namespace of the Shoot's project")
	cmd.Flags().StringSliceVar(&c.cidrs, "cidr", nil,
		"networks that can connect to the Bastion, comma-separated or repeated; empty means the address of this machine")
	cmd.Flags().BoolVarP(&c.tty, "tty", "t", false, "request a terminal also for a command")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 10*time.Minute, "how long to wait for the Bastion")
	cmd.Flags().StringVar(&known.path, "known-hosts", known.path, "file with the recorded host keys of nodes")
	return cmd
}

// target is what to log in to, and the command to run there, "" for a shell.
type target struct{ shoot, node, command string }

// parseArgs splits the arguments. dash is the number of those before "--", -1 without it.
func parseArgs(args []string, dash int) (target, error) {
	names, rest := args, []string(nil)
	if dash >= 0 {
		names, rest = args[:dash], args[dash:]
	}
	switch {
	case len(names) == 0:
		return target{}, errors.New("SHOOT is required")
	case len(names) > 2:
		return target{}, fmt.Errorf("too many arguments: %q (SHOOT [NODE]; a command follows --)", names[2])
	case dash >= 0 && len(rest) == 0:
		return target{}, errors.New("a command is required after --")
	}
	t := target{shoot: names[0], command: strings.Join(rest, " ")}
	if len(names) == 2 {
		t.node = names[1]
	}
	return t, nil
}

// connect prepares the client of the garden.
func (c *command) connect() error {
	config, err := c.access.RESTConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1beta1.AddToScheme(scheme), operationsv1alpha1.AddToScheme(scheme),
		corev1.AddToScheme(scheme)); err != nil {
		return err
	}
	c.config = config
	if c.garden, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect to the garden: %w", err)
	}
	return nil
}

// complete completes the names of Shoots and of their nodes.
func (c *command) complete(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if c.connect() != nil || len(args) > 1 {
		return nil, none
	}
	var names []string
	if len(args) == 1 {
		shoot, err := c.shootClient(cmd.Context(), args[0])
		if err != nil {
			return nil, none
		}
		nodes, err := shoot.nodes(cmd.Context())
		if err != nil {
			return nil, none
		}
		for i := range nodes {
			names = append(names, nodes[i].Name)
		}
	} else {
		list := &corev1beta1.ShootList{}
		if err := c.garden.List(cmd.Context(), list, client.InNamespace(c.namespace)); err != nil {
			return nil, none
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	var out []string
	for _, name := range names {
		if strings.HasPrefix(name, begun) {
			out = append(out, name)
		}
	}
	return out, none
}

// run logs in. The Bastion is deleted in any case, even if the context has ended.
func (c *command) run(ctx context.Context, t target, known knownHosts, std streams) (err error) {
	way, err := c.prepare(ctx, t, known, std.err)
	if err != nil {
		return err
	}
	key, authorized, err := newBastionKey()
	if err != nil {
		return fmt.Errorf("generate the key of the Bastion: %w", err)
	}
	b, err := c.createBastion(ctx, t.shoot, authorized)
	if err != nil {
		return err
	}
	defer func() {
		failed := b.delete(context.WithoutCancel(ctx))
		if failed != nil && err != nil {
			fmt.Fprintln(c.out, failed) // The exit code remains that of the command on the node.
			return
		}
		err = errors.Join(err, failed)
	}()
	way.bastionKey = key
	if way.bastion, err = b.await(ctx); err != nil {
		return err
	}
	alive, stop := context.WithCancel(ctx)
	defer stop()
	go b.keepAlive(alive)
	return logIn(ctx, way, session{command: t.command, tty: c.tty || t.command == "", streams: std})
}

// prepare finds out how to log in to the node, before there is a Bastion.
func (c *command) prepare(ctx context.Context, t target, known knownHosts, notices io.Writer) (route, error) {
	shoot := &corev1beta1.Shoot{}
	if err := c.garden.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: t.shoot}, shoot); err != nil {
		return route{}, fmt.Errorf("read Shoot %s/%s: %w", c.namespace, t.shoot, err)
	}
	if err := reachable(shoot); err != nil {
		return route{}, err
	}
	key, err := c.nodeKey(ctx, t.shoot)
	if err != nil {
		return route{}, err
	}
	found, err := c.findNode(ctx, shoot, t.node, known, notices)
	if err != nil {
		return route{}, err
	}
	return route{node: found, nodeKey: key}, nil
}

// newBastionKey generates the key for a Bastion, and returns its public part as a line of authorized_keys.
func newBastionKey() (signer ssh.Signer, authorized string, err error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	if signer, err = ssh.NewSignerFromKey(private); err != nil {
		return nil, "", err
	}
	return signer, string(ssh.MarshalAuthorizedKey(signer.PublicKey())), nil
}

// reachable reports why nobody can log in to the nodes of a Shoot.
func reachable(shoot *corev1beta1.Shoot) error {
	name := shoot.Namespace + "/" + shoot.Name
	switch {
	case shoot.DeletionTimestamp != nil:
		return fmt.Errorf("Shoot %s is being deleted", name)
	case !shoot.HasWorkers():
		return fmt.Errorf("Shoot %s has no nodes", name)
	case !shoot.SSHAccess():
		return fmt.Errorf("the nodes of Shoot %s take no SSH connections. "+
			"To change that, set spec.provider.workersSettings.sshAccess.enabled to true", name)
	case shoot.HibernationEnabled():
		return fmt.Errorf("Shoot %s is hibernated. To wake it up, set spec.hibernation.enabled to false", name)
	}
	return nil
}

// nodeKey reads the private key for the nodes.
func (c *command) nodeKey(ctx context.Context, shoot string) (ssh.Signer, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.namespace, Name: shoot + "." + corev1beta1.ShootSuffixSSHKeypair}
	if err := c.garden.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("read the key for the nodes, Secret %s: %w", key, err)
	}
	signer, err := ssh.ParsePrivateKey(secret.Data["id_rsa"])
	if err != nil {
		return nil, fmt.Errorf("read the key for the nodes, Secret %s: id_rsa: %w", key, err)
	}
	return signer, nil
}

// randomName is a name for a Bastion that nobody else uses.
func randomName() string {
	random := make([]byte, 5)
	_, _ = rand.Read(random) // Never fails.
	return "cli-" + hex.EncodeToString(random)
}
