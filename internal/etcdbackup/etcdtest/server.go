package etcdtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/mod/semver"
)

// timeout bounds every wait for etcd.
const timeout = 30 * time.Second

// Server is one etcd on the loopback interface.
type Server struct {
	// DataDir survives Kill.
	DataDir string
	// Name, PeerURL and ClientURL are what it was started with; InitialCluster is made of them.
	Name, PeerURL, ClientURL string
	// Args are added to the command line, for the next Start.
	Args []string

	t       testing.TB
	command *exec.Cmd
	client  *clientv3.Client
}

// Binary returns the path of the built etcd.
func Binary(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	found, err := filepath.Glob(filepath.Join(dir, ".build", "bin", "etcd", "v*", "etcd"))
	if err != nil || len(found) == 0 {
		t.Fatal("no etcd below .build/bin; build it with: hortus components build etcd")
	}
	return slices.MaxFunc(found, func(a, b string) int {
		return semver.Compare(filepath.Base(filepath.Dir(a)), filepath.Base(filepath.Dir(b)))
	})
}

// New prepares a server; Start starts it.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, DataDir: filepath.Join(t.TempDir(), "etcd"), Name: "main", Args: args}
	s.PeerURL, s.ClientURL = "http://"+FreeAddress(t), "http://"+FreeAddress(t)
	t.Cleanup(s.Kill)
	return s
}

// Ports below those from which Linux takes the ports of clients: a client of another test must not get one before it is
// used.
const firstPort, ports = 10000, 22000

// given are the ports that this process has returned.
var given sync.Map

// FreeAddress returns an unused address of this machine, each one once.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(ports))
		if _, taken := given.LoadOrStore(address, true); taken {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		l.Close()
		return address
	}
	t.Fatalf("no free port from %d to %d", firstPort, firstPort+ports)
	return ""
}

// InitialCluster is the flag of the same name.
func (s *Server) InitialCluster() string {
	return s.Name + "=" + s.PeerURL
}

// Start starts etcd and waits until it answers.
func (s *Server) Start() *clientv3.Client {
	s.t.Helper()
	s.command = exec.Command(Binary(s.t), append([]string{
		"--name=" + s.Name, "--data-dir=" + s.DataDir, "--listen-client-urls=" + s.ClientURL, "--advertise-client-urls=" +
			s.ClientURL,
		"--listen-peer-urls=" + s.PeerURL, "--initial-advertise-peer-urls=" + s.PeerURL, "--initial-cluster=" +
			s.InitialCluster(),
		"--log-level=error", "--unsafe-no-fsync=true",
	}, s.Args...)...)
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.command.Stdout, s.command.Stderr = os.Stderr, os.Stderr
	if err := s.command.Start(); err != nil {
		s.t.Fatalf("start etcd: %v", err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.ClientURL}, DialTimeout: timeout,
		Logger:             zap.NewNop(),
		MaxCallSendMsgSize: 16 << 20})
	if err != nil {
		s.t.Fatal(err)
	}
	s.client = client
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		if _, err = client.Get(ctx, "ready"); err == nil {
			return client
		}
		if ctx.Err() != nil {
			s.t.Fatalf("etcd does not answer: %v", err)
		}
	}
}

// Kill ends etcd at once, as a power failure does.
func (s *Server) Kill() {
	if s.command == nil {
		return
	}
	_ = s.client.Close()
	_ = s.command.Process.Kill()
	_, _ = s.command.Process.Wait()
	s.command = nil
}

// Revision is the current one.
func (s *Server) Revision() int64 {
	s.t.Helper()
	got, err := s.client.Get(context.Background(), "ready")
	if err != nil {
		s.t.Fatal(err)
	}
	return got.Header.Revision
}

// Wipe removes the data directory.
func (s *Server) Wipe() {
	s.t.Helper()
	if err := os.RemoveAll(s.DataDir); err != nil {
		s.t.Fatal(err)
	}
}

// String names the server in messages.
func (s *Server) String() string { return fmt.Sprintf("etcd %s at %s", s.Name, s.ClientURL) }
