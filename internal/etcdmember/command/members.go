package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/keeper"
	"hortus.dev/hortus/internal/etcdbackup/restore"
	"hortus.dev/hortus/internal/etcdmember"
	"hortus.dev/hortus/internal/etcdmember/cluster"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// listed is a line of the file with the members.
type listed struct {
	cluster.Address
	peerURL string
}

// readMembers reads the desired members, one per line: name, and URLs for peers, for clients and of the process. The
// first one may begin a cluster. Without the file there is one member.
func readMembers(path string) ([]listed, error) {
	data, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	var members []listed
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		switch len(fields) {
		case 0:
		case 4:
			members = append(members, listed{
				cluster.Address{Name: fields[0], ClientURL: fields[2], ServiceURL: fields[3]}, fields[1],
			})
		default:
			return nil, fmt.Errorf("%s: invalid line: %q (name, peer URL, client URL, service URL)", path,
				strings.TrimSpace(line))
		}
	}
	return members, nil
}

// members are all members of the cluster, and the certificate files for connections to them.
type members struct {
	list  []listed
	files *certs.Files
}

// initial is the flag --initial-cluster of all of them.
func (m *members) initial() string {
	var all []string
	for _, l := range m.list {
		all = append(all, l.Name+"="+l.peerURL)
	}
	return strings.Join(all, ",")
}

// with connects to the cluster for the duration of use. It does not wait for the connection.
func (p *parts) with(ctx context.Context, m *members, use func(*cluster.Cluster) error) error {
	c := &cluster.Cluster{DataDir: p.args.dataDir, Name: p.args.name, Log: p.log.WithName("members"), Status: m.status}
	var endpoints []string
	for i, l := range m.list {
		endpoints = append(endpoints, l.ClientURL)
		if l.Name == p.args.name {
			c.PeerURL, c.First = l.peerURL, i == 0
			continue
		}
		c.Peers = append(c.Peers, l.Address)
	}
	if c.PeerURL == "" {
		return fmt.Errorf("%s: member %q is missing", p.flags.membersFile, p.args.name)
	}
	var err error
	if c.Etcd, err = keeper.Connect(endpoints[0], m.files); err != nil {
		return err
	}
	defer c.Etcd.Close()
	c.Etcd.SetEndpoints(endpoints...)
	if c.Own, err = keeper.Connect(p.flags.endpoint, m.files); err != nil {
		return err
	}
	defer c.Own.Close()
	return use(c)
}

// status returns the status of another member's process.
func (m *members) status(ctx context.Context, a cluster.Address) (etcdbackup.Status, error) {
	c, err := m.connect(a)
	if err != nil {
		return etcdbackup.Status{}, err
	}
	defer c.Close()
	return c.Status(ctx)
}

func (m *members) connect(a cluster.Address) (*etcdbackup.Client, error) {
	u, err := url.Parse(a.ServiceURL)
	if err != nil {
		return nil, fmt.Errorf("URL of member %s: %w", a.Name, err)
	}
	config, err := m.files.Client(u.Hostname())
	if err != nil {
		return nil, err
	}
	return etcdbackup.NewClient(a.ServiceURL, config), nil
}

// prepare makes the data directory ready, and this member one of its cluster.
func (p *parts) prepare(ctx context.Context) ([]string, error) {
	if state, err := restore.Inspect(p.args.dataDir); err == nil {
		p.member.Found(string(state))
	}
	list, err := readMembers(p.flags.membersFile)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return []string{"--initial-cluster=" + p.args.initialCluster}, p.restore(ctx, p.args.initialCluster)
	}
	m := &members{list: list, files: p.client}
	p.members.Store(m)
	if len(list) == 1 && list[0].Name == p.args.name {
		return []string{"--initial-cluster=" + m.initial()}, p.restore(ctx, m.initial())
	}
	var d cluster.Decision
	err = p.with(ctx, m, func(c *cluster.Cluster) (err error) {
		d, err = c.Ready(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", etcdmember.ErrWaiting, err)
	}
	args := []string{"--initial-cluster=" + d.Initial, "--initial-cluster-state=new"}
	switch d.Action {
	case cluster.Join:
		args[1] = "--initial-cluster-state=existing"
		return args, p.joined(ctx)
	case cluster.Start:
		return args, p.restore(ctx, m.initial())
	}
	return args, p.restore(ctx, d.Initial)
}

// joined marks the data directory, which etcd is about to make, as one of the current owner.
func (p *parts) joined(ctx context.Context) error {
	if p.store == nil {
		return nil
	}
	l, err := p.store.List(ctx)
	if err != nil {
		return err
	}
	p.readBucket(ctx)
	return restore.MarkJoined(p.args.dataDir, p.guard.Owner().Epoch, l.Branches)
}

// settle runs while etcd starts.
func (p *parts) settle(ctx context.Context) {
	m := p.members.Load()
	if m == nil {
		return
	}
	if err := p.with(ctx, m, func(c *cluster.Cluster) error { c.Settle(ctx); return nil }); err != nil {
		p.log.Info("Cannot reach other members", "error", err.Error())
	}
}

// turn waits until this member may be restarted, or ctx ends. The connection lasts until the turn ends.
func (p *parts) turn(waiting context.Context) (func(), error) {
	list, err := readMembers(p.flags.membersFile) // Others may have joined since the start.
	if err != nil {
		return nil, err
	}
	m := &members{list: list, files: p.client}
	if len(m.list) < 2 {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(waiting))
	defer context.AfterFunc(waiting, cancel)()
	turn, done := make(chan func(), 1), make(chan error, 1)
	go func() {
		done <- p.with(ctx, m, func(c *cluster.Cluster) error {
			end, err := c.Turn(ctx)
			if err != nil {
				return err
			}
			turn <- end
			<-ctx.Done()
			return nil
		})
	}()
	select {
	case end := <-turn:
		return func() {
			end()
			cancel()
			<-done
		}, nil
	case err := <-done:
		cancel()
		return nil, err
	}
}
