package simulation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/test/sim"
)

// named returns an object with a name.
func named[T any, P interface {
	*T
	client.Object
}](namespace, name string) P {
	o := P(new(T))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

type change = func(context.Context, client.Client) error

func create(o client.Object) change {
	return func(ctx context.Context, c client.Client) error { return c.Create(ctx, o) }
}

func remove(o client.Object) change {
	return func(ctx context.Context, c client.Client) error { return client.IgnoreNotFound(c.Delete(ctx, o)) }
}

func is(ok bool, format string, a ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, a...)
}

// ticking is a clock on which time passes between any two readings, as it does outside of a simulation: requests are
// distinguished by their time.
type ticking struct {
	clock.PassiveClock
	readings *time.Duration
}

func newTicking(w *sim.World) ticking { return ticking{w.Clock(), new(time.Duration)} }

// Now implements clock.PassiveClock.
func (c ticking) Now() time.Time {
	*c.readings++
	return c.PassiveClock.Now().Add(*c.readings)
}
