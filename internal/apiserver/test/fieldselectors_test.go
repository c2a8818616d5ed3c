package test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

// TestFieldSelectors: every key of every kind is accepted and really selects; an unknown key is rejected with the list
// of known ones. The list of keys in this test is the one promised to clients.
func TestFieldSelectors(t *testing.T) {
	g := newGarden(t)
	// Two objects of each kind that differ in all selectable fields except their namespace.
	host, parent := g.gardenShoot()
	otherHost, _ := g.gardenShoot()
	moved, unscheduled := g.newShoot(), g.newShoot()
	seed, otherSeed := newSeed(), newSeed()
	otherProfile := newProfile()
	unscheduled.Spec.CloudProfile.Name = otherProfile.Name
	g.Create(t, seed, otherSeed, otherProfile, moved, unscheduled)
	g.mustPatch(moved, bind(seed.Name), "binding")
	g.mustPatch(moved, `{"status":{"seedName":"`+otherSeed.Name+`"}}`, "status")

	onShoot := &corev1.ObjectReference{
		APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot", Namespace: g.namespace, Name: moved.Name,
	}
	credentials := &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: g.namespace, Name: "cloud"}
	bucket := func(seed *string, shoot *corev1.ObjectReference) *corev1beta1.BackupBucket {
		return &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: env.Name("bucket-")},
			Spec: corev1beta1.BackupBucketSpec{
				Provider: corev1beta1.BackupBucketProvider{Type: "local", Region: "local"}, CredentialsRef: credentials,
				SeedName: seed, ShootRef: shoot}}
	}
	seedBucket, shootBucket := bucket(&seed.Name, nil), bucket(nil, onShoot)
	g.Create(t, seedBucket, shootBucket)
	entry := func(of *corev1beta1.BackupBucket) *corev1beta1.BackupEntry {
		return &corev1beta1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: env.Name("entry-")},
			Spec: corev1beta1.BackupEntrySpec{BucketName: of.Name, SeedName: of.Spec.SeedName, ShootRef: of.Spec.ShootRef}}
	}
	seedEntry, shootEntry := entry(seedBucket), entry(shootBucket)
	registration := func() *corev1beta1.ControllerRegistration {
		return &corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: env.Name("registration-")}}
	}
	one, two := registration(), registration()
	installation := func(of *corev1beta1.ControllerRegistration, seed,
		shoot *corev1.ObjectReference) *corev1beta1.ControllerInstallation {
		return &corev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{Name: env.Name("installation-")},
			Spec: corev1beta1.ControllerInstallationSpec{
				RegistrationRef: corev1.ObjectReference{Name: of.Name}, SeedRef: seed, ShootRef: shoot,
			}}
	}
	onSeed := installation(one, &corev1.ObjectReference{Name: seed.Name}, nil)
	inShoot := installation(two, nil, onShoot)
	secret := func(kind corev1.SecretType) *corev1beta1.InternalSecret {
		return &corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{
			Namespace: g.namespace, Name: env.Name("secret-"),
		}, Type: kind}
	}
	opaque, special := secret(corev1.SecretTypeOpaque), secret("example.com/special")
	config := strings.Replace(seedConfig, `"dns": {`,
		`"dns": {"provider": {"type": "local", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": "dns"}}, `, 1)
	managed, otherManaged := newManagedSeed(host.Name, config), newManagedSeed(otherHost.Name, config)
	project, otherProject := g.Project(t), g.Project(t)
	g.Create(t, seedEntry, shootEntry, one, two, onSeed, inShoot, opaque, special, managed, otherManaged)

	tried := map[schema.GroupVersionKind][]string{}
	for _, tc := range []struct {
		key, value string
		match      client.Object
		other      client.Object
	}{
		{"metadata.name", moved.Name, moved, unscheduled},
		{"metadata.namespace", g.namespace, moved, host},
		{"spec.seedName", seed.Name, moved, unscheduled},
		{"spec.seedName", "", unscheduled, moved},
		{"status.seedName", otherSeed.Name, moved, unscheduled},
		{"spec.cloudProfile.Name", g.profile.Name, moved, unscheduled},
		{"spec.cloudProfile.name", g.profile.Name, moved, unscheduled},
		{"spec.cloudProfile.Kind", "CloudProfile", moved, nil},
		{"spec.cloudProfile.kind", "CloudProfile", moved, nil},
		{"spec.cloudProfileName", g.profile.Name, moved, unscheduled},
		{"metadata.name", seedBucket.Name, seedBucket, shootBucket},
		{"spec.seedName", seed.Name, seedBucket, shootBucket},
		{"spec.shootRef.name", moved.Name, shootBucket, seedBucket},
		{"spec.shootRef.namespace", g.namespace, shootBucket, seedBucket},
		{"spec.bucketName", seedBucket.Name, seedEntry, shootEntry},
		{"spec.seedName", seed.Name, seedEntry, shootEntry},
		{"spec.shootRef.name", moved.Name, shootEntry, seedEntry},
		{"spec.shootRef.namespace", g.namespace, shootEntry, seedEntry},
		{"spec.registrationRef.name", one.Name, onSeed, inShoot},
		{"spec.seedRef.name", seed.Name, onSeed, inShoot},
		{"spec.shootRef.name", moved.Name, inShoot, onSeed},
		{"spec.shootRef.namespace", g.namespace, inShoot, onSeed},
		{"spec.namespace", *project.Spec.Namespace, project, otherProject},
		{"type", "example.com/special", special, opaque},
		{"spec.shoot.name", host.Name, managed, otherManaged},
		{"metadata.name", parent.Name, parent, seed},
		{"metadata.name", g.profile.Name, g.profile, otherProfile},
		{"metadata.name", one.Name, one, two},
		{"metadata.namespace", g.namespace, g.binding, nil},
	} {
		gvk, err := apiutil.GVKForObject(tc.match, g.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		tried[gvk] = append(tried[gvk], tc.key)
		t.Run(gvk.Kind+" by "+tc.key+"="+tc.value, func(t *testing.T) {
			named := func(value string) []string {
				var found []string
				list, err := g.selected(gvk, tc.key, value)
				if err != nil {
					t.Fatal(err)
				}
				for _, item := range list.Items {
					found = append(found, item.GetNamespace()+"/"+item.GetName())
				}
				return found
			}
			key := func(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }
			found := named(tc.value)
			if !slices.Contains(found, key(tc.match)) {
				t.Errorf("found %v, not %s", found, key(tc.match))
			}
			if tc.other != nil && slices.Contains(found, key(tc.other)) {
				t.Errorf("found %s, which has another value", key(tc.other))
			}
			if found := named("nothing-is-called-so"); len(found) > 0 {
				t.Errorf("an unused value selects %v", found)
			}
		})
	}

	for gvk, keys := range tried {
		_, err := g.selected(gvk, "spec.unknown", "x")
		refuse(t, gvk.Kind+" by an unknown key", err, apierrors.IsBadRequest, "field label not supported: spec.unknown")
		if err == nil {
			continue
		}
		_, supported, _ := strings.Cut(err.Error(), "supported are ")
		for _, key := range keys {
			if !slices.Contains(strings.Split(supported, ", "), key) {
				t.Errorf("%s: the refusal names %q, not %s", gvk.Kind, supported, key)
			}
		}
	}
}

// selected lists a kind in all namespaces by one field.
func (g *garden) selected(gvk schema.GroupVersionKind, key, value string) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list, g.Client.List(g.ctx, list, client.MatchingFields{key: value})
}
