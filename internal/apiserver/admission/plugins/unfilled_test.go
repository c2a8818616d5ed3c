package plugins

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// unfilled is a cache that must not be read yet.
type unfilled struct{ t *testing.T }

func (u unfilled) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	u.t.Errorf("reads %T %s from a cache that is not filled", object, key)
	return nil
}

func (u unfilled) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	u.t.Errorf("lists %T from a cache that is not filled", list)
	return nil
}

// empty is a server without objects.
type empty struct{}

func (empty) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (empty) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// waiting are the plugins whose decisions depend on cached objects, with the resources concerned.
var waiting = map[string]string{
	"ResourceReferenceManager":        "backupbuckets backupentries cloudprofiles controllerregistrations credentialsbindings projects secretbindings seeds shoots",
	"ExtensionValidator":              "backupbuckets seeds shoots",
	"ShootTolerationRestriction":      "shoots",
	"ShootExposureClass":              "shoots",
	"ShootDNS":                        "shoots",
	"ShootManagedSeed":                "shoots",
	"ShootResourceReservation":        "shoots",
	"ShootMutator":                    "shoots",
	"ShootValidator":                  "shoots",
	"ShootQuotaValidator":             "shoots",
	"NamespacedCloudProfileValidator": "namespacedcloudprofiles",
	"ExtensionLabels":                 "namespacedcloudprofiles",
	"SeedValidator":                   "seeds",
	"SeedMutator":                     "seeds",
	"ControllerRegistrationResources": "controllerregistrations",
	"DeletionConfirmation":            "shoots",
	"FinalizerRemoval":                "credentialsbindings secretbindings",
	"ManagedSeed":                     "managedseeds",
	"BackupBucketValidator":           "backupbuckets",
}

func TestNothingIsDecidedByCachesThatAreNotFilled(t *testing.T) {
	requests := map[string]func(string) client.Object{
		"backupbuckets": func(v string) client.Object {
			return &corev1beta1.BackupBucket{Spec: corev1beta1.BackupBucketSpec{
				SeedName: ptr.To(v), Provider: corev1beta1.BackupBucketProvider{Type: v},
			}}
		},
		"backupentries": func(v string) client.Object {
			return &corev1beta1.BackupEntry{Spec: corev1beta1.BackupEntrySpec{SeedName: ptr.To(v), BucketName: v}}
		},
		"bastions": func(string) client.Object {
			return &operationsv1alpha1.Bastion{}
		},
		"cloudprofiles": func(v string) client.Object {
			return &corev1beta1.CloudProfile{Spec: corev1beta1.CloudProfileSpec{Type: v}}
		},
		"controllerregistrations": func(v string) client.Object {
			return &corev1beta1.ControllerRegistration{
				Spec: corev1beta1.ControllerRegistrationSpec{Resources: []corev1beta1.ControllerResource{{
					Kind: "Worker", Type: v,
				}}},
			}
		},
		"credentialsbindings": func(v string) client.Object {
			return &securityv1alpha1.CredentialsBinding{Provider: securityv1alpha1.CredentialsBindingProvider{Type: v}}
		},
		"gardenlets": func(string) client.Object { return &seedmanagementv1alpha1.Gardenlet{} },
		"managedseeds": func(v string) client.Object {
			return &seedmanagementv1alpha1.ManagedSeed{
				Spec: seedmanagementv1alpha1.ManagedSeedSpec{Shoot: &seedmanagementv1alpha1.Shoot{Name: v}},
			}
		},
		"namespacedcloudprofiles": func(v string) client.Object {
			return &corev1beta1.NamespacedCloudProfile{
				Spec: corev1beta1.NamespacedCloudProfileSpec{Parent: corev1beta1.CloudProfileReference{Name: v}},
			}
		},
		"projects": func(v string) client.Object {
			return &corev1beta1.Project{Spec: corev1beta1.ProjectSpec{Namespace: ptr.To(v)}}
		},
		"secretbindings": func(v string) client.Object {
			return &corev1beta1.SecretBinding{Provider: &corev1beta1.SecretBindingProvider{Type: v}}
		},
		"seeds": func(v string) client.Object {
			seed := &corev1beta1.Seed{Spec: corev1beta1.SeedSpec{Backup: &corev1beta1.Backup{Provider: v}}}
			if v == "new" {
				seed.Spec.Resources = []corev1beta1.NamedResourceReference{{Name: v}}
			}
			return seed
		},
		"shoots": func(v string) client.Object {
			shoot := &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{
				SeedName: ptr.To(v), CloudProfile: &corev1beta1.CloudProfileReference{Name: v}, CredentialsBindingName: ptr.To(v),
				ExposureClassName: ptr.To(v),
				Provider: corev1beta1.Provider{
					Type: v, Workers: []corev1beta1.Worker{{Name: "pool", Maximum: int32(len(v))}},
				},
				DNS:         &corev1beta1.DNS{Domain: ptr.To(v + ".example.org")},
				Tolerations: []corev1beta1.Toleration{{Key: v}},
			}}
			shoot.Annotations = map[string]string{corev1beta1.AnnotationConfirmationDeletion: "true"}
			return shoot
		},
	}
	for _, plugin := range own {
		t.Run(plugin.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // Plugins wait for a while.
				made, err := plugin.make(nil)
				if err != nil {
					t.Fatal(err)
				}
				hortusadmission.NewInitializer(&hortusadmission.Objects{
					Cached: unfilled{t}, Live: empty{}, Garden: empty{}, Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(),
					Clock: clock.RealClock{},
				}).Initialize(made)
				refused := map[string]bool{}
				for resource, object := range requests {
					for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete} {
						if made.Handles(operation) && decidesLater(t, made, resource, operation, object) {
							refused[resource] = true
						}
					}
				}
				want := map[string]bool{}
				for _, resource := range strings.Fields(waiting[plugin.name]) {
					want[resource] = true
				}
				if diff := cmp.Diff(want, refused); diff != "" {
					t.Errorf("resources that wait for the caches (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// decidesLater reports whether a plugin has the client retry.
func decidesLater(
	t *testing.T, plugin admission.Interface, resource string, operation admission.Operation,
	object func(string) client.Object,
) bool {
	t.Helper()
	var now, old runtime.Object
	switch operation {
	case admission.Create:
		now = named(object("new"))
	case admission.Update:
		before := named(object("old"))
		before.SetFinalizers([]string{corev1beta1.FinalizerName})
		now, old = named(object("new")), before
	case admission.Delete:
		old = named(object("old"))
	}
	group := corev1beta1.GroupName
	if resource == "managedseeds" || resource == "gardenlets" {
		group = seedmanagementv1alpha1.GroupName
	}
	a := admission.NewAttributesRecord(now, old, schema.GroupVersionKind{Group: group}, corev1beta1.GardenNamespace, "x",
		schema.GroupVersionResource{Group: group, Resource: resource}, "", operation, nil, false,
		&user.DefaultInfo{Name: "alice"})
	var errs []error
	if mutating, ok := plugin.(admission.MutationInterface); ok {
		errs = append(errs, mutating.Admit(t.Context(), a, nil))
	}
	if validating, ok := plugin.(admission.ValidationInterface); ok {
		errs = append(errs, validating.Validate(t.Context(), a, nil))
	}
	later := false
	for _, err := range errs {
		later = later || apierrors.IsForbidden(err) &&
			strings.Contains(err.Error(), "the caches of admission are not filled yet; try again")
	}
	return later
}

func named(object client.Object) client.Object {
	object.SetNamespace(corev1beta1.GardenNamespace)
	object.SetName("x")
	return object
}
