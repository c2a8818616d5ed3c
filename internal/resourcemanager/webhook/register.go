package webhook

import (
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
	"hortus.dev/hortus/internal/resourcemanager/webhook/tokenmount"
)

// Register lets the server answer for all webhooks. The reader is not cached.
func Register(server webhook.Server, reader client.Reader, scheme *runtime.Scheme) {
	server.Register(configuration.PathTokenMount, &admission.Webhook{
		Handler: &tokenmount.Handler{Reader: reader, Decoder: admission.NewDecoder(scheme)},
	})
}
