package care

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/gardenlet/shoot/kinds"
	"hortus.dev/hortus/test/env"
)

// userClient connects to the API server as the gardenlet does to that of a Shoot.
func userClient(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	scheme := kruntime.NewScheme()
	for _, add := range []func(*kruntime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	boundedlist.Bound(config)
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	user, err := client.New(config, client.Options{Scheme: scheme, Mapper: kinds.NewMapper(clientset.Discovery())})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// configuration of a webhook for pods, with a selector that makes it so large, in bytes.
func configuration(name string, bytes int, timeout int32) *admissionregistrationv1.ValidatingWebhookConfiguration {
	var values []string
	for i := range bytes / 66 {
		values = append(values, fmt.Sprintf("%063d", i))
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "w.example.org", FailurePolicy: ptr.To(admissionregistrationv1.Ignore), TimeoutSeconds: ptr.To(timeout),
			AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: append(values, "b")}}},
		}},
	}
}

// fill creates n objects, several concurrently.
func fill(t testing.TB, user client.Client, n int, object func(i int) client.Object) {
	t.Helper()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := worker; i < n; i += 8 {
				if err := user.Create(t.Context(), object(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// watched records the maximum memory in use right after a list was received.
type watched struct {
	client.Reader
	base, peak uint64
	lists      int
}

func watch(reader client.Reader) *watched { return &watched{Reader: reader, base: inUse()} }

func inUse() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func (w *watched) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := w.Reader.List(ctx, list, opts...)
	w.peak, w.lists = max(w.peak, inUse()), w.lists+1
	runtime.KeepAlive(list)
	return err
}

// mib is the maximum memory in use, minus the memory before, in MiB.
func (w *watched) mib() float64 { return float64(int64(w.peak)-int64(w.base)) / (1 << 20) }

// TestShootFullOfObjects fills a real API server and checks the findings, and that few objects are held at a time.
func TestShootFullOfObjects(t *testing.T) {
	e := env.Start(t)
	user := userClient(t, e.Config)
	const small, large, leases = 600, 60, 600
	fill(t, user, small, func(i int) client.Object {
		return configuration(fmt.Sprintf("small-%04d", i), 500,
			int32(10+i%2*10))
	})
	fill(t, user, leases, func(i int) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: fmt.Sprintf("other-%d", i),
		}}
	})
	fill(t, user, 3, func(i int) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("n%d", i), Labels: map[string]string{corev1beta1.LabelWorkerPool: "pool"},
		}}
	})
	check := func(base *Observed) (*Observed, *watched) {
		t.Helper()
		reader := watch(user)
		if err := readShoot(t.Context(), base, reader); err != nil {
			t.Fatal(err)
		}
		if reader.mib() > 24 {
			t.Errorf("%.0f MiB were in use", reader.mib())
		}
		return base, reader
	}
	empty := func() *Observed {
		o := healthyShoot()
		o.Nodes, o.NodeLeases, o.AgentLeases = nil, nil, nil
		return o
	}

	o, reader := check(empty())
	problematic, repairs := o.Webhooks.Problematic.Count, len(o.Webhooks.ToRepair)
	if problematic != small/2 || repairs != maxRepairs || len(o.Nodes) != 3 || len(o.AgentLeases) != 0 {
		t.Errorf("%d problematic webhooks, %d to repair, %d nodes, %d leases", problematic, repairs, len(o.Nodes),
			len(o.AgentLeases))
	}
	if len(o.TooMuch) > 0 {
		t.Errorf("too much: %v", o.TooMuch)
	}
	c := corev1beta1.FindCondition(Constraints(o), corev1beta1.ShootHibernationPossible)
	if c.Reason != "ProblematicWebhooks" || !strings.Contains(c.Message, fmt.Sprintf("and %d more.", small/2-maxNames)) {
		t.Errorf("constraint = %+v", c)
	}
	t.Logf("%d lists, %.1f MiB", reader.lists, reader.mib())

	// Large configurations, which are harmless and come first, exceed the limit of reads.
	fill(t, user, large, func(i int) client.Object { return configuration(fmt.Sprintf("large-%04d", i), 1_200_000, 10) })
	o, reader = check(empty())
	c = corev1beta1.FindCondition(Constraints(o), corev1beta1.ShootHibernationPossible)
	if c.Status != corev1beta1.ConditionUnknown || c.Reason != "TooManyObjects" ||
		o.TooMuch[ValidatingWebhooks] != "more than 64 MiB" {
		t.Errorf("constraint = %+v, too much: %v", c, o.TooMuch)
	}
	t.Logf("%d lists, %.1f MiB", reader.lists, reader.mib())
}

// BenchmarkReadWebhooks compares one list with pages, for 1,000 configurations of 20 KiB.
func BenchmarkReadWebhooks(b *testing.B) {
	e := env.Start(b)
	user := userClient(b, e.Config)
	fill(b, user, 1000, func(i int) client.Object { return configuration(fmt.Sprintf("w-%04d", i), 20<<10, 10) })
	plain, err := client.New(e.Config, client.Options{Scheme: user.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func(client.Reader) error{
		"one list": func(r client.Reader) error {
			return r.List(b.Context(), &admissionregistrationv1.ValidatingWebhookConfigurationList{})
		},
		"pages": func(r client.Reader) error { return readValidatingWebhooks(b.Context(), &Observed{}, r) },
	} {
		b.Run(name, func(b *testing.B) {
			reader := watch(plain)
			if name == "pages" {
				reader = watch(user)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := read(reader); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(reader.mib(), "MiB-in-use")
		})
	}
}
