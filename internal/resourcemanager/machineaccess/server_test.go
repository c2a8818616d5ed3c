package machineaccess

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/nodeagent/osc"
	"hortus.dev/hortus/test/env"
)

// TestMachinesWriteOnlyWhatIsTheirs checks with a real API server, and with all objects of a Shoot, the permissions of
// one machine's credentials. The machine belongs to the pool "plain", which runs no components of the system; its
// neighbour belongs to the pool "system".
func TestMachinesWriteOnlyWhatIsTheirs(t *testing.T) {
	e := env.Start(t, env.WithKubeAPIServer(func(s *envtest.APIServer) {
		s.Configure().Set("authorization-mode", "Node", "RBAC").Append("enable-admission-plugins", "NodeRestriction")
	}))
	ctx := t.Context()
	e.Create(t, osc.Access()...)
	grants := Grants{Target: e.Client, Direct: e.Client}
	for _, m := range []Machine{
		{Name: "mine", Node: "mine", Pool: "plain", ConfigSecret: "gardener-node-agent-plain"},
		{Name: "other", Node: "other", Pool: "system", ConfigSecret: "gardener-node-agent-system", SystemComponents: true},
	} {
		if err := grants.Ensure(ctx, m); err != nil {
			t.Fatal(err)
		}
		e.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: m.ConfigSecret}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: m.Name, Labels: map[string]string{corev1beta1.LabelWorkerPool: m.Pool},
			}})
	}
	agent := kubernetes.NewForConfigOrDie(e.As(corev1beta1.NodeAgentUserPrefix+"mine", corev1beta1.NodeAgentsGroup))
	kubelet := kubernetes.NewForConfigOrDie(e.As("system:node:mine", "system:nodes"))
	newcomer := kubernetes.NewForConfigOrDie(e.As("system:node:new", "system:nodes"))

	patch := func(c kubernetes.Interface, node, body string) error {
		_, err := c.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	read := func(secret string) error {
		_, err := agent.CoreV1().Secrets("kube-system").Get(ctx, secret, metav1.GetOptions{})
		return err
	}
	lease := func(node string) error {
		_, err := agent.CoordinationV1().Leases("kube-system").Create(ctx,
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: corev1beta1.NodeAgentLeasePrefix + node}},
			metav1.CreateOptions{})
		return err
	}
	join := func(c kubernetes.Interface, name string, labels map[string]string) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		_, err := c.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	}
	label := func(key, value string) string { return `{"metadata":{"labels":{"` + key + `":"` + value + `"}}}` }
	claimsSystem := label(corev1beta1.LabelWorkerPoolSystemComponents, "true")

	// Policies take effect a moment after their creation.
	env.Eventually(t, "policies are in force", func() (bool, error) {
		err := patch(agent, "mine", label("a", env.Name("b"))) // A new object each time.
		return err != nil && strings.Contains(err.Error(), "change these labels"), err
	})
	for _, try := range []struct {
		what    string
		do      func() error
		refused string // Part of the message; "" means allowed.
	}{
		{"agent reports its own Node", func() error {
			return patch(agent, "mine", `{"metadata":{`+
				`"labels":{"worker.gardener.cloud/kubernetes-version":"1.36.3","node-role.kubernetes.io/worker":""},`+
				`"annotations":{"checksum/cloud-config-data":"x"}}}`)
		}, ""},
		{"agent reads its configuration", func() error { return read("gardener-node-agent-plain") }, ""},
		{"agent watches its configuration", func() error {
			_, err := agent.CoreV1().Secrets("kube-system").Watch(ctx,
				metav1.ListOptions{FieldSelector: "metadata.name=gardener-node-agent-plain"})
			return err
		}, ""},
		{"agent watches its Node", func() error {
			_, err := agent.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=mine"})
			return err
		}, ""},
		{"agent makes its Lease", func() error { return lease("mine") }, ""},
		{"agent renews its Lease", func() error {
			mine, err := agent.CoordinationV1().Leases("kube-system").Get(ctx,
				corev1beta1.NodeAgentLeasePrefix+"mine", metav1.GetOptions{})
			if err != nil {
				return err
			}
			_, err = agent.CoordinationV1().Leases("kube-system").Update(ctx, mine, metav1.UpdateOptions{})
			return err
		}, ""},
		{"agent reads the configuration of another pool", func() error {
			return read("gardener-node-agent-system")
		}, "forbidden"},
		{"agent lists all Secrets", func() error {
			_, err := agent.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		}, "forbidden"},
		{"agent lists all Nodes", func() error {
			_, err := agent.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return err
		}, "forbidden"},
		{"agent lists pods", func() error {
			_, err := agent.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			return err
		}, "forbidden"},
		{"agent changes another Node", func() error {
			return patch(agent, "other", `{"spec":{"unschedulable":true}}`)
		}, "forbidden"},
		{"agent cordons its Node", func() error {
			return patch(agent, "mine", `{"spec":{"unschedulable":true}}`)
		}, "labels and annotations of their Node only"},
		{"agent labels its Node for the system", func() error {
			return patch(agent, "mine", claimsSystem)
		}, "change these labels"},
		{"agent removes its pool", func() error {
			return patch(agent, "mine", `{"metadata":{"labels":{"worker.gardener.cloud/pool":null}}}`)
		}, "change these labels"},
		{"agent adds a finalizer to its Node", func() error {
			return patch(agent, "mine", `{"metadata":{"finalizers":["a.example/b"]}}`)
		}, "of their Node only"},
		{"agent annotates its Node", func() error {
			return patch(agent, "mine", `{"metadata":{"annotations":{"a":"b"}}}`)
		}, "change these annotations"},
		{"agent creates the Lease of another", func() error { return lease("other") }, "the Lease of their own Node"},
		{"agent makes some Lease", func() error {
			_, err := agent.CoordinationV1().Leases("kube-system").Create(ctx,
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler"}}, metav1.CreateOptions{})
			return err
		}, "the Lease of their own Node"},
		{"agent deletes its Node", func() error {
			return agent.CoreV1().Nodes().Delete(ctx, "mine", metav1.DeleteOptions{})
		}, "forbidden"},

		{"kubelet labels its Node", func() error { return patch(kubelet, "mine", label("example.com/a", "b")) }, ""},
		{"kubelet labels its Node for the system", func() error {
			return patch(kubelet, "mine", claimsSystem)
		}, "without system components"},
		{"kubelet labels its Node for another pool", func() error {
			return patch(kubelet, "mine", label("worker.gardener.cloud/pool", "system"))
		}, "of another pool"},
		{"kubelet does so with its status", func() error {
			_, err := kubelet.CoreV1().Nodes().Patch(ctx, "mine", types.MergePatchType,
				[]byte(claimsSystem), metav1.PatchOptions{}, "status")
			return err
		}, "without system components"},
		{"kubelet changes another Node", func() error {
			return patch(kubelet, "other", label("example.com/a", "b"))
		}, "forbidden"},
		{"kubelet joins with a pool that is not its own", func() error {
			return join(newcomer, "new", map[string]string{corev1beta1.LabelWorkerPool: "system"})
		}, "of another pool"},
		{"kubelet joins for the system", func() error {
			return join(newcomer, "new", map[string]string{corev1beta1.LabelWorkerPoolSystemComponents: "true"})
		}, "without system components"},
	} {
		t.Run(try.what, func(t *testing.T) {
			err := try.do()
			if (err == nil) != (try.refused == "") || err != nil && !strings.Contains(err.Error(), try.refused) {
				t.Errorf("error %v, want %q", err, try.refused)
			}
		})
	}

	joining := Machine{Name: "new", Node: "new", Pool: "system", ConfigSecret: "s", SystemComponents: true}
	if err := grants.Ensure(ctx, joining); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "a machine of the pool joins", func() (bool, error) {
		err := join(newcomer, "new", map[string]string{
			corev1beta1.LabelWorkerPool: "system", corev1beta1.LabelWorkerPoolDeprecated: "system",
			corev1beta1.LabelWorkerPoolSystemComponents: "true",
		})
		return err == nil, nil
	})
}
