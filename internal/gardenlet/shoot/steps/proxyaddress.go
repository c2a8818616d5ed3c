package steps

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/kube"
)

// proxyAddress is the IP that the API server advertises, and at which the proxies of all nodes listen for it. It goes
// with the Shoot from seed to seed, so that no proxy has to be restarted when a control plane moves; only where another
// Shoot of the seed has it already is the next one taken.
func proxyAddress(ctx context.Context, s *Values, seed *SeedNamespace) (string, error) {
	own := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: kubeapiserver.Name}}
	if _, err := kube.Exists(ctx, seed, own); err != nil {
		return "", err
	}
	if address := own.Annotations[component.AnnotationProxyAddress]; address != "" {
		return address, nil
	}
	// The addresses of all Shoots are only read to find a free one.
	services := &corev1.ServiceList{}
	if err := seed.List(ctx, services, client.MatchingLabels(component.Labels(kubeapiserver.Name))); err != nil {
		return "", fmt.Errorf("list Services of API servers: %w", err)
	}
	taken := map[string]bool{}
	for i := range services.Items {
		taken[services.Items[i].Annotations[component.AnnotationProxyAddress]] = true
	}
	for n := uint32(0); ; n++ {
		if address := proxyAddressOf(s.Shoot.UID, n).String(); !taken[address] {
			return address, nil
		}
	}
}

// proxyAddressOf returns the n-th choice of a Shoot, in 240.0.0.0/8: that range is reserved (RFC 1112, section 4), so
// nothing that a pod wants to reach is in it.
func proxyAddressOf(shoot types.UID, n uint32) netip.Addr {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(shoot), n))
	return netip.AddrFrom4([4]byte{240, sum[0], sum[1], sum[2]})
}
