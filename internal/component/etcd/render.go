package etcd

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/etcdmember/configuration"
)

// Name of the StatefulSet and the Service.
const Name = "etcd-main"

// ClientPort serves the API server.
const ClientPort = 2379

// ServicePort serves status, snapshots and metrics of the backups, to clients with a certificate of etcd's CA.
const ServicePort = 2382

const (
	// metricsPort serves health and metrics of etcd in plain text, inside the pod.
	metricsPort = 2381
	// healthPort serves probes of the process that runs etcd, in plain text.
	healthPort = 2383
	// forwardPort is the port of etcd for clients that have connected while it was restarted.
	forwardPort = 2384
	// peerPort serves other members.
	peerPort = 2380
)

// peerName is the name of the Service that gives every member a DNS name.
const peerName = Name + "-peer"

const (
	pathCertificates = "/var/etcd/ssl"
	// pathConfig is the mount of a whole volume, since changes do not reach files that are mounted individually.
	pathConfig = "/var/etcd/config"
	pathData   = "/var/etcd/data"
	dataDir    = pathData + "/new.etcd"
	volumeData = "main-etcd"
)

// annotationTemplate of a pod is the checksum of the template that it was made from, images left out.
const annotationTemplate = "etcd.hortus.dev/template"

// memoryLimit bounds etcd and the process that takes its backups: a database has at most 8 GiB, and the kernel can
// reclaim the memory of the pages that were read.
const memoryLimit = "8Gi"

// startupSeconds is how long the start of etcd may take before the container is killed: a restore of a large database
// takes minutes, and an etcd that must not run waits.
const startupSeconds = 24 * 60 * 60

// Values is the input of the rendering.
type Values struct {
	Namespace string
	// Image has `hortus` and etcd.
	Image string
	// Replicas is the number of members, or 0 while the Shoot is hibernated.
	Replicas int32
	// Spread is the label of nodes by which members are spread; empty with one member.
	Spread string
	// StorageSize of the volume, such as 25Gi.
	StorageSize string
	// Backup is nil without backups.
	Backup *Backup
}

// DNSNames are the names that the server's certificate has to carry.
func DNSNames(namespace string) []string {
	names := []string{"localhost"}
	for _, host := range []string{Name, "*." + peerName} {
		names = append(names, host, host+"."+namespace, host+"."+namespace+".svc", host+"."+namespace+".svc.cluster.local")
	}
	return names
}

// PeerDNSNames are the names that the certificate of members has to carry.
func PeerDNSNames(namespace string) []string {
	host := "*." + peerName + "." + namespace + ".svc"
	return []string{host, host + ".cluster.local"}
}

func peerHost(namespace string, i int) string {
	return fmt.Sprintf("%s-%d.%s.%s.svc", Name, i, peerName, namespace)
}

// MemberURL returns the URL of one member for clients of etcd.
func MemberURL(namespace string, i int) string {
	return fmt.Sprintf("https://%s:%d", peerHost(namespace, i), ClientPort)
}

// MemberServiceURL returns the URL of the process of one member.
func MemberServiceURL(namespace string, i int) string {
	return fmt.Sprintf("https://%s:%d", peerHost(namespace, i), ServicePort)
}

// PodServiceURL returns the URL of the process in a pod.
func PodServiceURL(pod *corev1.Pod) string {
	return fmt.Sprintf("https://%s.%s.%s.svc:%d", pod.Name, peerName, pod.Namespace, ServicePort)
}

// URLs returns the URLs of an etcd of n members for the API server, which notices itself which of several members
// answer.
func URLs(namespace string, n int) []string {
	if n <= 1 {
		return []string{URL(namespace)}
	}
	var urls []string
	for i := range n {
		urls = append(urls, MemberURL(namespace, i))
	}
	return urls
}

// ServiceURL returns the URL of status, snapshots and metrics of the backups.
func ServiceURL(namespace string) string {
	return fmt.Sprintf("https://%s.%s.svc:%d", Name, namespace, ServicePort)
}

// URL returns the URL of etcd for the API server.
func URL(namespace string) string {
	return fmt.Sprintf("https://%s.%s.svc:%d", Name, namespace, ClientPort)
}

// Render returns the Service and the StatefulSet. The caller updates running pods itself, see [Plan].
func Render(v Values) (*corev1.Service, *appsv1.StatefulSet) {
	port := func(name string, port int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: port, TargetPort: intstr.FromInt32(port), Protocol: corev1.ProtocolTCP}
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name, Namespace: v.Namespace, Labels: component.Labels(Name),
			Annotations: component.ReachableFrom(corev1beta1.RoleGarden),
		},
		Spec: corev1.ServiceSpec{
			Selector: component.Selector(Name),
			Ports:    []corev1.ServicePort{port("client", ClientPort), port("backup", ServicePort)},
			// The process answers while etcd does not, and lets clients of etcd wait.
			PublishNotReadyAddresses: true,
		},
	}
	labels := component.Labels(Name)
	labels[component.LabelMutatedByWebhook] = "true"
	return service, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: v.Namespace, Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas:             ptr.To(v.Replicas),
			RevisionHistoryLimit: ptr.To(int32(1)),
			ServiceName:          peerName,
			PodManagementPolicy:  appsv1.ParallelPodManagement, // Members wait for each other.
			Selector:             &metav1.LabelSelector{MatchLabels: component.Selector(Name)},
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Template:             template(v),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: volumeData, Labels: component.Labels(Name)},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(v.StorageSize)},
					},
				},
			}},
		},
	}
}

// Peers returns the Service that gives every member a DNS name, also before it is ready.
func Peers(namespace string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: peerName, Namespace: namespace, Labels: component.Labels(Name)},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: component.Selector(Name), PublishNotReadyAddresses: true,
			Ports: []corev1.ServicePort{{
				Name: "peer", Port: peerPort, TargetPort: intstr.FromInt32(peerPort), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
}

// DisruptionBudget keeps a quorum. With a single member it allows the eviction of that member.
func DisruptionBudget(namespace string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: namespace, Labels: component.Labels(Name)},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             ptr.To(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: component.Selector(Name)},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

// template returns the pods.
func template(v Values) corev1.PodTemplateSpec {
	config := component.ConfigMapMount("config", configName, pathConfig)
	w := component.Workload{
		Name:      Name,
		Namespace: v.Namespace,
		Image:     v.Image,
		Command:   slices.Concat(processFlags(), v.Backup.flags(), []string{"--"}, memberFlags(v)),
		Ports: []corev1.ContainerPort{
			{Name: "client", ContainerPort: ClientPort, Protocol: corev1.ProtocolTCP},
			{Name: "peer", ContainerPort: peerPort, Protocol: corev1.ProtocolTCP},
			{Name: "backup", ContainerPort: ServicePort, Protocol: corev1.ProtocolTCP},
		},
		Mounts: append([]component.Mount{
			component.SecretMount("certificates", CertificatesName, pathCertificates), config,
		}, v.Backup.mounts()...),
		Env: []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "metadata.name"}}}},
		CPU:           "15m",
		Memory:        "80Mi",
		MemoryLimit:   memoryLimit,
		PriorityClass: component.PriorityAPI,
		Reaches:       reaches(v),
		// The process stores what is not in the backups yet while etcd still serves, then kills etcd: acknowledged
		// writes are in its log.
		GracePeriodSeconds: 5,
	}
	t := w.PodTemplate()
	c := &t.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeData, MountPath: pathData})
	// Why a restore failed is shown in the status of the pod.
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	c.StartupProbe = probe("/readyz", healthPort, 1, startupSeconds)
	c.ReadinessProbe = probe("/readyz", healthPort, 10, 3)
	c.LivenessProbe = probe("/healthz", healthPort, 10, 6)
	if v.Spread != "" {
		t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v.Spread, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: component.Selector(Name)},
		}}
		if v.Spread != corev1.LabelHostname { // Zones may have several nodes.
			t.Spec.TopologySpreadConstraints = append(t.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: component.Selector(Name)},
			})
		}
	}
	t.Annotations = map[string]string{annotationTemplate: templateChecksum(t)}
	return t
}

// reaches returns the destinations that the pods connect to: other members, and the bucket of the backups.
func reaches(v Values) []string {
	out := []string{
		component.ReachDNS, component.ReachService(peerName, peerPort), component.ReachService(Name, ClientPort),
		component.ReachService(Name, ServicePort),
	}
	if v.Backup != nil {
		out = append(out, component.Cloud...)
	}
	return out
}

func probe(path string, port, periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port)}},
		PeriodSeconds: periodSeconds, FailureThreshold: failures, TimeoutSeconds: 5,
	}
}

// processFlags are the flags of the process that runs etcd.
func processFlags() []string {
	return []string{
		"/usr/local/bin/hortus", "etcd", "run",
		"--certificates=" + pathCertificates,
		"--flags-file=" + pathConfig + "/" + keyFlags,
		"--members-file=" + pathConfig + "/" + keyMembers,
		fmt.Sprintf("--metrics-url=http://127.0.0.1:%d", metricsPort),
		fmt.Sprintf("--etcd-endpoint=https://localhost:%d", ClientPort),
		fmt.Sprintf("--client-address=0.0.0.0:%d", ClientPort),
		fmt.Sprintf("--forward-address=127.0.0.1:%d", forwardPort),
		fmt.Sprintf("--listen-address=:%d", ServicePort),
		fmt.Sprintf("--health-address=:%d", healthPort),
	}
}

// memberFlags are the flags of etcd that identify its member. The others may change, see [Config].
func memberFlags(v Values) []string {
	own := "$(POD_NAME)." + peerName + "." + v.Namespace + ".svc" // Kubernetes expands the variable.
	return []string{
		"--name=$(POD_NAME)",
		"--data-dir=" + dataDir,
		fmt.Sprintf("--listen-client-urls=https://0.0.0.0:%d,https://127.0.0.1:%d", ClientPort, forwardPort),
		fmt.Sprintf("--advertise-client-urls=https://%s:%d", own, ClientPort),
		fmt.Sprintf("--listen-peer-urls=https://0.0.0.0:%d", peerPort),
		fmt.Sprintf("--initial-advertise-peer-urls=https://%s:%d", own, peerPort),
		"--initial-cluster-token=" + v.Namespace, // The ID of the cluster follows from it: a member never joins another's.
		"--cert-file=" + pathCertificates + "/" + configuration.ServerCert,
		"--key-file=" + pathCertificates + "/" + configuration.ServerKey,
		"--trusted-ca-file=" + pathCertificates + "/" + configuration.CA,
		"--client-cert-auth=true",
		"--peer-cert-file=" + pathCertificates + "/" + configuration.PeerCert,
		"--peer-key-file=" + pathCertificates + "/" + configuration.PeerKey,
		"--peer-trusted-ca-file=" + pathCertificates + "/" + configuration.PeerCA,
		"--peer-client-cert-auth=true",
		// The names in a peer's certificate do not match the address that its connection comes from.
		"--peer-skip-client-san-verification=true",
		fmt.Sprintf("--listen-metrics-urls=http://127.0.0.1:%d", metricsPort),
	}
}
