package steps

import "hortus.dev/hortus/internal/secretsmanager"

// ObservedRotations is the progress of credentials rotations, as observed in the Secrets of the control plane
// namespace.
type ObservedRotations struct {
	CertificateAuthorities, ServiceAccountKey, EncryptionKey, SSHKeypair secretsmanager.Rotation
}

// ObserveRotations observes the rotations before any Secret is generated.
func ObserveRotations(m *secretsmanager.Manager) ObservedRotations {
	return ObservedRotations{
		CertificateAuthorities: m.Rotation(
			nameCA, nameCAClient, nameCAEtcd, nameCAEtcdPeer, nameCAFrontProxy, nameCAKubelet, nameCAMetricsServer, nameCAVPN,
		),
		ServiceAccountKey: m.Rotation(nameServiceAccountKey),
		EncryptionKey:     m.Rotation(nameEtcdEncryptionKey),
		SSHKeypair:        m.Rotation(nameSSHKeypair),
	}
}
