package cluster

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const (
	etcdDir         = "/var/lib/etcd"
	etcdMetricsPort = 2381
)

// staticPods returns the control plane. All pods share the instance's network and talk over the loopback address, so
// that nothing depends on the address the instance is given.
func (v Values) staticPods() []*corev1.Pod {
	return []*corev1.Pod{v.etcd(), v.apiServer(), v.controllerManager(), v.scheduler()}
}

func (v Values) etcd() *corev1.Pod {
	pod := staticPod("etcd", v.Images.Etcd, "50m", "64Mi", []string{
		"/usr/local/bin/etcd",
		"--name=" + v.Name,
		"--data-dir=" + etcdDir,
		"--listen-client-urls=https://127.0.0.1:2379",
		"--advertise-client-urls=https://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=" + v.Name + "=http://127.0.0.1:2380",
		"--listen-metrics-urls=http://127.0.0.1:" + strconv.Itoa(etcdMetricsPort),
		"--cert-file=" + pkiDir + "/etcd.crt",
		"--key-file=" + pkiDir + "/etcd.key",
		"--client-cert-auth=true",
		"--trusted-ca-file=" + pkiDir + "/etcd-ca.crt",
		"--snapshot-count=10000",
	})
	probes(pod, corev1.URISchemeHTTP, etcdMetricsPort, "/readyz", "/livez")
	mount(pod, "data", etcdDir, corev1.HostPathDirectoryOrCreate, false)
	mount(pod, "pki", pkiDir, corev1.HostPathDirectory, true)
	return pod
}

func (v Values) apiServer() *corev1.Pod {
	pod := staticPod("kube-apiserver", v.Images.KubeAPIServer, "100m", "256Mi", []string{
		"/usr/local/bin/kube-apiserver",
		"--allow-privileged=true", // The provider's own components and those of seeds need it.
		"--authorization-mode=Node,RBAC",
		"--client-ca-file=" + pkiDir + "/ca.crt",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-aggregator-routing=true",
		"--enable-bootstrap-token-auth=true",
		"--etcd-cafile=" + pkiDir + "/etcd-ca.crt",
		"--etcd-certfile=" + pkiDir + "/etcd-client.crt",
		"--etcd-keyfile=" + pkiDir + "/etcd-client.key",
		"--etcd-servers=https://127.0.0.1:2379",
		"--kubelet-certificate-authority=" + pkiDir + "/ca.crt",
		"--kubelet-client-certificate=" + pkiDir + "/apiserver-kubelet-client.crt",
		"--kubelet-client-key=" + pkiDir + "/apiserver-kubelet-client.key",
		"--kubelet-preferred-address-types=Hostname,InternalIP",
		"--profiling=false",
		"--proxy-client-cert-file=" + pkiDir + "/front-proxy-client.crt",
		"--proxy-client-key-file=" + pkiDir + "/front-proxy-client.key",
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-client-ca-file=" + pkiDir + "/front-proxy-ca.crt",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--secure-port=" + strconv.Itoa(APIPort),
		"--service-account-issuer=https://kubernetes.default.svc." + ClusterDomain,
		"--service-account-key-file=" + pkiDir + "/sa.crt",
		"--service-account-signing-key-file=" + pkiDir + "/sa.key",
		"--service-cluster-ip-range=" + v.ServiceCIDR,
		"--shutdown-delay-duration=0s",
		"--tls-cert-file=" + pkiDir + "/apiserver.crt",
		"--tls-private-key-file=" + pkiDir + "/apiserver.key",
	})
	probes(pod, corev1.URISchemeHTTPS, APIPort, "/readyz", "/livez")
	mount(pod, "pki", pkiDir, corev1.HostPathDirectory, true)
	return pod
}

func (v Values) controllerManager() *corev1.Pod {
	pod := staticPod("kube-controller-manager", v.Images.KubeControllerManager, "25m", "96Mi", []string{
		"/usr/local/bin/kube-controller-manager",
		"--authentication-kubeconfig=" + controllerManagerKubeconfig,
		"--authorization-kubeconfig=" + controllerManagerKubeconfig,
		"--bind-address=127.0.0.1",
		"--client-ca-file=" + pkiDir + "/ca.crt",
		"--cluster-signing-cert-file=" + pkiDir + "/ca.crt",
		"--cluster-signing-key-file=" + pkiDir + "/ca.key",
		"--controllers=*,bootstrapsigner,tokencleaner",
		"--kubeconfig=" + controllerManagerKubeconfig,
		"--leader-elect=false", // There is only one, and it would wait for its own lease after a restart.
		"--profiling=false",
		"--requestheader-client-ca-file=" + pkiDir + "/front-proxy-ca.crt",
		"--root-ca-file=" + pkiDir + "/ca.crt",
		"--service-account-private-key-file=" + pkiDir + "/sa.key",
		"--use-service-account-credentials=true",
	})
	probes(pod, corev1.URISchemeHTTPS, 10257, "/healthz", "/healthz")
	mount(pod, "pki", pkiDir, corev1.HostPathDirectory, true)
	mount(pod, "kubeconfig", controllerManagerKubeconfig, corev1.HostPathFile, true)
	return pod
}

func (v Values) scheduler() *corev1.Pod {
	pod := staticPod("kube-scheduler", v.Images.KubeScheduler, "10m", "48Mi", []string{
		"/usr/local/bin/kube-scheduler",
		"--authentication-kubeconfig=" + schedulerKubeconfig,
		"--authorization-kubeconfig=" + schedulerKubeconfig,
		"--bind-address=127.0.0.1",
		"--kubeconfig=" + schedulerKubeconfig,
		"--leader-elect=false",
		"--profiling=false",
	})
	probes(pod, corev1.URISchemeHTTPS, 10259, "/readyz", "/livez")
	mount(pod, "kubeconfig", schedulerKubeconfig, corev1.HostPathFile, true)
	return pod
}

func staticPod(name, image, cpu, memory string, command []string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{"component": name, "tier": "control-plane"},
		},
		Spec: corev1.PodSpec{
			HostNetwork:       true,
			DNSPolicy:         corev1.DNSDefault,
			PriorityClassName: "system-node-critical",
			Containers: []corev1.Container{{
				Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
				}},
			}},
		},
	}
}

// probes asks often while the component starts and rarely later. A component has five minutes to start: then the disk
// is so slow that a restart does not help either.
func probes(pod *corev1.Pod, scheme corev1.URIScheme, port int32, ready, alive string) {
	probe := func(path string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Host: "127.0.0.1", Scheme: scheme, Port: intstr.FromInt32(port), Path: path,
			}},
			PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 15,
		}
	}
	container := &pod.Spec.Containers[0]
	container.StartupProbe = probe(ready, 1, 300)
	container.ReadinessProbe = probe(ready, 5, 3)
	container.LivenessProbe = probe(alive, 10, 8)
}

func mount(pod *corev1.Pod, name, path string, kind corev1.HostPathType, readOnly bool) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: ptr.To(kind)}},
	})
	container := &pod.Spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: readOnly})
}

func renderPod(pod *corev1.Pod) (string, error) {
	encoded, err := yaml.Marshal(pod)
	if err != nil {
		return "", err
	}
	var tree map[string]any
	if err := yaml.Unmarshal(encoded, &tree); err != nil {
		return "", fmt.Errorf("decode: %w", err)
	}
	delete(tree, "status")
	if encoded, err = yaml.Marshal(tree); err != nil {
		return "", err
	}
	return string(encoded), nil
}
