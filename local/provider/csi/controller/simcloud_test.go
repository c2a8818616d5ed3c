package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/test/sim"
)

// simCloud is a cloud in memory, in which attachments and deletions take time. It decides as the real one does.
type simCloud struct {
	delay     func() time.Duration
	created   int
	volumes   []*simVolume
	instances map[string]bool
	events    []cloud.Event

	mu       sync.Mutex
	watchers []*watcher
}

type simVolume struct {
	cloud.Volume
	data string    // What a pod has written.
	due  time.Time // When the operation in progress is complete.
}

// watcher follows the events of the cloud.
type watcher struct {
	ctx  context.Context
	list chan *cloud.EventList
	seen int // Number of events; -1 before the first report.
}

func newSimCloud(random *rand.Rand) *simCloud {
	return &simCloud{instances: map[string]bool{}, delay: func() time.Duration {
		return time.Duration(random.IntN(3000)) * time.Millisecond
	}}
}

func (c *simCloud) event(kind, id, what string) {
	c.events = append(c.events, cloud.Event{Kind: kind, ID: id, Type: what})
}

// settle completes the operations whose time has come.
func (c *simCloud) settle() {
	var left []*simVolume
	for _, v := range c.volumes {
		if v.due.IsZero() || v.due.After(time.Now()) {
			left = append(left, v)
			continue
		}
		v.due = time.Time{}
		switch v.State {
		case cloud.StateAttaching:
			v.State = cloud.StateAttached
		case cloud.StateDetaching:
			v.State, v.InstanceID = cloud.StateAvailable, ""
		default:
			c.event("volume", v.ID, "deleted")
			continue
		}
		c.event("volume", v.ID, "updated")
		left = append(left, v)
	}
	c.volumes = left
}

func (c *simCloud) start(v *simVolume, state cloud.State) {
	v.State, v.due = state, time.Now().Add(c.delay())
	c.event("volume", v.ID, "updated")
}

func (c *simCloud) find(id string) *simVolume {
	for _, v := range c.volumes {
		if v.ID == id {
			return v
		}
	}
	return nil
}

func (c *simCloud) removeInstance(id string) {
	for _, v := range c.volumes {
		if v.InstanceID == id {
			v.State, v.InstanceID, v.due = cloud.StateAvailable, "", time.Time{}
			c.event("volume", v.ID, "updated")
		}
	}
	delete(c.instances, id)
	c.event("instance", id, "deleted")
}

func (c *simCloud) CreateVolume(_ context.Context, in cloud.CreateVolume) (*cloud.Volume, error) {
	c.settle()
	for _, v := range c.volumes {
		switch {
		case v.Name != in.Name:
		case v.State == cloud.StateTerminating:
			return nil, cloud.Errorf(cloud.CodeDependency, "volume %q of that name is still being deleted", in.Name)
		case v.SizeBytes != in.SizeBytes || v.Zone != in.Zone || !maps.Equal(v.Tags, in.Tags):
			return nil, cloud.Errorf(cloud.CodeAlreadyExists, "volume %q exists with other parameters", in.Name)
		default:
			answer := v.Volume
			return &answer, nil
		}
	}
	c.created++
	v := &simVolume{Volume: cloud.Volume{
		ID: fmt.Sprintf("vol-%d", c.created), Name: in.Name, Zone: in.Zone, Tags: in.Tags, SizeBytes: in.SizeBytes,
		State: cloud.StateAvailable,
	}}
	c.volumes = append(c.volumes, v)
	c.event("volume", v.ID, "created")
	answer := v.Volume
	return &answer, nil
}

func (c *simCloud) GetVolume(_ context.Context, id string) (*cloud.Volume, error) {
	c.settle()
	if v := c.find(id); v != nil {
		answer := v.Volume
		return &answer, nil
	}
	return nil, cloud.Errorf(cloud.CodeNotFound, "volume %q does not exist", id)
}

func (c *simCloud) ListVolumes(_ context.Context, f cloud.Filter) (out []cloud.Volume, err error) {
	c.settle()
	for _, v := range c.volumes {
		matches := f.Name == "" || f.Name == v.Name
		for key, value := range f.Tags {
			matches = matches && v.Tags[key] == value
		}
		if matches {
			out = append(out, v.Volume)
		}
	}
	return out, nil
}

func (c *simCloud) DeleteVolume(ctx context.Context, id string) error {
	v, err := c.GetVolume(ctx, id)
	switch {
	case err != nil:
		return err
	case v.InstanceID != "":
		return cloud.Errorf(cloud.CodeDependency, "volume %q is attached to instance %q", id, v.InstanceID)
	case v.State != cloud.StateTerminating:
		c.start(c.find(id), cloud.StateTerminating)
	}
	return nil
}

func (c *simCloud) AttachVolume(ctx context.Context, id, instance string) (*cloud.Volume, error) {
	v, err := c.GetVolume(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case v.State == cloud.StateTerminating || !c.instances[instance]:
		return nil, cloud.Errorf(cloud.CodeNotFound, "the volume or the instance is gone")
	case v.InstanceID != "" && v.InstanceID != instance:
		return nil, cloud.Errorf(cloud.CodeDependency, "volume %q is attached to instance %q", id, v.InstanceID)
	case v.State == cloud.StateAvailable || v.State == cloud.StateDetaching:
		c.find(id).InstanceID = instance
		c.start(c.find(id), cloud.StateAttaching)
	}
	return c.GetVolume(ctx, id)
}

func (c *simCloud) DetachVolume(ctx context.Context, id, instance string) (*cloud.Volume, error) {
	v, err := c.GetVolume(ctx, id)
	if err != nil {
		return nil, err
	}
	if v.InstanceID == instance && v.State != cloud.StateDetaching {
		c.start(c.find(id), cloud.StateDetaching)
	}
	return c.GetVolume(ctx, id)
}

func (c *simCloud) GetInstance(_ context.Context, id string) (*cloud.Instance, error) {
	c.settle()
	if !c.instances[id] {
		return nil, cloud.Errorf(cloud.CodeNotFound, "instance %q does not exist", id)
	}
	return &cloud.Instance{ID: id}, nil
}

func (c *simCloud) Watch(ctx context.Context, handle func(*cloud.EventList)) error {
	w := &watcher{ctx: ctx, list: make(chan *cloud.EventList), seen: -1}
	c.mu.Lock()
	c.watchers = append(c.watchers, w)
	c.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case list := <-w.list:
			handle(list)
		}
	}
}

// report sends events to the watchers, not always all of them at once. The first report, and some others, stand for any
// events. It reports whether there was any news.
func (c *simCloud) report(random *rand.Rand) (news bool) {
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers = slices.DeleteFunc(c.watchers, func(w *watcher) bool { return w.ctx.Err() != nil })
	for _, w := range c.watchers {
		if w.seen == len(c.events) {
			continue
		}
		list := &cloud.EventList{Reset: true}
		if w.seen < 0 || random.IntN(5) == 0 {
			w.seen = len(c.events)
		} else {
			n := 1 + random.IntN(len(c.events)-w.seen)
			list = &cloud.EventList{Events: c.events[w.seen : w.seen+n]}
			w.seen += n
		}
		news = true
		w.list <- list
		synctest.Wait() // The controllers have got it.
	}
	return news
}

// reached is the cloud as a process reaches it, with faults.
type reached struct {
	*simCloud
	process *sim.Process
}

func call[T any](ctx context.Context, r reached, write bool, request string, do func() (T, error)) (out T, err error) {
	err = r.process.Call(ctx, "cloud", request, write, func() (err error) {
		out, err = do()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

func (r reached) CreateVolume(ctx context.Context, in cloud.CreateVolume) (*cloud.Volume, error) {
	return call(ctx, r, true, "create volume "+in.Name,
		func() (*cloud.Volume, error) { return r.simCloud.CreateVolume(ctx, in) })
}

func (r reached) GetVolume(ctx context.Context, id string) (*cloud.Volume, error) {
	return call(ctx, r, false, "get "+id, func() (*cloud.Volume, error) { return r.simCloud.GetVolume(ctx, id) })
}

func (r reached) ListVolumes(ctx context.Context, f cloud.Filter) ([]cloud.Volume, error) {
	return call(ctx, r, false, "list volumes", func() ([]cloud.Volume, error) { return r.simCloud.ListVolumes(ctx, f) })
}

func (r reached) DeleteVolume(ctx context.Context, id string) error {
	_, err := call(ctx, r, true, "delete "+id, func() (any, error) { return nil, r.simCloud.DeleteVolume(ctx, id) })
	return err
}

func (r reached) AttachVolume(ctx context.Context, id, instance string) (*cloud.Volume, error) {
	return call(ctx, r, true, "attach "+id+" to "+instance,
		func() (*cloud.Volume, error) { return r.simCloud.AttachVolume(ctx, id, instance) })
}

func (r reached) DetachVolume(ctx context.Context, id, instance string) (*cloud.Volume, error) {
	return call(ctx, r, true, "detach "+id+" from "+instance,
		func() (*cloud.Volume, error) { return r.simCloud.DetachVolume(ctx, id, instance) })
}

func (r reached) GetInstance(ctx context.Context, id string) (*cloud.Instance, error) {
	return call(ctx, r, false, "get "+id, func() (*cloud.Instance, error) { return r.simCloud.GetInstance(ctx, id) })
}

// The cloud of the simulation answers as the real one does.
func TestSimulatedCloudIsLikeTheReal(t *testing.T) {
	real, ctx := cloudtest.Start(t, cloudtest.Options{}), t.Context()
	network := real.Network(t, "n", "10.9.0.0/24")
	memory := newSimCloud(rand.New(rand.NewPCG(1, 1)))
	memory.delay = func() time.Duration { return 0 }
	var ids []string
	for _, name := range []string{"a", "b"} {
		i, err := real.Client.CreateInstance(ctx, cloud.CreateInstance{
			Name: name, MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: network, Zone: "local-b",
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, i.ID)
		memory.instances[i.ID] = true
	}
	type answer struct {
		what  string
		code  cloud.Code
		count int
	}
	script := func(c Volumes) (out []answer) {
		note := func(what string, err error) {
			found, listErr := c.ListVolumes(ctx, cloud.Filter{Tags: map[string]string{"t": "v"}})
			if listErr != nil {
				t.Fatal(listErr)
			}
			out = append(out, answer{what, cloud.CodeOf(err), len(found)})
		}
		in := cloud.CreateVolume{Name: "data", Zone: "local-b", SizeBytes: 1, Tags: map[string]string{"t": "v"}}
		v, err := c.CreateVolume(ctx, in)
		if note("create", err); err != nil {
			t.Fatal(err)
		}
		again, err := c.CreateVolume(ctx, in)
		if note("create again", err); err != nil || again.ID != v.ID {
			t.Errorf("the second volume is %+v, %v, want %s", again, err, v.ID)
		}
		in.SizeBytes = 2
		_, err = c.CreateVolume(ctx, in)
		note("create another of this name", err)
		becomes := func(state cloud.State, instance string) {
			real.Eventually(t, fmt.Sprintf("volume is %s", state), func() bool {
				got, err := c.GetVolume(ctx, v.ID)
				return err == nil && got.State == state && got.InstanceID == instance
			})
		}
		_, err = c.AttachVolume(ctx, v.ID, ids[0])
		note("attach", err)
		becomes(cloud.StateAttached, ids[0])
		_, err = c.AttachVolume(ctx, v.ID, ids[1])
		note("attach to another", err)
		note("delete while attached", c.DeleteVolume(ctx, v.ID))
		_, err = c.DetachVolume(ctx, v.ID, ids[1])
		note("detach from another", err)
		becomes(cloud.StateAttached, ids[0])
		_, err = c.DetachVolume(ctx, v.ID, ids[0])
		note("detach", err)
		becomes(cloud.StateAvailable, "")
		_, err = c.AttachVolume(ctx, v.ID, "i-0")
		note("attach to nothing", err)
		_, err = c.GetInstance(ctx, "i-0")
		note("get no instance", err)
		if err = c.DeleteVolume(ctx, v.ID); err != nil {
			t.Errorf("delete: %v", err)
		}
		real.Eventually(t, "volume is gone", func() bool {
			_, err := c.GetVolume(ctx, v.ID)
			return cloud.IsNotFound(err)
		})
		note("delete", nil)
		note("delete again", c.DeleteVolume(ctx, v.ID))
		_, err = c.DetachVolume(ctx, v.ID, ids[0])
		note("detach what is gone", err)
		return out
	}
	if want, got := script(real.Client), script(memory); !slices.Equal(got, want) {
		t.Errorf("the simulated cloud answers\n%v, the real one\n%v", got, want)
	}
}
