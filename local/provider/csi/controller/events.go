package controller

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"hortus.dev/hortus/local/cloud"
)

const (
	// settle is the interval at which an operation in progress in the cloud is checked. It needs far less than a
	// second.
	settle = time.Second
	// rewatch is the pause after the cloud has refused the credentials, which may be replaced.
	rewatch = 10 * time.Second
)

// Volumes is the part of the cloud that the controllers need.
type Volumes interface {
	CreateVolume(ctx context.Context, in cloud.CreateVolume) (*cloud.Volume, error)
	GetVolume(ctx context.Context, id string) (*cloud.Volume, error)
	ListVolumes(ctx context.Context, f cloud.Filter) ([]cloud.Volume, error)
	DeleteVolume(ctx context.Context, id string) error
	AttachVolume(ctx context.Context, id, instanceID string) (*cloud.Volume, error)
	DetachVolume(ctx context.Context, id, instanceID string) (*cloud.Volume, error)
	GetInstance(ctx context.Context, id string) (*cloud.Instance, error)
	Watch(ctx context.Context, handle func(*cloud.EventList)) error
}

// Events passes events of the cloud to controllers.
type Events struct {
	Cloud   Volumes
	readers []chan event.GenericEvent
}

// Source queues what requests returns for the ID of a volume or instance that has changed; an empty ID stands for all.
func (e *Events) Source(requests func(ctx context.Context, id string) []reconcile.Request) source.Source {
	reader := make(chan event.GenericEvent)
	e.readers = append(e.readers, reader)
	return source.Channel(reader, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context,
		o client.Object) []reconcile.Request {
		return requests(ctx, o.GetName())
	}))
}

// Start follows the cloud until ctx ends.
func (e *Events) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		err := e.Cloud.Watch(ctx, func(list *cloud.EventList) { e.hand(ctx, list) })
		if ctx.Err() != nil {
			break
		}
		ctrl.LoggerFrom(ctx).Error(err, "Failed to follow the cloud")
		select {
		case <-ctx.Done():
		case <-time.After(rewatch):
		}
	}
	return nil
}

func (e *Events) hand(ctx context.Context, list *cloud.EventList) {
	ids := map[string]bool{}
	if list.Reset {
		ids[""] = true
	}
	for _, one := range list.Events {
		if one.Kind == "volume" || (one.Kind == "instance" && one.Type == "deleted") {
			ids[one.ID] = true
		}
	}
	for id := range ids {
		for _, reader := range e.readers {
			select {
			case <-ctx.Done():
			case reader <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: id}}}:
			}
		}
	}
}
