//go:build landscape && linux

package csi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon"
	"hortus.dev/hortus/local/clouddaemon/cleanup"
	"hortus.dev/hortus/local/clouddaemon/driver"
	"hortus.dev/hortus/local/clouddaemon/driver/container"
	"hortus.dev/hortus/local/clouddaemon/fabric/linux"
	"hortus.dev/hortus/local/clouddaemon/registry"
	"hortus.dev/hortus/local/clouddaemon/sandboxtest"
	"hortus.dev/hortus/local/provider/cloudcontroller"
	"hortus.dev/hortus/local/provider/csi"
	"hortus.dev/hortus/local/provider/csi/controller"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	sandboxtest.Main(m)
}

const (
	hostAddress = "198.18.0.1"
	// patience is far above the seconds that each step takes: machines that run tests are busy.
	patience = 3 * time.Minute
	// kubernetes is the version of kubelets and controllers.
	kubernetes = "v1.36.3"
)

// userData makes a machine a node of the cluster in its kubeconfig.
const userData = `#hortus-machine-config
files:
- path: /opt/kubelet.yaml
  permissions: 420
  content:
    inline:
      data: |
        apiVersion: kubelet.config.k8s.io/v1beta1
        kind: KubeletConfiguration
        authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
        authorization: {mode: AlwaysAllow}
        cgroupDriver: cgroupfs
        cgroupRoot: /
        containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
        failSwapOn: false
        failCgroupV1: false
        makeIPTablesUtilChains: false
        evictionHard: {memory.available: 50Mi}
        enforceNodeAllocatable: []
        localStorageCapacityIsolation: false
units:
- name: kubelet.service
  enable: true
  command: start
  content: |
    [Unit]
    After=containerd.service
    [Service]
    ExecStart=/opt/tools/kubelet --kubeconfig=/opt/tools/kubeconfig --config=/opt/kubelet.yaml
    Restart=always
    [Install]
    WantedBy=multi-user.target
`

// world is a cloud on a real host, and a cluster whose nodes are its instances.
type world struct {
	*testing.T
	host  *sandboxtest.Host
	cloud *cloud.Client
	k     client.Client
	log   bytes.Buffer // Directory of the cloud.
	// components is the log of Kubernetes' components.
	components bytes.Buffer
}

// TestPodsFindTheirData has real kubelets on two machines mount a volume for one pod after the other, with the deployed
// driver: the second pod finds the data of the first. The volume is deleted with its claim.
func TestPodsFindTheirData(t *testing.T) {
	w := &world{T: t, host: sandboxtest.NewHost(t)}
	w.startCloud()
	server := env.StartKubeAPIServer(t, env.Etcd(t),
		map[string]string{"allow-privileged": "true", "advertise-address": hostAddress})
	w.k = server.Client
	address := w.publish(server.Config.Host)
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "https://" + address, InsecureSkipTLSVerify: true}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			ClientCertificateData: server.Config.CertData, ClientKeyData: server.Config.KeyData,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	w.start("kube-controller-manager", path, "--use-service-account-credentials=false",
		"--controllers=attachdetach,persistentvolume-binder,pv-protection,pvc-protection,daemonset")
	w.start("kube-scheduler", path)
	options := ctrl.Options{Scheme: cloudcontroller.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}}
	cloudcontroller.SlimCache(&options)
	mgr, err := ctrl.NewManager(server.Config, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.SetupWithManager(mgr, w.cloud, "test", "test"); err != nil {
		t.Fatal(err)
	}
	w.whileTestRuns("manager", mgr.Start)

	for _, o := range csi.Objects(image.Hortus()) {
		if set, ok := o.(*appsv1.DaemonSet); ok {
			set.Spec.Template.Spec.HostNetwork = true // There is no pod network.
		}
		w.create(o)
	}
	network, err := w.cloud.CreateNetwork(t.Context(), cloud.CreateNetwork{Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*cloud.Instance{}
	for _, name := range []string{"a", "b"} {
		nodes[name] = w.startNode(name, network.ID, kubeconfig)
	}
	for name, instance := range nodes {
		w.until("the driver is registered on node "+name, func() bool {
			node := &storagev1.CSINode{}
			err := w.k.Get(t.Context(), client.ObjectKey{Name: name}, node)
			return err == nil && len(node.Spec.Drivers) == 1 && node.Spec.Drivers[0].NodeID == instance.ID
		})
	}

	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "data",
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To("default"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			},
		},
	}
	w.create(claim)
	want := ""
	for _, node := range []string{"a", "b", "a"} {
		pod := podOn(node)
		w.create(pod)
		want += node + "\n"
		w.until("the pod on node "+node+" has written", func() bool { return w.written() == want })
		w.until("its volume is attached to its node", func() bool {
			v := w.volume()
			return v != nil && v.InstanceID == nodes[node].ID && v.State == cloud.StateAttached
		})
		if err := w.k.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		w.until("the pod is gone", func() bool { return w.gone(pod) })
		w.until("its volume is detached", func() bool { v := w.volume(); return v != nil && v.InstanceID == "" })
	}
	if err := w.k.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.until("the volume is gone", func() bool { return w.volume() == nil })
}

// publish makes a server of this host reachable for instances and returns its address there.
func (w *world) publish(server string) string {
	w.Helper()
	u, err := url.Parse(server)
	if err != nil {
		w.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		w.Fatal(err)
	}
	lb, err := w.cloud.CreateLoadBalancer(w.Context(), cloud.CreateLoadBalancer{Name: "api", Listeners: []cloud.Listener{
		{Port: 443, Targets: []cloud.Target{{Host: u.Hostname(), Port: port}}},
	}})
	if err != nil {
		w.Fatal(err)
	}
	return lb.Address + ":443"
}

// podOn is a pod that appends the name of its node to a file on its volume.
func podOn(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "writer"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node}, HostNetwork: true,
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			AutomountServiceAccountToken:  ptr.To(false), EnableServiceLinks: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000)},
			Containers: []corev1.Container{{
				Name: "echo", Image: "hortus.dev/echo:1.0.0",
				Command:      []string{"sh", "-c", "echo " + node + " >> /data/nodes; exec sleep 10000"},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
	}
}

func (w *world) gone(o client.Object) bool {
	err := w.k.Get(w.Context(), client.ObjectKeyFromObject(o), o)
	return err != nil && client.IgnoreNotFound(err) == nil
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := w.k.Create(w.Context(), o); err != nil {
		w.Fatalf("create %T: %v", o, err)
	}
}

// volume returns the volume of the claim, or nil.
func (w *world) volume() *cloud.Volume {
	found, err := w.cloud.ListVolumes(w.Context(),
		cloud.Filter{Tags: map[string]string{"kubernetes.io/claim": "default/data"}})
	if err != nil || len(found) == 0 {
		return nil
	}
	return &found[0]
}

// written returns the notes of pods on the volume.
func (w *world) written() string {
	v := w.volume()
	if v == nil {
		return ""
	}
	data, _ := os.ReadFile(filepath.Join(w.host.StateDir, "cloud", "volumes", v.ID, "nodes"))
	return string(data)
}

// startNode creates an instance with a kubelet.
func (w *world) startNode(name, networkID string, kubeconfig []byte) *cloud.Instance {
	w.Helper()
	tools, err := w.cloud.CreateVolume(w.Context(), cloud.CreateVolume{Name: "tools-" + name, SizeBytes: 1})
	if err != nil {
		w.Fatal(err)
	}
	dir := filepath.Join(w.host.StateDir, "cloud", "volumes", tools.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.Fatal(err)
	}
	if err := copyFile(filepath.Join(sandboxtest.Artifacts(w), "bin", "kubernetes", kubernetes, "kubelet"),
		filepath.Join(dir, "kubelet")); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig, 0o600); err != nil {
		w.Fatal(err)
	}
	instance, err := w.cloud.CreateInstance(w.Context(), cloud.CreateInstance{
		Name: name, MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: networkID, UserData: userData,
		Volumes: []cloud.VolumeAttachment{{VolumeID: tools.ID, Path: "/opt/tools"}},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { // Before the API server, which would wait for the end of the kubelet's watches.
		ctx := context.Background()
		if err := w.cloud.DeleteInstance(ctx, instance.ID); err != nil {
			w.Errorf("delete instance: %v", err)
		}
		w.until("instance "+name+" is gone", func() bool {
			_, err := w.cloud.GetInstance(ctx, instance.ID)
			return cloud.IsNotFound(err)
		})
	})
	return instance
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// start runs a component of Kubernetes until the test ends.
func (w *world) start(name, kubeconfig string, flags ...string) {
	w.Helper()
	c := exec.Command(filepath.Join(sandboxtest.Artifacts(w), "bin", "kubernetes", kubernetes, name),
		append(flags, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1")...)
	c.Stdout, c.Stderr = &w.components, &w.components
	if err := c.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

// startCloud runs a cloud until the test ends, and cleans up after it.
func (w *world) startCloud() {
	w.Helper()
	public := netip.MustParsePrefix(hostAddress + "/16")
	layout := filepath.Join(sandboxtest.Artifacts(w), "images")
	d, err := clouddaemon.New(clouddaemon.Config{
		Dir: filepath.Join(w.host.StateDir, "cloud"), Region: "local", Zones: []string{"local-a"}, Public: public.Masked(),
		Listen: []string{hostAddress + ":7443"}, DNSListen: hostAddress + ":53", Layout: layout,
		Fabric: &linux.Fabric{Public: public}, RealNetworks: true, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		NewDriver: func([]string) (driver.Driver, error) {
			return container.New(container.Options{
				Address: w.host.Containerd.Socket, Layout: registry.New(layout), ImageRepository: "hortus.dev/machine",
			})
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { // When the daemon has ended.
		w.host.KillContainerd()
		err := cleanup.Run(context.Background(), cleanup.Options{
			StateDir: w.host.StateDir, RunDir: w.host.RunDir, Containerd: w.host.Containerd.Socket,
		})
		if err != nil {
			w.Errorf("clean up: %v", err)
		}
	})
	ready := make(chan struct{})
	w.whileTestRuns("cloud", func(ctx context.Context) error { return d.Run(ctx, func(string) { close(ready) }) })
	select {
	case <-ready:
	case <-time.After(patience):
		w.Fatalf("the cloud does not start:\n%s", &w.log)
	}
	cfg, err := cloud.LoadConfig(cloud.AdminFile(w.host.StateDir))
	if err != nil {
		w.Fatal(err)
	}
	if w.cloud, err = cloud.New(cfg); err != nil {
		w.Fatal(err)
	}
}

// whileTestRuns runs a function until the test ends.
func (w *world) whileTestRuns(what string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("%s: %v", what, err)
		}
	})
}

func (w *world) until(what string, done func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("not within %s: %s\n%s", patience, what, w.state())
		}
	}
}

// state describes the cluster, to explain a failure.
func (w *world) state() string {
	var out strings.Builder
	ctx := context.Background()
	pods, events := &corev1.PodList{}, &corev1.EventList{}
	attachments, nodes := &storagev1.VolumeAttachmentList{}, &corev1.NodeList{}
	for _, list := range []client.ObjectList{pods, events, attachments, nodes} {
		if err := w.k.List(ctx, list); err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	for _, n := range nodes.Items {
		fmt.Fprintf(&out, "node %s: %v\n", n.Name, n.Labels)
	}
	for _, p := range pods.Items {
		fmt.Fprintf(&out, "pod %s on %s: %s %+v\n", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.ContainerStatuses)
	}
	for _, a := range attachments.Items {
		fmt.Fprintf(&out, "attachment to %s: %+v\n", a.Spec.NodeName, a.Status)
	}
	for _, e := range events.Items {
		fmt.Fprintf(&out, "event of %s: %s %s\n", e.InvolvedObject.Name, e.Reason, e.Message)
	}
	consoles, _ := filepath.Glob(filepath.Join(w.host.StateDir, "cloud", "instances", "*", "console.log"))
	for _, c := range consoles {
		data, _ := os.ReadFile(c)
		fmt.Fprintf(&out, "%s:\n%s\n", c, data[max(0, len(data)-3000):])
	}
	log := w.components.String()
	fmt.Fprintf(&out, "components:\n%s", log[max(0, len(log)-3000):])
	return out.String()
}
