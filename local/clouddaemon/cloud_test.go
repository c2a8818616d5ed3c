package clouddaemon_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"
	clocktesting "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

func createInstance(t *testing.T, c *cloud.Client, in cloud.CreateInstance) *cloud.Instance {
	t.Helper()
	if in.MachineType == "" {
		in.MachineType = "small"
	}
	if in.Image == "" {
		in.Image = "hortus.dev/machine:1.0.0"
	}
	i, err := c.CreateInstance(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func stateOf(t *testing.T, c *cloud.Client, id string) cloud.State {
	t.Helper()
	i, err := c.GetInstance(t.Context(), id)
	if cloud.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return i.State
}

func expectCode(t *testing.T, err error, want cloud.Code) {
	t.Helper()
	if got := cloud.CodeOf(err); got != want {
		t.Errorf("error = %v, want code %q", err, want)
	}
}

func TestInstanceLife(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	network := c.Network(t, "n", "10.9.0.0/24")
	i := createInstance(t, c.Client,
		cloud.CreateInstance{Name: "m", NetworkID: network, UserData: "hello", Tags: map[string]string{"a": "b"}})
	want := &cloud.Instance{
		ID: i.ID, Name: "m", Account: "admin", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: network,
		Region: "local", Zone: "local-a", Tags: map[string]string{"a": "b"}, Address: "10.9.0.10", CIDR: "10.9.0.0/24",
		Gateway: "10.9.0.1", ProviderID: "local:///local/" + i.ID, State: cloud.StatePending,
	}
	if diff := cmp.Diff(want, i, cmpopts.IgnoreFields(cloud.Instance{}, "CreatedAt")); diff != "" {
		t.Errorf("CreateInstance() mismatch (-want +got):\n%s", diff)
	}
	c.Eventually(t, "it runs", func() bool { return stateOf(t, c.Client, i.ID) == cloud.StateRunning })

	again := createInstance(t, c.Client,
		cloud.CreateInstance{Name: "m", NetworkID: network, UserData: "hello", Tags: map[string]string{"a": "b"}})
	if again.ID != i.ID {
		t.Errorf("the repeated request returned %s, want %s", again.ID, i.ID)
	}
	_, err := c.Client.CreateInstance(t.Context(),
		cloud.CreateInstance{Name: "m", MachineType: "large", Image: "hortus.dev/machine:1.0.0", NetworkID: network})
	expectCode(t, err, cloud.CodeAlreadyExists)

	c.Driver.Exit(i.ID, 1)
	c.Eventually(t, "it was started again", func() bool {
		now, err := c.Client.GetInstance(t.Context(), i.ID)
		return err == nil && now.State == cloud.StateRunning && now.Boots == 2
	})
	expectCode(t, c.Client.DeleteNetwork(t.Context(), network), cloud.CodeDependency)
	if err := c.Client.DeleteInstance(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "it is gone", func() bool { return stateOf(t, c.Client, i.ID) == "" })
	expectCode(t, c.Client.DeleteInstance(t.Context(), i.ID), cloud.CodeNotFound)
	if err := c.Client.DeleteNetwork(t.Context(), network); err != nil {
		t.Error(err)
	}
	c.Eventually(t, "the network is gone", func() bool {
		_, err := c.Client.GetNetwork(t.Context(), network)
		return cloud.IsNotFound(err)
	})
}

func TestUserDataOfInstancesCanBeChanged(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	alice, bob := c.As(t, "alice"), c.As(t, "bob")
	n, err := alice.CreateNetwork(t.Context(), cloud.CreateNetwork{Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	in := cloud.CreateInstance{
		Name: "m", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: n.ID, UserData: "old",
		Tags: map[string]string{"a": "b"},
	}
	i := createInstance(t, alice, in)
	runs := func(boots int) {
		t.Helper()
		c.Eventually(t, fmt.Sprintf("it runs after %d boots", boots), func() bool {
			now, err := alice.GetInstance(t.Context(), i.ID)
			return err == nil && now.State == cloud.StateRunning && now.Boots == boots
		})
	}
	runs(1)

	for name, change := range map[string]func(*cloud.CreateInstance){
		"machine type": func(in *cloud.CreateInstance) { in.MachineType = "large" },
		"image":        func(in *cloud.CreateInstance) { in.Image = "hortus.dev/machine:1.1.0" },
		"tags":         func(in *cloud.CreateInstance) { in.Tags = nil },
		"address":      func(in *cloud.CreateInstance) { in.Address = "10.0.0.99" },
		"zone":         func(in *cloud.CreateInstance) { in.Zone = "local-b" },
	} {
		other := in
		other.UserData = "new"
		change(&other)
		if _, err := alice.UpdateInstance(t.Context(), i.ID, other); cloud.CodeOf(err) != cloud.CodeInvalid {
			t.Errorf("another %s: error = %v, want code %q", name, err, cloud.CodeInvalid)
		}
	}
	if _, err := alice.UpdateInstance(t.Context(), i.ID, in); err != nil { // Without a change there is no boot: see below.
		t.Error(err)
	}
	_, err = bob.UpdateInstance(t.Context(), i.ID, in)
	expectCode(t, err, cloud.CodeNotFound)

	in.UserData = "new"
	_, err = alice.CreateInstance(t.Context(), in)
	expectCode(t, err, cloud.CodeAlreadyExists)
	if _, err := alice.UpdateInstance(t.Context(), i.ID, in); err != nil {
		t.Fatal(err)
	}
	runs(2)
	data, err := os.ReadFile(filepath.Join(filepath.Dir(c.AdminFile()), "instances", i.ID, "boot", "user-data"))
	if err != nil || string(data) != "new" {
		t.Errorf("it has booted with user data %q, %v", data, err)
	}
	if again := createInstance(t, alice, in); again.ID != i.ID {
		t.Errorf("a create call with the new user data returned %s, want %s", again.ID, i.ID)
	}
}

func TestListsFilterByTags(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	network := c.Network(t, "n", "")
	for _, name := range []string{"a", "b", "c"} {
		createInstance(t, c.Client, cloud.CreateInstance{
			Name: name, NetworkID: network, Tags: map[string]string{"name": name, "all": "yes"},
		})
	}
	for name, tc := range map[string]struct {
		filter cloud.Filter
		want   []string
	}{
		"no filter":         {want: []string{"a", "b", "c"}},
		"one tag":           {filter: cloud.Filter{Tags: map[string]string{"name": "b"}}, want: []string{"b"}},
		"tags must all fit": {filter: cloud.Filter{Tags: map[string]string{"name": "b", "all": "no"}}},
		"by name":           {filter: cloud.Filter{Name: "c"}, want: []string{"c"}},
		"by network":        {filter: cloud.Filter{NetworkID: "net-other"}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := c.Client.ListInstances(t.Context(), tc.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range list {
				got = append(got, i.Name)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.SortSlices(strings.Compare), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("names mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccountsAreSeparate(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	alice, bob := c.As(t, "alice"), c.As(t, "bob")
	n, err := alice.CreateNetwork(t.Context(), cloud.CreateNetwork{Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bob.GetNetwork(t.Context(), n.ID)
	expectCode(t, err, cloud.CodeNotFound)
	expectCode(t, bob.DeleteNetwork(t.Context(), n.ID), cloud.CodeNotFound)
	if list, err := bob.ListNetworks(t.Context(), cloud.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("bob lists %v, %v, want nothing", list, err)
	}
	_, err = bob.CreateInstance(t.Context(),
		cloud.CreateInstance{Name: "m", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: n.ID})
	expectCode(t, err, cloud.CodeInvalid)
	if _, err := alice.SetDNSRecord(t.Context(),
		cloud.DNSRecord{Name: "x.test", Type: "A", Values: []string{"1.2.3.4"}}); err != nil {
		t.Fatal(err)
	}
	_, err = bob.SetDNSRecord(t.Context(), cloud.DNSRecord{Name: "x.test", Type: "A", Values: []string{"6.6.6.6"}})
	expectCode(t, err, cloud.CodeUnauthorized)
	_, err = bob.SetFault(t.Context(), cloud.Fault{Type: cloud.FaultQuota, Operation: "*"})
	expectCode(t, err, cloud.CodeUnauthorized)
	for client, want := range map[*cloud.Client]int{alice: 2, bob: 0} {
		// A network and a DNS record, created after revision 1.
		events, err := client.Events(t.Context(), 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		for _, e := range events.Events {
			if e.Type == "created" {
				made++
			}
		}
		if made != want {
			t.Errorf("events = %+v, want %d for new objects", events.Events, want)
		}
	}
	if list, err := c.Client.ListNetworks(t.Context(), cloud.Filter{}); err != nil || len(list) != 1 {
		t.Errorf("the administrator lists %v, %v, want alice's network", list, err)
	}
}

func TestCredentials(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	cfg := c.Config
	cfg.SecretKey = "wrong"
	stranger, err := cloud.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = stranger.About(t.Context())
	expectCode(t, err, cloud.CodeAuthFailure)
	made, err := c.Client.CreateCredentials(t.Context(), "alice", false)
	if err != nil {
		t.Fatal(err)
	}
	cfg.AccessKey, cfg.SecretKey = made.AccessKey, made.SecretKey
	alice, err := cloud.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	about, err := alice.About(t.Context())
	if err != nil || about.Account != "alice" || about.Admin {
		t.Errorf("About() = %+v, %v, want account alice", about, err)
	}
	if err := c.Client.DeleteCredentials(t.Context(), made.AccessKey); err != nil {
		t.Fatal(err)
	}
	_, err = alice.About(t.Context())
	expectCode(t, err, cloud.CodeAuthFailure)
	info, err := os.Stat(c.AdminFile())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the administrator's file = %v, want 0600", info.Mode().Perm())
	}
}

func TestQuotas(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	alice := c.As(t, "alice")
	if _, err := c.Client.SetQuota(t.Context(), "alice",
		cloud.Limits{Instances: 2, CPU: 3, LoadBalancers: 1}); err != nil {
		t.Fatal(err)
	}
	n, err := alice.CreateNetwork(t.Context(), cloud.CreateNetwork{Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	first := createInstance(t, alice, cloud.CreateInstance{Name: "a", NetworkID: n.ID})
	second := cloud.CreateInstance{Name: "b", NetworkID: n.ID, MachineType: "small", Image: "hortus.dev/machine:1.0.0"}
	_, err = alice.CreateInstance(t.Context(), second)
	expectCode(t, err, cloud.CodeQuotaExceeded)
	if err == nil || !strings.Contains(err.Error(), "Quota exceeded") {
		t.Errorf("error %v does not contain Quota exceeded, by which it is classified", err)
	}
	if err := alice.DeleteInstance(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.CreateInstance(t.Context(), second); err != nil {
		t.Errorf("after making room: %v", err)
	}
	quotas, err := alice.ListQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []cloud.Quota{{
		Account: "alice", Limits: cloud.Limits{Instances: 2, CPU: 3, LoadBalancers: 1},
		Used: cloud.Limits{Instances: 1, CPU: 2, MemoryBytes: 2 << 30, Networks: 1},
	}}
	if diff := cmp.Diff(want, quotas); diff != "" {
		t.Errorf("ListQuotas() mismatch (-want +got):\n%s", diff)
	}
}

func TestStateSurvivesRestart(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	network := c.Network(t, "n", "")
	running := createInstance(t, c.Client, cloud.CreateInstance{Name: "a", NetworkID: network})
	c.Eventually(t, "it runs", func() bool { return stateOf(t, c.Client, running.ID) == cloud.StateRunning })
	lb, err := c.Client.CreateLoadBalancer(t.Context(), cloud.CreateLoadBalancer{Name: "lb", Listeners: []cloud.Listener{
		{Port: 20443, Targets: []cloud.Target{{Host: "127.0.0.1", Port: echoServer(t, "127.0.0.1:0", "one")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.CreateBucket(t.Context(), "backups"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.PutObject(t.Context(), "backups", "etcd/a b", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	before, err := c.Client.Events(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ca, access := c.Config.CA, c.Config.AccessKey

	c.Restart(t)

	if c.Config.CA != ca || c.Config.AccessKey != access {
		t.Error("CA or administrator's credentials changed")
	}
	i, err := c.Client.GetInstance(t.Context(), running.ID)
	if err != nil {
		t.Fatal(err)
	}
	if i.State != cloud.StateRunning || i.Boots != 1 {
		t.Errorf("instance is %s after %d boots, want it running since its first", i.State, i.Boots)
	}
	c.Eventually(t, "the load balancer forwards",
		func() bool { return call(t, fmt.Sprintf("%s:20443", lb.Address)) == "one" })
	content, err := c.Client.GetObject(t.Context(), "backups", "etcd/a b")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if data, _ := io.ReadAll(content); string(data) != "content" {
		t.Errorf("object = %q, want %q", data, "content")
	}
	after, err := c.Client.Events(t.Context(), before.Revision-1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !after.Reset || after.Revision < before.Revision {
		t.Errorf("Events() = %+v, want a reset, since events of before the restart are not kept", after)
	}
}

func TestEventsWakeTheWaiting(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	start, err := c.Client.Events(t.Context(), 0, time.Minute)
	if err != nil || len(start.Events) != 0 || start.Revision == 0 {
		t.Fatalf("Events(0) = %+v, %v, want the revision at once", start, err)
	}
	got := make(chan *cloud.EventList, 1)
	failed := make(chan error, 1)
	go func() {
		events, err := c.Client.Events(t.Context(), start.Revision, time.Minute)
		got <- events
		failed <- err
	}()
	if _, err := c.Client.SetDNSRecord(t.Context(),
		cloud.DNSRecord{Name: "a.test", Type: "A", Values: []string{"1.2.3.4"}}); err != nil {
		t.Fatal(err)
	}
	events := <-got
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	want := []cloud.Event{{
		Revision: start.Revision + 1, Kind: "dnsrecord", ID: "a.test/A", Type: "created", Account: "admin",
	}}
	if diff := cmp.Diff(want, events.Events); diff != "" {
		t.Errorf("events mismatch (-want +got):\n%s", diff)
	}
}

func TestWatchSurvivesRestart(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan *cloud.EventList, 100)
	ended := make(chan error, 1)
	client := c.Client
	go func() { ended <- client.Watch(ctx, func(l *cloud.EventList) { seen <- l }) }()
	if first := <-seen; !first.Reset {
		t.Errorf("first response %+v does not request a list", first)
	}
	c.Network(t, "n", "")
	if second := <-seen; len(second.Events) == 0 {
		t.Errorf("second response %+v has no event", second)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch() = %v, want the context's error", err)
	}
}

func TestLoadBalancerForwardsToInstances(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	network := c.Network(t, "n", "127.30.0.0/24") // Loopback, so that the test can serve for the instances.
	a := createInstance(t, c.Client, cloud.CreateInstance{Name: "a", NetworkID: network})
	b := createInstance(t, c.Client, cloud.CreateInstance{Name: "b", NetworkID: network})
	port := echoServer(t, a.Address+":0", "a")
	echoServer(t, fmt.Sprintf("%s:%d", b.Address, port), "b")
	lb, err := c.Client.CreateLoadBalancer(t.Context(), cloud.CreateLoadBalancer{Name: "lb", Listeners: []cloud.Listener{
		{Port: 20080, Targets: []cloud.Target{{InstanceID: a.ID, Port: port}, {InstanceID: b.ID, Port: port}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("%s:20080", lb.Address)
	c.Eventually(t, "it forwards", func() bool { return call(t, address) != "" })
	answers := map[string]bool{}
	for range 4 {
		answers[call(t, address)] = true
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b": true}, answers); diff != "" {
		t.Errorf("answers mismatch (-want +got):\n%s", diff)
	}
	if err := c.Client.DeleteInstance(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "a is gone", func() bool { return stateOf(t, c.Client, a.ID) == "" })
	c.Eventually(t, "only b is called", func() bool {
		first, second := call(t, address), call(t, address) // Targets are tried in turn.
		return first == "b" && second == "b"
	})
	if err := c.Client.DeleteLoadBalancer(t.Context(), lb.ID); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "it is gone", func() bool {
		_, err := c.Client.GetLoadBalancer(t.Context(), lb.ID)
		return cloud.IsNotFound(err)
	})
	if got := call(t, address); got != "" {
		t.Errorf("a deleted load balancer answers %q", got)
	}
}

// echoServer writes a text to every connection, and returns its port.
func echoServer(t *testing.T, address, text string) int {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text)
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// call returns the text of a server, "" if there is none.
func call(t *testing.T, address string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		return ""
	}
	defer c.Close()
	data, _ := io.ReadAll(c)
	return string(data)
}

func TestDNS(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	for _, r := range []cloud.DNSRecord{
		{Name: "API.Shoot.test.", Type: "a", Values: []string{"198.18.8.1"}},
		{Name: "www.shoot.test", Type: "CNAME", Values: []string{"api.shoot.test"}},
	} {
		if _, err := c.Client.SetDNSRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	m, err := dns.Exchange(new(dns.Msg).SetQuestion("www.shoot.test.", dns.TypeA), c.DNS)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Answer) != 2 || m.Answer[1].(*dns.A).A.String() != "198.18.8.1" {
		t.Errorf("answer = %v, want the CNAME and its address", m.Answer)
	}
	if err := c.Client.DeleteDNSRecord(t.Context(), "api.shoot.test", "A"); err != nil {
		t.Fatal(err)
	}
	if m, err = dns.Exchange(new(dns.Msg).SetQuestion("api.shoot.test.", dns.TypeA), c.DNS); err != nil ||
		m.Rcode != dns.RcodeNameError {
		t.Errorf("answer for a deleted record = %v, %v, want NXDOMAIN", m, err)
	}
	if _, err := c.Client.SetDNSRecord(t.Context(),
		cloud.DNSRecord{Name: "x", Type: "MX", Values: []string{"y"}}); cloud.CodeOf(err) != cloud.CodeInvalid {
		t.Errorf("MX record: %v, want it rejected", err)
	}
}

func TestBuckets(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	alice := c.As(t, "alice")
	for range 2 {
		if _, err := alice.CreateBucket(t.Context(), "backups"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.As(t, "bob").CreateBucket(t.Context(), "backups")
	expectCode(t, err, cloud.CodeAlreadyExists)
	for _, key := range []string{"v1/full", "v1/delta%2F", "v2/full"} {
		if _, err := alice.PutObject(t.Context(), "backups", key, strings.NewReader("of "+key)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := alice.PutObject(t.Context(), "backups", "v1/full", strings.NewReader("new")); err != nil {
		t.Fatal(err)
	}
	objects, err := alice.ListObjects(t.Context(), "backups", "v1/")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range objects {
		keys = append(keys, fmt.Sprint(o.Key, " ", o.SizeBytes))
	}
	if diff := cmp.Diff([]string{"v1/delta%2F 14", "v1/full 3"}, keys); diff != "" {
		t.Errorf("ListObjects() mismatch (-want +got):\n%s", diff)
	}
	content, err := alice.GetObject(t.Context(), "backups", "v1/full")
	if err != nil {
		t.Fatal(err)
	}
	data, _ := io.ReadAll(content)
	content.Close()
	if string(data) != "new" {
		t.Errorf("content = %q, want that of the last put", data)
	}
	expectCode(t, alice.DeleteBucket(t.Context(), "backups", false), cloud.CodeDependency)
	if err := alice.DeleteObject(t.Context(), "backups", "v2/full"); err != nil {
		t.Error(err)
	}
	_, err = alice.GetObject(t.Context(), "backups", "v2/full")
	expectCode(t, err, cloud.CodeNotFound)
	if err := alice.DeleteBucket(t.Context(), "backups", true); err != nil {
		t.Error(err)
	}
}

func TestVolumes(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	network := c.Network(t, "n", "")
	v, err := c.Client.CreateVolume(t.Context(), cloud.CreateVolume{Name: "v", SizeBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	attach := []cloud.VolumeAttachment{{VolumeID: v.ID, Path: "/data"}}
	i := createInstance(t, c.Client, cloud.CreateInstance{Name: "a", NetworkID: network, Volumes: attach})
	_, err = c.Client.CreateInstance(t.Context(), cloud.CreateInstance{
		Name: "b", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: network, Volumes: attach,
	})
	expectCode(t, err, cloud.CodeDependency)
	expectCode(t, c.Client.DeleteVolume(t.Context(), v.ID), cloud.CodeDependency)
	if err := c.Client.DeleteInstance(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the instance is gone", func() bool { return stateOf(t, c.Client, i.ID) == "" })
	if err := c.Client.DeleteVolume(t.Context(), v.ID); err != nil {
		t.Error(err)
	}
}

func TestRequestsAreValidated(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	network := c.Network(t, "n", "10.9.0.0/28")
	valid := cloud.CreateInstance{Name: "m", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: network}
	for name, change := range map[string]func(*cloud.CreateInstance){
		"a name that is no host name":       func(i *cloud.CreateInstance) { i.Name = "Not a label" },
		"an unknown machine type":           func(i *cloud.CreateInstance) { i.MachineType = "huge" },
		"an unknown image":                  func(i *cloud.CreateInstance) { i.Image = "hortus.dev/machine:9" },
		"an unknown network":                func(i *cloud.CreateInstance) { i.NetworkID = "net-x" },
		"an unknown zone":                   func(i *cloud.CreateInstance) { i.Zone = "elsewhere" },
		"an address outside of the network": func(i *cloud.CreateInstance) { i.Address = "10.8.0.2" },
		"the gateway's address":             func(i *cloud.CreateInstance) { i.Address = "10.9.0.1" },
		"the network's broadcast address":   func(i *cloud.CreateInstance) { i.Address = "10.9.0.15" },
		"a volume mounted over the root": func(i *cloud.CreateInstance) {
			i.Volumes = []cloud.VolumeAttachment{
				{Path: "/"},
			}
		},
		"a volume mounted over later ones": func(i *cloud.CreateInstance) {
			i.Volumes = []cloud.VolumeAttachment{
				{Path: "/mnt"},
			}
		},
		"user data beyond the limit of 1 MiB": func(i *cloud.CreateInstance) { i.UserData = strings.Repeat("x", 1<<20+1) },
		"a tag whose key has an equals sign":  func(i *cloud.CreateInstance) { i.Tags = map[string]string{"a=b": "c"} },
	} {
		t.Run(name, func(t *testing.T) {
			in := valid
			change(&in)
			_, err := c.Client.CreateInstance(t.Context(), in)
			expectCode(t, err, cloud.CodeInvalid)
		})
	}
}

func TestThousandInstances(t *testing.T) {
	const count = 1000
	c := cloudtest.Start(t, cloudtest.Options{})
	network := c.Network(t, "n", "10.0.0.0/8")
	for n := range count {
		createInstance(t, c.Client, cloud.CreateInstance{Name: fmt.Sprintf("m%d", n), NetworkID: network})
	}
	c.Eventually(t, "all run", func() bool {
		list, err := c.Client.ListInstances(t.Context(), cloud.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if i.State != cloud.StateRunning {
				return false
			}
		}
		return len(list) == count
	})
}

// TestServerCertificateIsRenewed while the cloud runs: it is valid for a year, and the cloud may run for longer.
func TestServerCertificateIsRenewed(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	c := cloudtest.Start(t, cloudtest.Options{Clock: clock})
	shown := func() *x509.Certificate {
		t.Helper()
		// The test checks the validity itself.
		connection, err := tls.Dial("tcp", strings.TrimPrefix(c.Config.Endpoint, "https://"),
			&tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
		return connection.ConnectionState().PeerCertificates[0]
	}
	first := shown()
	if again := shown(); !again.Equal(first) {
		t.Error("a new certificate is generated for each connection")
	}
	clock.Step(13 * 30 * 24 * time.Hour)
	second := shown()
	if now := clock.Now(); now.Before(second.NotBefore) || now.Add(300*24*time.Hour).After(second.NotAfter) {
		t.Errorf("after 13 months the certificate is valid from %s to %s", second.NotBefore, second.NotAfter)
	}
	if again := shown(); !again.Equal(second) {
		t.Error("a new certificate is generated for each connection after a renewal")
	}
}
