//go:build landscape && linux

package cleanup_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon"
	"hortus.dev/hortus/local/clouddaemon/cleanup"
	"hortus.dev/hortus/local/clouddaemon/driver"
	"hortus.dev/hortus/local/clouddaemon/driver/container"
	"hortus.dev/hortus/local/clouddaemon/fabric/linux"
	"hortus.dev/hortus/local/clouddaemon/registry"
	"hortus.dev/hortus/local/clouddaemon/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// userData makes a machine serve its host name, the addresses that it resolves, and whether it can pull images.
const userData = `#hortus-machine-config
files:
- path: /opt/web.sh
  permissions: 493
  content:
    inline:
      data: |
        #!/bin/sh
        mkdir -p /srv /var/lib/web
        echo boot >> /var/lib/web/boots
        hostname > /srv/name
        wc -l < /var/lib/web/boots > /srv/boots
        nslookup www.example.test > /srv/dns 2>&1
        (while ! ctr version > /dev/null 2>&1; do sleep 0.2; done
        ctr -n k8s.io images pull --hosts-dir /etc/containerd/certs.d registry.k8s.io/pause:3.10.1 > /srv/pull 2>&1
        echo "exit $?" >> /srv/pull) &
        exec busybox httpd -f -p 8080 -h /srv
units:
- name: web.service
  enable: true
  command: start
  content: |
    [Unit]
    After=containerd.service
    [Service]
    ExecStart=/opt/web.sh
    Restart=always
    [Install]
    WantedBy=multi-user.target
`

// world is a cloud on a real host.
type world struct {
	*testing.T
	host   *sandboxtest.Host
	client *cloud.Client
	stop   func()
	log    *bytes.Buffer
}

func TestTheCloudOnARealHost(t *testing.T) {
	w := &world{T: t, host: sandboxtest.NewHost(t), log: &bytes.Buffer{}}
	w.start()
	ctx := t.Context()
	if _, err := w.client.SetDNSRecord(ctx,
		cloud.DNSRecord{Name: "www.example.test", Type: "A", Values: []string{"198.18.77.7"}}); err != nil {
		t.Fatal(err)
	}
	var balancers, ids []string
	for _, name := range []string{"one", "two"} { // Both networks have the same addresses.
		n, err := w.client.CreateNetwork(ctx, cloud.CreateNetwork{Name: name, CIDR: "10.1.0.0/24"})
		if err != nil {
			t.Fatal(err)
		}
		i, err := w.client.CreateInstance(ctx, cloud.CreateInstance{
			Name: name, MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: n.ID, Address: "10.1.0.10",
			UserData: userData,
		})
		if err != nil {
			t.Fatal(err)
		}
		lb, err := w.client.CreateLoadBalancer(ctx, cloud.CreateLoadBalancer{Name: name, Listeners: []cloud.Listener{
			{Port: 80, Targets: []cloud.Target{{InstanceID: i.ID, Port: 8080}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		balancers, ids = append(balancers, lb.Address), append(ids, i.ID)
	}
	check := func(when string, boots int) {
		t.Helper()
		for n, name := range []string{"one", "two"} {
			w.until(when+": "+name+" answers", func() bool { return w.get(balancers[n], "name") == name })
			w.until(when+": "+name+" has booted", func() bool { return w.get(balancers[n], "boots") == fmt.Sprint(boots) })
			w.until(when+": "+name+" resolves",
				func() bool { return strings.Contains(w.get(balancers[n], "dns"), "198.18.77.7") })
			w.until(when+": "+name+" pulls", func() bool { return strings.HasSuffix(w.get(balancers[n], "pull"), "exit 0") })
		}
	}
	check("at first", 1)

	w.stop()
	w.start()
	check("after a restart of the daemon", 1)

	w.host.KillContainerd()
	w.host.StartContainerd(t)
	check("after a crash of containerd", 1)

	w.stop()
	w.crashHost(ids)
	w.host.StartContainerd(t)
	w.start()
	check("after a crash of the host", 2)

	if err := w.client.RebootInstance(ctx, ids[0]); err != nil {
		t.Fatal(err)
	}
	w.until("one has rebooted", func() bool { return w.get(balancers[0], "boots") == "3" })

	if err := w.client.DeleteInstance(ctx, ids[0]); err != nil {
		t.Fatal(err)
	}
	w.until("one is gone", func() bool {
		_, err := w.client.GetInstance(ctx, ids[0])
		return cloud.IsNotFound(err)
	})
	w.nothingLeftOf(ids[0])

	options := cleanup.Options{StateDir: w.host.StateDir, RunDir: w.host.RunDir, Containerd: w.host.Containerd.Socket}
	if err := cleanup.Run(ctx, options); err == nil {
		t.Error("cleaning up is not rejected while the daemon runs")
	}
	w.stop()
	w.host.KillContainerd()
	for range 2 {
		if err := cleanup.Run(ctx, options); err != nil {
			t.Errorf("clean up: %v", err)
		}
	}
	w.nothingLeftOf(ids[1])
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, "h") {
			t.Errorf("interface %s is left", l.Attrs().Name)
		}
	}
}

// start runs the daemon until stop is called.
func (w *world) start() {
	w.Helper()
	public := netip.MustParsePrefix("198.18.0.1/16")
	layout := filepath.Join(sandboxtest.Artifacts(w), "images")
	d, err := clouddaemon.New(clouddaemon.Config{
		Dir: filepath.Join(w.host.StateDir, "cloud"), Region: "local", Zones: []string{"local-a"}, Public: public.Masked(),
		Listen: []string{"198.18.0.1:7443"}, DNSListen: "198.18.0.1:53", Layout: layout,
		Fabric: &linux.Fabric{Public: public}, RealNetworks: true, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		NewDriver: func([]string) (driver.Driver, error) {
			return container.New(container.Options{
				Address: w.host.Containerd.Socket, Layout: registry.New(layout), ImageRepository: "hortus.dev/machine",
			})
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- d.Run(ctx, func(endpoint string) { ready <- endpoint }) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("daemon: %v", err)
		}
	}
	select {
	case <-ready:
	case err := <-ended:
		w.Fatal(err)
	}
	cfg, err := cloud.LoadConfig(cloud.AdminFile(w.host.StateDir))
	if err != nil {
		w.Fatal(err)
	}
	if w.client, err = cloud.New(cfg); err != nil {
		w.Fatal(err)
	}
}

// crashHost leaves only files on disk: no processes, no mounts, no networks.
func (w *world) crashHost(ids []string) {
	w.Helper()
	for _, id := range ids {
		if err := container.RemoveCgroup(container.CgroupParent + "/" + id); err != nil {
			w.Fatal(err)
		}
	}
	w.host.KillContainerd()
	if err := linux.Cleanup(); err != nil {
		w.Fatal(err)
	}
	for _, id := range ids {
		w.killShim(id)
	}
	if err := exec.Command("sh", "-c", "for m in $(awk '{print $5}' /proc/self/mountinfo | grep ^"+w.host.RunDir+
		" | sort -r); do umount -l $m; done; rm -rf "+w.host.RunDir+"/*").Run(); err != nil {
		w.Fatal(err)
	}
}

// killShim ends the shim of one instance.
func (w *world) killShim(id string) {
	w.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		if args := string(data); strings.Contains(args, "containerd-shim") && strings.Contains(args, "\x00"+id+"\x00") {
			if err := exec.Command("kill", "-9", filepath.Base(filepath.Dir(f))).Run(); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// get requests a file from a load balancer, "" if it does not answer.
func (w *world) get(address, file string) string {
	c := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + address + "/" + file)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(data))
}

func (w *world) until(what string, done func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("not within a minute: %s\nlog of the daemon:\n%s", what, w.log)
		}
	}
}

// nothingLeftOf checks that no trace of an instance is on the host.
func (w *world) nothingLeftOf(id string) {
	w.Helper()
	patterns := []string{
		"/sys/fs/cgroup/*/hortus/" + id, "/sys/fs/cgroup/hortus/" + id, linux.NamespacePath(id),
		filepath.Join(w.host.StateDir, "cloud", "instances", id), filepath.Join(w.host.RunDir, "runc", "*", id),
		filepath.Join(w.host.RunDir, "containerd", "*", "*", id),
	}
	for _, p := range patterns {
		if found, _ := filepath.Glob(p); len(found) > 0 {
			w.Errorf("left of instance %s: %v", id, found)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.Fatal(err)
	}
	if strings.Contains(string(mounts), id) {
		w.Errorf("a mount of instance %s is left", id)
	}
}
