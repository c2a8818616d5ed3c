package etcd

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/component"
)

// BackupPort serves status, snapshots and metrics of the backups, to clients with a certificate of etcd's CA.
const BackupPort = 2382

// backupHealthPort serves the liveness of the container that takes backups, in plain text.
const backupHealthPort = 2383

const (
	pathBackupStore = "/var/etcd/backup-store"
	pathClient      = "/var/etcd/ssl/client"
	// pathBackupConfig is a whole volume: changes do not reach single files that are mounted.
	pathBackupConfig = "/var/etcd/backup-config"
)

// backupContainer takes the backups.
const backupContainer = "backup"

// Names of volumes with certificates.
const (
	volumeClient   = "client"
	volumeClientCA = "client-ca"
)

// backupConfigName is not unique: a change must reach the running pod.
const (
	backupConfigName = Name + "-backup"
	keyFullSchedule  = "full-schedule"
)

// BackupConfig returns what the container that takes backups reads again when it changes, without a restart of etcd:
// the schedule of full snapshots, as cron in UTC.
func BackupConfig(namespace, fullSchedule string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: backupConfigName, Namespace: namespace, Labels: component.Labels(Name)},
		Data:       map[string]string{keyFullSchedule: fullSchedule},
	}
}

// Backup says where backups go. Without it there are none, and a lost volume is lost data.
type Backup struct {
	// Image has `hortus etcd-backup`.
	Image string
	// StoreSecret has the credentials of the object store, ClientSecret the client certificate for etcd.
	StoreSecret  string
	ClientSecret string
	// Prefix of all objects of this etcd.
	Prefix string
	// Holder and Epoch prove the ownership of the control plane.
	Holder string
	Epoch  int64
}

// memberFlags of etcd are those that a restored data directory depends on.
var memberFlags = []string{"--name", "--initial-cluster", "--initial-cluster-token", "--initial-advertise-peer-urls"}

// BackupURL is where status, snapshots and metrics of the backups are served.
func BackupURL(namespace string) string {
	return fmt.Sprintf("https://%s.%s.svc:%d", Name, namespace, BackupPort)
}

// BackupSecrets returns the names of the Secrets that a client of the backups' service needs: with its certificate,
// and with the bundle that verifies both sides. It reports false if the etcd has no backups.
func BackupSecrets(set *appsv1.StatefulSet) (client, bundle string, ok bool) {
	spec := &set.Spec.Template.Spec
	if !slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == backupContainer }) {
		return "", "", false
	}
	for _, v := range spec.Volumes {
		switch {
		case v.Secret == nil:
		case v.Name == volumeClient:
			client = v.Secret.SecretName
		case v.Name == volumeClientCA:
			bundle = v.Secret.SecretName
		}
	}
	return client, bundle, client != "" && bundle != ""
}

// storeFlags give both containers access to the store.
func (b *Backup) storeFlags() []string {
	return []string{
		"--store-credentials=" + pathBackupStore, "--prefix=" + b.Prefix, fmt.Sprintf("--epoch=%d", b.Epoch), "--holder=" + b.Holder,
	}
}

// addBackup makes the pod restore the data directory if it has to before etcd starts, and take backups while it runs.
func (b *Backup) addBackup(spec *corev1.PodSpec, member []string) {
	store := component.SecretMount("backup-store", b.StoreSecret, pathBackupStore)
	client := component.SecretMount(volumeClient, b.ClientSecret, pathClient)
	config := component.ConfigMapMount("backup-config", backupConfigName, pathBackupConfig)
	config.Source.ConfigMap.Optional = ptr.To(true) // Etcd starts without it.
	for _, m := range []component.Mount{store, client, config} {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: m.Name, VolumeSource: m.Source})
	}
	data := corev1.VolumeMount{Name: volumeData, MountPath: pathData}
	storeMount := corev1.VolumeMount{Name: store.Name, MountPath: store.Path, ReadOnly: true}
	container := func(name, command string, flags []string, memory string, mounts ...corev1.VolumeMount) corev1.Container {
		return corev1.Container{
			Name: name, Image: b.Image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command:         append([]string{"/usr/local/bin/hortus", "etcd-backup", command}, flags...),
			VolumeMounts:    append([]corev1.VolumeMount{data, storeMount}, mounts...),
			Resources:       component.Requests("5m", memory),
			SecurityContext: spec.Containers[0].SecurityContext.DeepCopy(),
			// Why a restore failed is shown in the status of the pod.
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}
	}
	restore := append([]string{"--data-dir=" + dataDir}, b.storeFlags()...)
	for _, flag := range member {
		if name, _, _ := strings.Cut(flag, "="); slices.Contains(memberFlags, name) {
			restore = append(restore, flag)
		}
	}
	spec.InitContainers = append(spec.InitContainers, container("restore", "restore", restore, "32Mi"))

	run := append([]string{
		"--data-dir=" + dataDir,
		"--temp-dir=" + pathData,
		fmt.Sprintf("--etcd-endpoint=https://localhost:%d", ClientPort),
		"--etcd-ca-file=" + pathClientCA + "/bundle.crt",
		"--etcd-cert-file=" + pathClient + "/tls.crt",
		"--etcd-key-file=" + pathClient + "/tls.key",
		fmt.Sprintf("--listen-address=:%d", BackupPort),
		fmt.Sprintf("--health-address=:%d", backupHealthPort),
		"--cert-file=" + pathServer + "/tls.crt",
		"--key-file=" + pathServer + "/tls.key",
		"--client-ca-file=" + pathClientCA + "/bundle.crt",
	}, b.storeFlags()...)
	run = append(run, "--schedule-file="+pathBackupConfig+"/"+keyFullSchedule)
	read := func(volume, path string) corev1.VolumeMount {
		return corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true}
	}
	backup := container(backupContainer, "run", run, "32Mi",
		read("server", pathServer), read(volumeClientCA, pathClientCA), read(client.Name, client.Path),
		read(config.Name, config.Path))
	backup.Ports = []corev1.ContainerPort{{Name: "backup", ContainerPort: BackupPort, Protocol: corev1.ProtocolTCP}}
	backup.LivenessProbe = &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(backupHealthPort)}},
		PeriodSeconds:    30,
		FailureThreshold: 4,
		TimeoutSeconds:   5,
	}
	spec.Containers = append(spec.Containers, backup)
}
