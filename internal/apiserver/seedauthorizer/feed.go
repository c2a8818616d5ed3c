package seedauthorizer

import (
	"context"
	"fmt"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// Feed keeps a graph up to date. Nothing of the objects is kept but their relations.
type Feed struct {
	Graph *Graph
	// Own serves the kinds of this API server, Garden those of Kubernetes.
	Own, Garden client.WithWatch
}

// NewFeed connects to the server itself and to the garden cluster. Nothing is read before Start.
func NewFeed(graph *Graph, loopback, garden *rest.Config, addToScheme func(*runtime.Scheme) error) (*Feed, error) {
	own, err := listClient(loopback, addToScheme)
	if err != nil {
		return nil, fmt.Errorf("make loopback client: %w", err)
	}
	kube, err := listClient(garden, certificatesv1.AddToScheme)
	if err != nil {
		return nil, fmt.Errorf("make client for the garden: %w", err)
	}
	return &Feed{Graph: graph, Own: own, Garden: kube}, nil
}

// listClient returns a client that asks no server for its kinds, since the own one does not serve yet when it is made.
// Lists over all namespaces look the same whatever the scope.
func listClient(config *rest.Config, addToScheme func(*runtime.Scheme) error) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := addToScheme(scheme); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeRoot)
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// source is one watched kind.
type source struct {
	kind   Kind
	object client.Object
	list   func() client.ObjectList
	client client.WithWatch
}

func (f *Feed) sources() []source {
	return []source{
		{Shoot, &corev1beta1.Shoot{}, func() client.ObjectList { return &corev1beta1.ShootList{} }, f.Own},
		{Seed, &corev1beta1.Seed{}, func() client.ObjectList { return &corev1beta1.SeedList{} }, f.Own},
		{Project, &corev1beta1.Project{}, func() client.ObjectList { return &corev1beta1.ProjectList{} }, f.Own},
		{SecretBinding, &corev1beta1.SecretBinding{}, func() client.ObjectList { return &corev1beta1.SecretBindingList{} }, f.Own},
		{CredentialsBinding, &securityv1alpha1.CredentialsBinding{}, func() client.ObjectList { return &securityv1alpha1.CredentialsBindingList{} }, f.Own},
		{ControllerInstallation, &corev1beta1.ControllerInstallation{}, func() client.ObjectList { return &corev1beta1.ControllerInstallationList{} }, f.Own},
		{BackupBucket, &corev1beta1.BackupBucket{}, func() client.ObjectList { return &corev1beta1.BackupBucketList{} }, f.Own},
		{BackupEntry, &corev1beta1.BackupEntry{}, func() client.ObjectList { return &corev1beta1.BackupEntryList{} }, f.Own},
		{Bastion, &operationsv1alpha1.Bastion{}, func() client.ObjectList { return &operationsv1alpha1.BastionList{} }, f.Own},
		{ManagedSeed, &seedmanagementv1alpha1.ManagedSeed{}, func() client.ObjectList { return &seedmanagementv1alpha1.ManagedSeedList{} }, f.Own},
		{CertificateSigningRequest, &certificatesv1.CertificateSigningRequest{}, func() client.ObjectList { return &certificatesv1.CertificateSigningRequestList{} }, f.Garden},
	}
}

// Start watches until the context ends. It returns when the graph is filled.
func (f *Feed) Start(ctx context.Context) error {
	sources := f.sources()
	var filled sync.WaitGroup
	for _, s := range sources {
		filled.Add(1)
		sink := &sink{kind: s.kind, graph: f.Graph, filled: sync.OnceFunc(filled.Done)}
		reflector := cache.NewReflectorWithOptions(s.listWatch(), s.object, sink, cache.ReflectorOptions{Name: "seed-authorizer"})
		go reflector.RunWithContext(ctx)
	}
	done := make(chan struct{})
	go func() { filled.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("learn what belongs to each Seed: %w", ctx.Err())
	}
}

func (s source) listWatch() cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := s.list()
			return list, s.client.List(ctx, list, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return s.client.Watch(ctx, s.list(), &client.ListOptions{Raw: &options})
		},
	}
}

// sink puts what a reflector sees into the graph. It implements cache.ReflectorStore.
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
		return Ref{}, Node{}, fmt.Errorf("%T is no %s", o, s.kind)
	}
	return ref, node, nil
}
