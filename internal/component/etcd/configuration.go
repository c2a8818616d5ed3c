package etcd

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/etcdmember/configuration"
)

// Names of objects whose changes reach the running pod. They have no hash in their names: the pod stays the same.
const (
	// CertificatesName is the name of the Secret with certificates and bundles.
	CertificatesName = Name + "-certificates"
	configName       = Name + "-config"
)

// Keys of the ConfigMap.
const (
	keyFlags        = "flags"
	keyFullSchedule = "full-schedule"
	keyMembers      = "members"
)

// quotaBytes is etcd's advised maximum for its database; beyond it start-up and defragmentation get slow.
const quotaBytes = 8 << 30

// flags of etcd that may change while the pod runs. With one member there are no other votes, so a short election
// timeout costs nothing and shortens a restart: the member elects itself after one to two timeouts, less the ticks that
// it skips at the start.
func flags(members int) string {
	heartbeat, election := 50, 250
	if members > 1 {
		heartbeat, election = 100, 1000 // Etcd's defaults.
	}
	return strings.Join([]string{
		"--auto-compaction-mode=periodic",
		"--auto-compaction-retention=30m",
		fmt.Sprintf("--quota-backend-bytes=%d", quotaBytes),
		fmt.Sprintf("--heartbeat-interval=%d", heartbeat),
		fmt.Sprintf("--election-timeout=%d", election),
		"--log-level=warn",
	}, "\n") + "\n"
}

// members lists the desired members, in the form that `hortus etcd run` reads.
func members(namespace string, n int) string {
	lines := &strings.Builder{}
	for i := range n {
		fmt.Fprintf(lines, "%s-%d https://%s:%d %s %s\n", Name, i, peerHost(namespace, i), peerPort, MemberURL(namespace, i),
			MemberServiceURL(namespace, i))
	}
	return lines.String()
}

// Certificates are the certificates of an etcd and the CA bundles with which it verifies others. All are PEM.
type Certificates struct {
	// Bundle of the CA.
	Bundle []byte
	// Server is the pair of etcd and of the service of its process; Client the pair of the process as a client of etcd.
	Server, Client Pair
	// PeerBundle and Peer are those of members among each other.
	PeerBundle []byte
	Peer       Pair
}

// Pair is a certificate with its key.
type Pair struct{ Cert, Key []byte }

// Secret returns the Secret that the pod mounts.
func (c Certificates) Secret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: CertificatesName, Namespace: namespace, Labels: component.Labels(Name)},
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			configuration.CA:         c.Bundle,
			configuration.ServerCert: c.Server.Cert, configuration.ServerKey: c.Server.Key,
			configuration.ClientCert: c.Client.Cert, configuration.ClientKey: c.Client.Key,
			configuration.PeerCA: c.PeerBundle, configuration.PeerCert: c.Peer.Cert, configuration.PeerKey: c.Peer.Key,
		},
	}
}

// Checksum identifies the certificates and flags that etcd has to run with. The process of etcd computes the same.
func Checksum(certificates *corev1.Secret, config *corev1.ConfigMap) string {
	return configuration.Configuration{Files: certificates.Data, Flags: config.Data[keyFlags]}.Checksum()
}

// Config returns the configuration that may change besides the certificates: flags of etcd, its members, and the
// schedule of full snapshots as cron in UTC. Etcd is restarted only for the flags.
func Config(namespace, fullSchedule string, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: configName, Namespace: namespace, Labels: component.Labels(Name)},
		Data:       map[string]string{keyFlags: flags(n), keyFullSchedule: fullSchedule, keyMembers: members(namespace, n)},
	}
}
