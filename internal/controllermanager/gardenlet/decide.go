package gardenlet

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
	"hortus.dev/hortus/internal/pki"
)

// due reports whether a gardenlet is to be installed: the first one of a Seed that is not registered, or another one on
// request.
func due(gardenlet *seedmanagementv1alpha1.Gardenlet, registered bool) bool {
	return gardenlet.DeletionTimestamp == nil && gardenlet.Spec.KubeconfigSecretRef != nil &&
		(!registered || forced(gardenlet))
}

func forced(gardenlet *seedmanagementv1alpha1.Gardenlet) bool {
	return gardenlet.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationForceRedeploy
}

// gardenOf returns a kubeconfig of the garden without credentials, for the gardenlet. The CA bundle is that of the
// garden, unless the Gardenlet names another one.
func gardenOf(gardenlet *seedmanagementv1alpha1.Gardenlet, caBundle []byte) (pki.Kubeconfig, error) {
	address, own := gardenlet.GardenCluster()
	if address == "" {
		return pki.Kubeconfig{}, invalid{fmt.Errorf("spec.config.gardenClientConnection.gardenClusterAddress: required "+
			"value: the address of the garden as the seed %q reaches it", gardenlet.Name)}
	}
	if len(own) > 0 {
		caBundle = own
	}
	return pki.Kubeconfig{Name: "garden", Server: address, CAPEM: caBundle}, nil
}

const (
	// tokenReserve is how long a token has to be usable for a gardenlet that is about to start.
	tokenReserve = 10 * time.Minute
	// joinTime is how long a gardenlet takes at most from the use of its token until it has stored its certificate. One
	// that has none then has lost its key.
	joinTime = 2 * time.Minute
)

// tokenFor returns the token for a gardenlet's first certificate, of those that have been created for it; "" if there
// is none that it could use. keep says that the gardenlet has a kubeconfig with a token that it can still use, or has
// just used: it is about to store its certificate.
func tokenFor(seed, kubeconfig string, tokens []corev1.Secret, now time.Time) (text string, keep bool) {
	for i := range tokens {
		usable := bootstraptoken.Usable(&tokens[i], seed, now.Add(tokenReserve))
		used := tokens[i].Annotations[bootstraptoken.AnnotationRequest] != "" &&
			bootstraptoken.Valid(&tokens[i], now.Add(bootstraptoken.ReadTime-joinTime))
		if (usable || used) && strings.Contains(kubeconfig, bootstraptoken.Text(&tokens[i])) {
			return "", true
		}
		if usable {
			text = bootstraptoken.Text(&tokens[i])
		}
	}
	return text, false
}

// holder returns the Seed whose gardenlet has the certificate of a kubeconfig, and false if it has expired or cannot be
// read.
func holder(kubeconfig []byte, now time.Time) (seed string, usable bool) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return "", false
	}
	cert, err := pki.ParseCert(config.CertData)
	if err != nil || now.After(cert.NotAfter) {
		return "", false
	}
	return strings.TrimPrefix(cert.Subject.CommonName, corev1beta1.SeedUserPrefix), true
}

// refuseOther returns an error if a cluster with a gardenlet of one Seed is to become another one.
func refuseOther(of, seed string) error {
	if of == seed {
		return nil
	}
	return invalid{fmt.Errorf("spec.kubeconfigSecretRef: the cluster is the Seed %q already: name another cluster, or "+
		"remove that Seed and its gardenlet first", of)}
}

// invalid is an error that stays until the Gardenlet, the chart or the Secret has changed.
type invalid struct{ error }

// condition says why the gardenlet is not there yet.
func condition(gardenlet *seedmanagementv1alpha1.Gardenlet, err error) corev1beta1.Condition {
	c := corev1beta1.Condition{
		Type: seedmanagementv1alpha1.GardenletReconciled, Status: corev1beta1.ConditionFalse,
		Reason:  corev1beta1.EventReconciling,
		Message: fmt.Sprintf("The gardenlet is installed, and has not registered the Seed %q yet.", gardenlet.Name),
	}
	if forced(gardenlet) {
		c.Message = "The gardenlet is installed again, and has no certificate for the garden yet."
	}
	if err != nil {
		c.Reason, c.Message = corev1beta1.EventReconcileError, "The gardenlet cannot be installed: "+err.Error()
	}
	return c
}
