package seedauthorizer

import (
	"context"
	"fmt"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// Feed keeps a graph up to date. It keeps only the relations of objects.
type Feed struct {
	Graph *Graph
	// Own lists and watches the kinds of this API server, Garden is the cluster for Kubernetes' own kinds.
	Own    func(runtime.Object) cache.ListerWatcher
	Garden client.WithWatch
}

// NewFeed connects to the garden cluster. Nothing is read before Start.
func NewFeed(graph *Graph, own func(runtime.Object) cache.ListerWatcher, garden *rest.Config) (*Feed, error) {
	scheme := runtime.NewScheme()
	if err := certificatesv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	kube, err := client.NewWithWatch(garden, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client for the garden: %w", err)
	}
	return &Feed{Graph: graph, Own: own, Garden: kube}, nil
}

// source is one watched kind.
type source struct {
	kind   Kind
	object client.Object
	from   cache.ListerWatcher
}

func (f *Feed) sources() []source {
	own := func(kind Kind, object client.Object) source { return source{kind, object, f.Own(object)} }
	return []source{
		own(Shoot, &corev1beta1.Shoot{}),
		own(Seed, &corev1beta1.Seed{}),
		own(Project, &corev1beta1.Project{}),
		own(SecretBinding, &corev1beta1.SecretBinding{}),
		own(CredentialsBinding, &securityv1alpha1.CredentialsBinding{}),
		own(ControllerInstallation, &corev1beta1.ControllerInstallation{}),
		own(ControllerDeployment, &corev1v1.ControllerDeployment{}),
		own(BackupBucket, &corev1beta1.BackupBucket{}),
		own(BackupEntry, &corev1beta1.BackupEntry{}),
		own(Bastion, &operationsv1alpha1.Bastion{}),
		own(ManagedSeed, &seedmanagementv1alpha1.ManagedSeed{}),
		own(Gardenlet, &seedmanagementv1alpha1.Gardenlet{}),
		{CertificateSigningRequest, &certificatesv1.CertificateSigningRequest{}, signingRequests(f.Garden)},
	}
}

// Start watches until the context ends. It returns when the graph is filled.
func (f *Feed) Start(ctx context.Context) error {
	sources := f.sources()
	var filled sync.WaitGroup
	for _, s := range sources {
		filled.Add(1)
		sink := &sink{kind: s.kind, graph: f.Graph, filled: sync.OnceFunc(filled.Done)}
		reflector := cache.NewReflectorWithOptions(s.from, s.object, sink, cache.ReflectorOptions{Name: "seed-authorizer"})
		go reflector.RunWithContext(ctx)
	}
	done := make(chan struct{})
	go func() { filled.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("list the objects of each Seed: %w", ctx.Err())
	}
}

func signingRequests(garden client.WithWatch) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &certificatesv1.CertificateSigningRequestList{}
			return list, garden.List(ctx, list, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return garden.Watch(ctx, &certificatesv1.CertificateSigningRequestList{}, &client.ListOptions{Raw: &options})
		},
	}
}

// sink stores the objects of a reflector in the graph. It implements cache.ReflectorStore.
type sink struct {
	kind   Kind
	graph  *Graph
	filled func()
}

func (s *sink) Add(o any) error { return s.put(o) }

func (s *sink) Update(o any) error { return s.put(o) }

func (s *sink) put(o any) error {
	ref, node, err := s.of(o)
	if err == nil {
		s.graph.Set(ref, node)
	}
	return err
}

func (s *sink) Delete(o any) error {
	ref, _, err := s.of(o)
	if err == nil {
		s.graph.Remove(ref)
	}
	return err
}

func (s *sink) Replace(objects []any, _ string) error {
	nodes := make(map[Ref]Node, len(objects))
	for _, o := range objects {
		ref, node, err := s.of(o)
		if err != nil {
			return err
		}
		nodes[ref] = node
	}
	s.graph.Replace(s.kind, nodes)
	s.filled()
	return nil
}

func (s *sink) Resync() error { return nil }

func (s *sink) of(o any) (Ref, Node, error) {
	object, ok := o.(runtime.Object)
	if !ok {
		return Ref{}, Node{}, fmt.Errorf("%T is no object", o)
	}
	ref, node, ok := Of(object)
	if !ok || ref.Kind != s.kind {
		return Ref{}, Node{}, fmt.Errorf("%T is not a %s", o, s.kind)
	}
	return ref, node, nil
}
