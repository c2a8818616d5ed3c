package move

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// view is a watched set of Shoots.
type view struct {
	informer cache.SharedIndexInformer
	// changed has an element after a change; one is enough, because the reader looks at all Shoots.
	changed chan struct{}
	// broken has the last error of the watch, which is retried.
	broken chan error
}

// watchShoots watches Shoots until the context ends. It returns an error if they cannot be listed now.
func watchShoots(ctx context.Context, garden client.WithWatch, opts ...client.ListOption) (*view, error) {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		shoots := &corev1beta1.ShootList{}
		return shoots, garden.List(ctx, shoots, append(slices.Clip(opts), raw(options))...)
	}
	if _, err := list(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return nil, fmt.Errorf("list Shoots: %w", err)
	}
	v := &view{changed: make(chan struct{}, 1), broken: make(chan error, 1)}
	v.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: list,
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return garden.Watch(ctx, &corev1beta1.ShootList{}, append(slices.Clip(opts), raw(options))...)
		},
	}, &corev1beta1.Shoot{}, 0, nil)
	poke := func() {
		select {
		case v.changed <- struct{}{}:
		default:
		}
	}
	if err := v.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return
		}
		select {
		case v.broken <- err:
		default:
		}
	}); err != nil {
		return nil, err
	}
	if _, err := v.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() }, DeleteFunc: func(any) { poke() },
	}); err != nil {
		return nil, err
	}
	go v.informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), v.informer.HasSynced) {
		return nil, ctx.Err()
	}
	return v, nil
}

// raw passes on the options of an informer other than those that select Shoots.
type raw metav1.ListOptions

func (r raw) ApplyToList(o *client.ListOptions) {
	options := metav1.ListOptions(r)
	o.Raw, o.Limit, o.Continue = &options, r.Limit, r.Continue
}

// get returns a Shoot; nil if it does not exist. It must not be changed.
func (v *view) get(key types.NamespacedName) *corev1beta1.Shoot {
	object, there, err := v.informer.GetStore().GetByKey(cache.ObjectName(key).String())
	if err != nil || !there {
		return nil
	}
	return object.(*corev1beta1.Shoot)
}

// all returns all Shoots, which must not be changed.
func (v *view) all() []*corev1beta1.Shoot {
	var shoots []*corev1beta1.Shoot
	for _, object := range v.informer.GetStore().List() {
		shoots = append(shoots, object.(*corev1beta1.Shoot))
	}
	return shoots
}

// lookPeriod is how often unchanged Shoots are evaluated again, because the age of their errors matters.
const lookPeriod = time.Second

// wait returns after a change, or when it is time to evaluate again. It returns an error when the context ends.
func (v *view) wait(ctx context.Context, out io.Writer) error {
	again := time.NewTimer(lookPeriod)
	defer again.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-v.broken:
		fmt.Fprintf(out, "Watching Shoots failed and is tried again: %v\n", err)
	case <-v.changed:
	case <-again.C:
	}
	return nil
}

// newer returns the newer state of a Shoot: the watched one, or the API server's response if the watch has not caught
// up.
func newer(shown, answered *corev1beta1.Shoot) *corev1beta1.Shoot {
	if shown != nil && answered != nil && shown.UID == answered.UID && shown.Generation < answered.Generation {
		return answered
	}
	return shown
}

// reporter prints changes of progress.
type reporter struct {
	out io.Writer
	// every is the minimum interval between two lines about the same Shoot in the same state.
	every time.Duration
	said  map[types.NamespacedName]report
}

type report struct {
	progress
	at time.Time
}

// say prints the progress of a Shoot if it differs from the last printed one.
func (r *reporter) say(key types.NamespacedName, p progress, to string, took time.Duration, now time.Time) {
	last, before := r.said[key]
	switch {
	case p == progress{state: Waiting}, before && last.progress == p:
		return
	case before && last.state == p.state && now.Sub(last.at) < r.every:
		return
	}
	if r.said == nil {
		r.said = map[types.NamespacedName]report{}
	}
	r.said[key] = report{p, now}
	text := map[State]string{
		Waiting: "waiting", Moving: "moving to " + to, Failed: "failed", Left: "left",
		Moved: fmt.Sprintf("moved to %s in %s", to, took.Round(100*time.Millisecond)),
	}[p.state]
	if p.message != "" {
		text += ": " + p.message
	}
	fmt.Fprintf(r.out, "%s: %s\n", key, text)
}
