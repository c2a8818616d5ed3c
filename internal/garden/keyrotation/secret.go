package keyrotation

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hortus.dev/hortus/internal/encryption"
)

const (
	// SecretName is the Secret with the encryption configuration, unless the values of the chart name another one.
	SecretName = "hortus-apiserver-encryption"
	// KeyConfig is the Secret's key with the EncryptionConfiguration.
	KeyConfig = "encryption.yaml"
	// KeyRevision is the Secret's key with the configuration's revision, a number incremented with every change; 0 if
	// absent.
	KeyRevision = "revision"

	// AnnotationRevision on the API server's pods is the revision that they were started for.
	AnnotationRevision = "hortus.dev/encryption-revision"
	// annotationRotatedTo on the Secret names the key of the last completed rotation.
	annotationRotatedTo = "hortus.dev/rotated-to"
	// annotationKeyMade on the Secret is the creation time of the newest key, in RFC 3339.
	annotationKeyMade = "hortus.dev/key-made"
)

// Resources are the resources that the API server encrypts.
var Resources = []string{
	"controllerdeployments.core.gardener.cloud",
	"controllerregistrations.core.gardener.cloud",
	"internalsecrets.core.gardener.cloud",
	"shootstates.core.gardener.cloud",
}

// InitialSecret returns the Secret with the configuration of a garden whose key, base64 of 32 bytes, has never been
// rotated.
func InitialSecret(namespace, key string) *corev1.Secret {
	first := encryption.Target{
		Resources: Resources,
		Writer:    encryption.Provider{Cipher: encryption.Secretbox, Key: keyName(1)},
		Keys:      map[string]string{keyName(1): key},
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName},
		Data:       map[string][]byte{KeyConfig: first.Config().Render()},
	}
}

// stored is the content of the Secret.
type stored struct {
	config    encryption.Config
	revision  int
	rotatedTo string
	keyMade   time.Time
}

func readSecret(s *corev1.Secret) (stored, error) {
	var out stored
	var err error
	fail := func(what string, err error) (stored, error) {
		return stored{}, fmt.Errorf("read %s of Secret %s/%s: %w", what, s.Namespace, s.Name, err)
	}
	if out.config, err = encryption.Parse(s.Data[KeyConfig]); err != nil {
		return fail(KeyConfig, err)
	}
	if text := string(s.Data[KeyRevision]); text != "" {
		if out.revision, err = strconv.Atoi(text); err != nil {
			return fail(KeyRevision, err)
		}
	}
	if text := s.Annotations[annotationKeyMade]; text != "" {
		if out.keyMade, err = time.Parse(time.RFC3339, text); err != nil {
			return fail("annotation "+annotationKeyMade, err)
		}
	}
	out.rotatedTo = s.Annotations[annotationRotatedTo]
	return out, nil
}

// put writes the next configuration into the Secret.
func (s stored) put(into *corev1.Secret, next encryption.Config) {
	into.Data[KeyConfig] = next.Render()
	into.Data[KeyRevision] = []byte(strconv.Itoa(s.revision + 1))
}
