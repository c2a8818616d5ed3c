package steps

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// eventSource says which events in the control plane namespace are about what a step waits for.
type eventSource struct {
	// named are the kinds of objects with the name that the step waits for, or with names that begin with it. All of
	// these kinds count if the step names no object.
	named []string
	// all are the kinds of which every object counts.
	all []string
	// none is why there are no events; "" if there are.
	none string
}

const (
	inReason = "the reason contains the last result"
	inShoot  = "the events are in the Shoot, whose API server may not be reachable"
	inGarden = "the objects are in the garden, which records no events about them"
)

// workload are the kinds of objects that a Deployment or StatefulSet consists of.
var workload = []string{"Deployment", "ReplicaSet", "StatefulSet", "Pod"}

// machineParts are the kinds of objects that a Worker consists of.
var machineParts = []string{"MachineDeployment", "MachineSet", "Machine"}

// eventSources has every kind of thing that steps wait for, except the kinds of extension objects.
var eventSources = map[flow.Kind]eventSource{
	waitAPIServer:       {all: workload},
	waitBackup:          {none: inReason},
	waitBackupEntry:     {none: inGarden},
	waitDeployment:      {named: workload},
	waitEncryption:      {none: inReason},
	waitEtcd:            {named: append([]string{"PersistentVolumeClaim"}, workload...)},
	waitExtension:       {named: []string{extensionsv1alpha1.ExtensionKind}},
	waitGateway:         {none: inReason},
	waitImage:           {all: []string{"Job", "Pod"}},
	waitMachine:         {all: machineParts},
	waitManagedResource: {named: []string{"ManagedResource"}},
	waitNamespace:       {none: inReason},
	waitNode:            {none: inShoot},
	waitObject:          {none: inShoot},
	waitPod:             {all: []string{"Pod"}},
	waitSecret:          {named: []string{"ManagedResource"}},
	waitSeed:            {none: inReason},
	waitState:           {none: inReason},
	waitStatefulSet:     {named: append([]string{"PersistentVolumeClaim"}, workload...)},
	waitToken:           {none: inReason},
	waitTunnel:          {none: inReason},
	waitWorker:          {all: machineParts},
}

// eventSourceOf returns the source of events for a kind of thing that steps wait for; false if the kind is unknown.
func eventSourceOf(kind flow.Kind) (eventSource, bool) {
	if source, ok := eventSources[kind]; ok {
		return source, true
	}
	if !slices.Contains(extensionKinds(), kind) {
		return eventSource{}, false
	}
	source := eventSource{named: []string{string(kind)}}
	if kind == extensionsv1alpha1.WorkerKind {
		source.all = machineParts
	}
	return source, true
}

// extensionKinds are the kinds of extension objects that steps wait for.
func extensionKinds() []flow.Kind {
	kinds := []flow.Kind{flow.Kind(extensionobject.Bastions.Name)}
	for _, kind := range extensionobject.Kinds {
		kinds = append(kinds, flow.Kind(kind.Name))
	}
	return kinds
}

// FindLastEvents adds to the long waits of a pass what happened last to what they wait for. Without rights to read
// events, or without an answer, waits say only when they have changed.
func (s *Scope) FindLastEvents(ctx context.Context, waits []flow.Wait) {
	if !slices.ContainsFunc(waits, func(w flow.Wait) bool {
		source, _ := eventSourceOf(w.Kind)
		return w.Long() && source.none == ""
	}) {
		return
	}
	events := &corev1.EventList{}
	// The answer of the server's cache is new enough.
	fromCache := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	if err := s.Seed.List(ctx, events, client.InNamespace(s.Namespace), fromCache); err != nil {
		log.FromContext(ctx).V(1).Info("Events are not available", "reason", err.Error())
		return
	}
	now := s.Clock.Now()
	for i := range waits {
		if w := &waits[i]; w.Long() {
			w.Last = lastEvent(events.Items, *w, now)
		}
	}
}

// lastEvent returns the last event since a wait began about what it waits for; none if there is none.
func lastEvent(events []corev1.Event, w flow.Wait, now time.Time) flow.Event {
	source, _ := eventSourceOf(w.Kind)
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		if !source.has(e.InvolvedObject, w.Object) || kube.EventTime(e).Before(now.Add(-w.For)) {
			continue
		}
		if last == nil || later(e, last) > 0 {
			last = e
		}
	}
	if last == nil {
		return flow.Event{}
	}
	return flow.Event{At: kube.EventTime(last), Text: eventText(last)}
}

// has reports whether an event about an object is about what a step waits for.
func (source eventSource) has(about corev1.ObjectReference, object string) bool {
	if slices.Contains(source.all, about.Kind) {
		return true
	}
	named := object == "" || about.Name == object || strings.HasPrefix(about.Name, object+"-")
	return named && slices.Contains(source.named, about.Kind)
}

// later compares events by time. Of events at the same time, a warning is later; the rest makes the order total.
func later(a, b *corev1.Event) int {
	warning := func(e *corev1.Event) int {
		if e.Type == corev1.EventTypeWarning {
			return 1
		}
		return 0
	}
	return cmp.Or(kube.EventTime(a).Compare(kube.EventTime(b)), cmp.Compare(warning(a), warning(b)),
		cmp.Compare(a.Name, b.Name))
}

// maxEventMessage bounds the message of an event in the description of an operation.
const maxEventMessage = 200

// eventText is an event in one line.
func eventText(e *corev1.Event) string {
	message := []rune(strings.Join(strings.Fields(e.Message), " "))
	if len(message) > maxEventMessage {
		message = append(message[:maxEventMessage:maxEventMessage], []rune("...")...)
	}
	return fmt.Sprintf("%s of %s %s: %s", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, string(message))
}
