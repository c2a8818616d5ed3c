package machinecontrol

import (
	"context"
	"fmt"
	"time"

	machineclientset "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	machinescheme "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/scheme"
	machineinformers "github.com/gardener/machine-controller-manager/pkg/client/informers/externalversions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// resync only guards against lost events, which informers do not have.
const resync = 12 * time.Hour

// Clusters are clients and caches of the cluster with the machine objects, which is called control, and of the one that
// the machines join, the target.
type Clusters struct {
	Namespace       string
	Control, Target kubernetes.Interface
	Machines        machineclientset.Interface
	// MachineCaches and ControlCaches are limited to the namespace.
	MachineCaches               machineinformers.SharedInformerFactory
	ControlCaches, TargetCaches kubeinformers.SharedInformerFactory
	Recorder                    record.EventRecorder
}

func newClusters(p *Process, control, target *rest.Config) (*Clusters, error) {
	c := &Clusters{Namespace: p.Namespace}
	var err error
	if c.Control, err = kubernetes.NewForConfig(control); err != nil {
		return nil, fmt.Errorf("client of the control cluster: %w", err)
	}
	if c.Target, err = kubernetes.NewForConfig(target); err != nil {
		return nil, fmt.Errorf("client of the target cluster: %w", err)
	}
	if c.Machines, err = machineclientset.NewForConfig(control); err != nil {
		return nil, fmt.Errorf("client of machines: %w", err)
	}
	c.MachineCaches = machineinformers.NewSharedInformerFactoryWithOptions(c.Machines, resync,
		machineinformers.WithNamespace(p.Namespace))
	c.ControlCaches = kubeinformers.NewSharedInformerFactoryWithOptions(c.Control, resync,
		kubeinformers.WithNamespace(p.Namespace))
	c.TargetCaches = kubeinformers.NewSharedInformerFactoryWithOptions(c.Target, resync,
		kubeinformers.WithTransform(slim))
	c.Recorder = newRecorder(c.Control, p.Namespace, p.Name)
	return c, nil
}

// Start starts the caches that controllers have requested.
func (c *Clusters) Start(ctx context.Context) {
	c.MachineCaches.Start(ctx.Done())
	c.ControlCaches.Start(ctx.Done())
	c.TargetCaches.Start(ctx.Done())
}

// slim drops the fields that the controllers never read.
func slim(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	if node, ok := obj.(*corev1.Node); ok {
		node.Status.Images = nil
	}
	return obj, nil
}

func newRecorder(c kubernetes.Interface, namespace, component string) record.EventRecorder {
	scheme := runtime.NewScheme() // Of its own: a program may run several processes at once.
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(machinescheme.AddToScheme(scheme))
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.CoreV1().Events(namespace)})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component})
}
