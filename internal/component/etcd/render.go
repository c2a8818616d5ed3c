package etcd

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/component"
)

// Name of the StatefulSet and the Service.
const Name = "etcd-main"

// ClientPort serves the API server.
const ClientPort = 2379

// metricsPort serves health and metrics in plain text.
const metricsPort = 2381

const (
	pathServer   = "/var/etcd/ssl/server"
	pathClientCA = "/var/etcd/ssl/client-ca"
	pathData     = "/var/etcd/data"
	dataDir      = pathData + "/new.etcd"
	volumeData   = "main-etcd"
	// quotaBytes is etcd's advised maximum for its database; beyond it start-up and defragmentation get slow.
	quotaBytes = 8 << 30
)

// Values is what the rendering depends on.
type Values struct {
	Namespace string
	Image     string
	// Replicas is 1, or 0 while the Shoot is hibernated.
	Replicas int32
	// ServerSecret has the server's tls.crt and tls.key; CASecret the bundle that clients' certificates are checked with.
	ServerSecret string
	CASecret     string
	// StorageSize of the volume, such as 25Gi.
	StorageSize string
	// Backup is nil without backups.
	Backup *Backup
}

// DNSNames are the names that the server's certificate has to carry.
func DNSNames(namespace string) []string {
	names := []string{"localhost"}
	for _, host := range []string{Name, Name + "-0." + Name} {
		names = append(names, host, host+"."+namespace, host+"."+namespace+".svc", host+"."+namespace+".svc.cluster.local")
	}
	return names
}

// URL is where the API server reaches it.
func URL(namespace string) string {
	return fmt.Sprintf("https://%s.%s.svc:%d", Name, namespace, ClientPort)
}

// Render returns the Service and the StatefulSet.
func Render(v Values) (*corev1.Service, *appsv1.StatefulSet) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: v.Namespace, Labels: component.Labels(Name)},
		Spec: corev1.ServiceSpec{
			Selector: component.Selector(Name),
			Ports:    []corev1.ServicePort{{Name: "client", Port: ClientPort, TargetPort: intstr.FromInt32(ClientPort), Protocol: corev1.ProtocolTCP}},
			// Etcd is of use as soon as it answers, whatever the state of the container that takes backups.
			PublishNotReadyAddresses: v.Backup != nil,
		},
	}
	if v.Backup != nil {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: "backup", Port: BackupPort, TargetPort: intstr.FromInt32(BackupPort), Protocol: corev1.ProtocolTCP,
		})
	}
	w := component.Workload{
		Name:      Name,
		Namespace: v.Namespace,
		Image:     v.Image,
		Command: []string{
			"/usr/local/bin/etcd",
			"--name=" + Name + "-0",
			"--data-dir=" + dataDir,
			fmt.Sprintf("--listen-client-urls=https://0.0.0.0:%d", ClientPort),
			"--advertise-client-urls=" + URL(v.Namespace),
			"--listen-peer-urls=http://127.0.0.1:2380",
			"--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=" + Name + "-0=http://127.0.0.1:2380",
			"--initial-cluster-token=" + v.Namespace, // The ID of the cluster follows from it: a member never joins another's.
			"--cert-file=" + pathServer + "/tls.crt",
			"--key-file=" + pathServer + "/tls.key",
			"--trusted-ca-file=" + pathClientCA + "/bundle.crt",
			"--client-cert-auth=true",
			fmt.Sprintf("--listen-metrics-urls=http://0.0.0.0:%d", metricsPort),
			"--auto-compaction-mode=periodic",
			"--auto-compaction-retention=30m",
			fmt.Sprintf("--quota-backend-bytes=%d", quotaBytes),
			"--log-level=warn",
		},
		Ports: []corev1.ContainerPort{
			{Name: "client", ContainerPort: ClientPort, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: metricsPort, Protocol: corev1.ProtocolTCP},
		},
		Mounts: []component.Mount{
			component.SecretMount("server", v.ServerSecret, pathServer),
			component.SecretMount(volumeClientCA, v.CASecret, pathClientCA),
		},
		CPU:           "10m",
		Memory:        "48Mi",
		Health:        component.Health{Port: metricsPort, Startup: "/readyz", Liveness: "/livez"},
		PriorityClass: component.PriorityAPI,
		// On an orderly end etcd refuses requests and waits up to seven seconds for watches that never end. It may be killed
		// at any time: what it has acknowledged is in its log.
		GracePeriodSeconds: 1,
	}
	template := w.PodTemplate()
	template.Spec.Containers[0].VolumeMounts = append(template.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: volumeData, MountPath: pathData})
	if v.Backup != nil {
		v.Backup.addBackup(&template.Spec, w.Command[1:])
	}
	return service, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: v.Namespace, Labels: component.Labels(Name)},
		Spec: appsv1.StatefulSetSpec{
			Replicas:             ptr.To(v.Replicas),
			RevisionHistoryLimit: ptr.To(int32(1)),
			ServiceName:          Name,
			Selector:             &metav1.LabelSelector{MatchLabels: component.Selector(Name)},
			Template:             template,
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: volumeData, Labels: component.Labels(Name)},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(v.StorageSize)}},
				},
			}},
		},
	}
}
