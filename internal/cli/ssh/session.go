package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// user of bastions and nodes.
	user = "gardener"
	// dialTimeout bounds one attempt to connect to the bastion.
	dialTimeout = 10 * time.Second
	// handshakeTimeout is how long an SSH server may take until the user is logged in. It is longer than the delays that
	// servers impose, such as the name lookup of OpenSSH.
	handshakeTimeout = 20 * time.Second
	// startTimeout is how long the SSH server of a new bastion may take to start.
	startTimeout = time.Minute
)

// route is the way to a node.
type route struct {
	bastion             string
	bastionKey, nodeKey ssh.Signer
	node                node
	// port of both servers; empty means 22.
	port string
}

type streams struct {
	in       io.Reader
	out, err io.Writer
}

// session is what to do on the node. An empty command is a shell. A terminal is requested only if there is one here.
type session struct {
	streams
	command string
	tty     bool
}

// exitCode is the exit code of the command on the node, which has said itself what is wrong.
type exitCode int

func (exitCode) Error() string { return "" }

// Code implements cli.ExitCode.
func (e exitCode) Code() int { return int(e) }

// logIn runs a session on the node, which ends with the context.
func logIn(ctx context.Context, r route, s session) error {
	if r.port == "" {
		r.port = sshPort
	}
	bastion, err := r.dialBastion(ctx)
	if err != nil {
		return err
	}
	defer bastion.Close()
	defer context.AfterFunc(ctx, func() { bastion.Close() })()
	target := net.JoinHostPort(r.node.address, r.port)
	conn, err := bastion.DialContext(ctx, "tcp", target)
	if err != nil {
		return fmt.Errorf("connect to node %s (%s) through the Bastion: %w", r.node.name, target, err)
	}
	client, err := handshake(ctx, conn, bastion, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(r.nodeKey)}, HostKeyCallback: r.node.hostKey.callback,
		HostKeyAlgorithms: r.node.hostKey.algorithms,
	})
	if err != nil {
		return fmt.Errorf("log in to node %s (%s): %w", r.node.name, target, err)
	}
	defer client.Close()
	err = s.run(client)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// handshake logs in over a connection, which is closed on errors. If the context ends, or the server does not answer in
// time, it closes way, which the connection uses: connections through a bastion end only if that still answers.
func handshake(ctx context.Context, conn net.Conn, way io.Closer, config *ssh.ClientConfig) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTimeout,
		fmt.Errorf("the SSH server does not answer within %v", handshakeTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { way.Close() })
	connection, channels, requests, err := ssh.NewClientConn(conn, conn.RemoteAddr().String(), config)
	ended := !stop()
	if err != nil || ended {
		_ = conn.Close()
	}
	if ended {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(connection, channels, requests), nil
}

// dialBastion connects to the bastion, and repeats that while its machine starts. Refusals of the key are not final:
// the SSH server of the image may run before the user data, which admits the key.
func (r route) dialBastion(ctx context.Context) (*ssh.Client, error) {
	var client *ssh.Client
	var answered bool
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollPeriod, startTimeout, true, func(ctx context.Context) (bool, error) {
		got, reached, err := r.tryBastion(ctx)
		if client, answered = got, answered || reached; last == nil || ctx.Err() == nil {
			last = err // An attempt that had no time says less than the one before.
		}
		return err == nil, nil
	})
	if ctx.Err() != nil {
		if client != nil {
			client.Close()
		}
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, r.bastionError(answered, last)
	}
	return client, nil
}

// tryBastion connects to the bastion once. It reports whether an SSH server answered: load balancers also accept
// connections that they do not forward.
func (r route) tryBastion(ctx context.Context) (client *ssh.Client, answered bool, err error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", r.bastionAddress())
	if err != nil {
		return nil, false, err
	}
	var reached atomic.Bool
	client, err = handshake(ctx, conn, conn, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(r.bastionKey)},
		// Its key is new and known to nobody; the node's is checked.
		HostKeyCallback: func(string, net.Addr, ssh.PublicKey) error {
			reached.Store(true)
			return nil
		},
	})
	return client, reached.Load(), err
}

// bastionError is the error of the last attempt to connect to the bastion.
func (r route) bastionError(answered bool, last error) error {
	if answered {
		return fmt.Errorf("log in to the Bastion at %s: %w", r.bastionAddress(), last)
	}
	return fmt.Errorf("connect to the Bastion at %s: %w. Behind a NAT, give the public address with --cidr",
		r.bastionAddress(), last)
}

func (r route) bastionAddress() string { return net.JoinHostPort(r.bastion, r.port) }

// run runs the session on a node, with the terminal of this process if both have one.
func (s session) run(client *ssh.Client) error {
	remote, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	defer remote.Close()
	remote.Stdout, remote.Stderr = s.out, s.err
	if file, ok := s.in.(*os.File); ok && s.tty && term.IsTerminal(int(file.Fd())) {
		restore, err := attachTerminal(remote, int(file.Fd()))
		if err != nil {
			return err
		}
		defer restore()
	}
	// The session does not end with its input, nor does it wait for more of it.
	input, err := remote.StdinPipe()
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	go func() {
		_, _ = io.Copy(input, s.in)
		_ = input.Close()
	}()
	start := remote.Shell
	if s.command != "" {
		start = func() error { return remote.Start(s.command) }
	}
	if err := start(); err != nil {
		return fmt.Errorf("start on the node: %w", err)
	}
	err = remote.Wait()
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return exitCode(exit.ExitStatus())
	}
	if err != nil {
		return fmt.Errorf("session on the node: %w", err)
	}
	return nil
}

// attachTerminal requests a terminal like this one, which passes all keys on until restore is called.
func attachTerminal(remote *ssh.Session, fd int) (restore func(), err error) {
	width, height, err := term.GetSize(fd)
	if err != nil {
		return nil, fmt.Errorf("read the size of the terminal: %w", err)
	}
	kind := os.Getenv("TERM")
	if kind == "" {
		kind = "xterm"
	}
	if err := remote.RequestPty(kind, height, width, ssh.TerminalModes{}); err != nil {
		return nil, fmt.Errorf("request a terminal: %w", err)
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("change the terminal: %w", err)
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	go func() {
		for range changes {
			if width, height, err := term.GetSize(fd); err == nil {
				_ = remote.WindowChange(height, width)
			}
		}
	}()
	return func() {
		signal.Stop(changes)
		close(changes)
		_ = term.Restore(fd, before)
	}, nil
}
