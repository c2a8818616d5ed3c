package clouddaemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/fabric"
)

// kind selects the reconciler of a key.
type kind string

const (
	kindInstance     kind = "instance"
	kindNetwork      kind = "network"
	kindLoadBalancer kind = "loadbalancer"
	kindVolume       kind = "volume"
)

type key struct {
	kind kind
	id   string
}

const (
	// workers is the number of concurrent reconciles: starting an instance mostly waits for containerd, but more would
	// not be faster on two cores.
	workers = 8
	// resyncEvery is the interval at which all records are compared with the host, for changes without an event.
	resyncEvery = time.Minute
)

func (c *Cloud) enqueue(k kind, id string) { c.queue.Add(key{k, id}) }

// enqueueAll enqueues all objects.
func (c *Cloud) enqueueAll() {
	c.store.view(func() {
		for id := range c.store.networks.rows {
			c.enqueue(kindNetwork, id)
		}
		for id := range c.store.instances.rows {
			c.enqueue(kindInstance, id)
		}
		for id := range c.store.loadBalancers.rows {
			c.enqueue(kindLoadBalancer, id)
		}
		for id, v := range c.store.volumes.rows {
			if v.State == api.StateTerminating {
				c.enqueue(kindVolume, id)
			}
		}
	})
}

// runReconcilers works until ctx ends.
func (c *Cloud) runReconcilers(ctx context.Context) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for c.reconcileNext(ctx) {
			}
		})
	}
	wg.Go(func() { c.followDriver(ctx) })
	<-ctx.Done()
	c.queue.ShutDown()
	wg.Wait()
}

// followDriver enqueues the instances that the driver reports, and all objects every resyncEvery.
func (c *Cloud) followDriver(ctx context.Context) {
	ticker := c.clock.NewTicker(resyncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-c.driver.Changes():
			if id != "" {
				c.enqueue(kindInstance, id)
				continue
			}
			c.enqueueAll()
		case <-ticker.C():
			c.enqueueAll()
		}
	}
}

func (c *Cloud) reconcileNext(ctx context.Context) bool {
	k, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(k)
	again, err := c.reconcile(ctx, k)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.log.Error("Reconcile failed", "kind", string(k.kind), "id", k.id, "error", err)
		c.queue.AddRateLimited(k)
	default:
		c.queue.Forget(k)
		if !again.IsZero() {
			c.queue.AddAfter(k, max(again.Sub(c.clock.Now()), time.Millisecond))
		}
	}
	return true
}

func (c *Cloud) reconcile(ctx context.Context, k key) (again time.Time, err error) {
	switch k.kind {
	case kindInstance:
		return c.reconcileInstance(ctx, k.id)
	case kindNetwork:
		return time.Time{}, c.reconcileNetwork(ctx, k.id)
	case kindLoadBalancer:
		return time.Time{}, c.reconcileLoadBalancer(ctx, k.id)
	case kindVolume:
		return time.Time{}, c.reconcileVolume(k.id)
	default:
		panic(fmt.Sprintf("no reconciler for kind %q", k.kind))
	}
}

func (c *Cloud) reconcileNetwork(ctx context.Context, id string) error {
	var n network
	var ok bool
	c.store.view(func() { n, ok = c.store.networks.get(id) })
	if !ok {
		return nil
	}
	if n.State == api.StateTerminating {
		if err := c.fabric.RemoveNetwork(ctx, id); err != nil {
			return fmt.Errorf("remove network: %w", err)
		}
		return c.store.update(func(tx *tx) error { c.store.networks.remove(tx, id); return nil })
	}
	prefix := netip.MustParsePrefix(n.CIDR)
	err := c.fabric.EnsureNetwork(ctx, fabric.Network{
		ID: id, Gateway: netip.PrefixFrom(netip.MustParseAddr(n.Gateway), prefix.Bits()),
		Uplink: netip.MustParseAddr(n.UplinkAddress),
	})
	state, message := api.StateAvailable, ""
	if err != nil {
		state, message = api.StatePending, err.Error()
	}
	changed := false
	updateErr := c.store.update(func(tx *tx) error {
		now, ok := c.store.networks.get(id)
		if !ok || now.State == api.StateTerminating || (now.State == state && now.Message == message) {
			return nil
		}
		changed = true
		now.State, now.Message = state, message
		c.store.networks.put(tx, id, now)
		return nil
	})
	if changed && err == nil {
		c.enqueueInstancesOf(id)
	}
	return errors.Join(err, updateErr)
}

func (c *Cloud) enqueueInstancesOf(networkID string) {
	c.store.view(func() {
		for _, i := range c.store.instances.rows {
			if i.NetworkID == networkID {
				c.enqueue(kindInstance, i.ID)
			}
		}
	})
}

// removeLeftovers removes everything on the host that has no record: the daemon was killed after it had removed a
// record and before it had finished, or its state was deleted.
func (c *Cloud) removeLeftovers(ctx context.Context) error {
	ids, err := c.driver.List(ctx)
	if err != nil {
		return fmt.Errorf("list instances of the driver: %w", err)
	}
	made, err := c.fabric.Leftovers(ctx)
	if err != nil {
		return fmt.Errorf("list networks of the host: %w", err)
	}
	dirs, err := os.ReadDir(c.path("instances"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list instance directories: %w", err)
	}
	for _, d := range dirs {
		ids = append(ids, d.Name())
	}
	ids = append(ids, made.Instances...)

	loose := map[string]bool{}
	var networks []string
	addresses := map[netip.Addr]bool{}
	c.store.view(func() {
		for _, id := range ids {
			if _, ok := c.store.instances.get(id); !ok {
				loose[id] = true
			}
		}
		for _, id := range made.Networks {
			if _, ok := c.store.networks.get(id); !ok {
				networks = append(networks, id)
			}
		}
		for _, a := range made.Addresses {
			addresses[a] = true
		}
		for _, l := range c.store.loadBalancers.rows {
			delete(addresses, netip.MustParseAddr(l.Address))
		}
	})
	var errs []error
	for id := range loose {
		c.log.Info("Removing leftover instance", "instance", id)
		errs = append(errs, c.removeTraces(ctx, id))
	}
	for _, id := range networks {
		c.log.Info("Removing leftover network", "network", id)
		errs = append(errs, c.fabric.RemoveNetwork(ctx, id))
	}
	for a := range addresses {
		c.log.Info("Removing leftover address", "address", a)
		errs = append(errs, c.fabric.RemoveAddress(ctx, a))
	}
	return errors.Join(errs...)
}

// imageVersion returns the tag of a full image name.
func imageVersion(name string) string {
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		return name[i+1:]
	}
	return ""
}
