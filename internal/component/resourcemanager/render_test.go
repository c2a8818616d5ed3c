package resourcemanager

import (
	"testing"
	"time"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	golden.Objects(t, "shoot", Render(Values{
		Size:      component.Small,
		Namespace: "shoot--dev--a", Image: "hortus.dev/hortus:dev", Replicas: 1, Workers: true,
		MaxNodeAgentDelay: time.Minute, WebhookSecret: "gardener-resource-manager-webhooks-1",
		SystemComponents: component.SystemComponents(nil).Tolerations, APIServerHost: "api.a.dev.internal.example.com",
		Access: component.ClientAccess{CASecret: "ca-bundle-1", CertSecret: "gardener-resource-manager-1"},
	})...)
	golden.Objects(t, "webhooks", ShootWebhooks([]byte("CA")))
	golden.Objects(t, "seed", Render(Values{
		Namespace: "garden", Image: "hortus.dev/hortus:dev", Replicas: 2, Class: "seed",
	})...)
}
