package steps

import "hortus.dev/hortus/internal/secretsmanager"

// ObservedRotations is how far rotations of credentials have come, as the Secrets in the control plane namespace tell.
type ObservedRotations struct {
	CertificateAuthorities, ServiceAccountKey, EncryptionKey, SSHKeypair secretsmanager.Rotation
}

// ObserveRotations reads it from what is there before anything is generated.
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
