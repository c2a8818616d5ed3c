// Package garden has the commands with which an operator maintains the garden.
package garden

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/garden/keyrotation"
)

// backupDelay is the minimum age of a new key before it is used to encrypt: a change is in the backups of etcd after
// 60 s at the latest, plus the time of an upload.
const backupDelay = 2 * time.Minute

// NewCommand returns 'hortus garden'.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "garden",
		Short: "Administer the garden",
		Example: `  hortus garden bootstrap-kubeconfig north
  hortus garden rotate-etcd-encryption-key`,
	}
	cmd.AddCommand(newBootstrapKubeconfigCommand(), newRotateEtcdEncryptionKeyCommand())
	return cmd
}

func newRotateEtcdEncryptionKeyCommand() *cobra.Command {
	var access garden.Access
	rotation := keyrotation.Rotation{Clock: clock.RealClock{}}
	cmd := &cobra.Command{
		Use:   "rotate-etcd-encryption-key",
		Short: "Replace the key with which the garden's API server encrypts what it stores in etcd",
		Long: `Replace the key with which the garden's API server encrypts ShootStates, InternalSecrets, ControllerDeployments and
ControllerRegistrations in etcd. The API server is rolled out two or three times and stays available.

The command may be interrupted at any time: the same command continues the rotation, and begins a new one only when the last
one is complete. The previous key stays readable until the next rotation: backups from before the rotation need it.

The new key is used after --backup-delay only, so that the backups of the cluster have it before anything depends on it.`,
		Example: `  hortus garden rotate-etcd-encryption-key
  hortus garden rotate-etcd-encryption-key --kubeconfig garden.yaml --backup-delay 10m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if rotation.Garden, err = connect(&access); err != nil {
				return err
			}
			rotation.Out = cmd.ErrOrStderr()
			err = rotation.Run(cmd.Context())
			if cmd.Context().Err() != nil {
				return fmt.Errorf("interrupted: the same command continues the rotation")
			}
			return err
		},
	}
	access.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&rotation.Namespace, "namespace", "n", corev1beta1.GardenNamespace,
		"namespace of hortus-apiserver")
	cmd.Flags().DurationVar(&rotation.BackupDelay, "backup-delay", backupDelay,
		"age at which a new key begins to encrypt; must exceed the delay of the backups of the cluster's etcd")
	return cmd
}

// connect returns a client of the garden cluster without a cache.
func connect(access *garden.Access) (client.Client, error) {
	config, err := access.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // No limit: the command sends one request at a time.
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	return c, nil
}
