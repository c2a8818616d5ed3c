package test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/test/env"
)

// Tools that apply the same manifests repeatedly, such as GitOps controllers, must not cause changes, even if the
// server stores objects in another form.
func TestApplyingTheSameAgainChangesNothing(t *testing.T) {
	g := newGarden(t)
	seed := newSeed()
	g.Create(t, seed)
	manifests := map[string]string{
		"a quantity that is not canonical": `
apiVersion: core.gardener.cloud/v1beta1
kind: Quota
spec: {scope: {apiVersion: core.gardener.cloud/v1beta1, kind: Project}, metrics: {cpu: 1000m}}`,
		"a default within a list": `
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
spec: {resources: [{kind: Extension, type: ` + env.Name("e") + `}]}`,
		"roles of members": `
apiVersion: core.gardener.cloud/v1beta1
kind: Project
spec: {members: [{kind: User, name: bob, role: viewer, roles: [uam]}]}`,
		"stringData that becomes data": `
apiVersion: core.gardener.cloud/v1beta1
kind: InternalSecret
stringData: {a: b}`,
		"an older spelling": `
apiVersion: core.gardener.cloud/v1beta1
kind: BackupBucket
spec: {provider: {type: local, region: home}, seedName: ` + seed.Name + `, secretRef: {namespace: garden, name: dns}}`,
		"another version": `
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerDeployment
type: helm
providerConfig: {chart: aGVsbG8=, values: {b: 1, a: 2}}`,
		"a duration and a version that are completed": `
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
spec:
  cloudProfile: {name: ` + g.profile.Name + `}
  credentialsBindingName: cloud
  region: local
  networking: {type: bridge}
  kubernetes: {version: "1.36", kubeAPIServer: {eventTTL: 60m}}
  tolerations: []
  provider: {type: local, workers: [{name: pool, machine: {type: small}, minimum: 1, maximum: 1}]}`,
	}
	for what, manifest := range manifests {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(manifest), object); err != nil {
				t.Fatal(err)
			}
			object.SetNamespace(g.namespace)
			object.SetName(env.Name("same"))
			apply := func() *unstructured.Unstructured {
				answer := object.DeepCopy()
				if err := g.Client.Patch(t.Context(), answer, client.Apply, client.FieldOwner("repository")); err != nil {
					t.Fatal(err)
				}
				return answer
			}
			first := apply()
			t.Cleanup(func() {
				ctx := context.WithoutCancel(t.Context())
				_ = g.Client.Patch(ctx, first, client.RawPatch("application/merge-patch+json",
					[]byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`)))
				_ = g.Client.Delete(ctx, first) // Remaining objects are deleted with the server.
			})
			applied := time.Now().Unix()
			env.Eventually(t, "another second has begun, since managed fields have times without fractions",
				func() (bool, error) { return time.Now().Unix() > applied, nil })
			if again := apply(); again.GetResourceVersion() != first.GetResourceVersion() ||
				again.GetGeneration() != first.GetGeneration() {
				t.Errorf("resource version %s -> %s, generation %d -> %d", first.GetResourceVersion(), again.GetResourceVersion(),
					first.GetGeneration(), again.GetGeneration())
			}
		})
	}
}
