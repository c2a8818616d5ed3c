package seedrestriction

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/apiserver/seedauthorizer"
)

func TestGardenletWritesOnlyItsOwn(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "garden-dev", Name: name} }
	shoot := func(spec, status string) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{ObjectMeta: meta("shoot")}
		if spec != "" {
			s.Spec.SeedName = &spec
		}
		if status != "" {
			s.Status.SeedName = &status
		}
		return s
	}
	entry := func(spec, status string) *corev1beta1.BackupEntry {
		return &corev1beta1.BackupEntry{
			Spec:   corev1beta1.BackupEntrySpec{SeedName: &spec, BucketName: "readable"},
			Status: corev1beta1.BackupEntryStatus{SeedName: &status},
		}
	}
	installation := func(seed string) *corev1beta1.ControllerInstallation {
		return &corev1beta1.ControllerInstallation{
			Spec: corev1beta1.ControllerInstallationSpec{SeedRef: &corev1.ObjectReference{Name: seed}},
		}
	}
	secret := func(name, seeds string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden", Name: name, Annotations: map[string]string{AnnotationSeeds: seeds},
		}}
	}
	seedWith := func(credentials string) *corev1beta1.Seed {
		return &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "mine"},
			Spec: corev1beta1.SeedSpec{Backup: &corev1beta1.Backup{
				CredentialsRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: credentials}}}}
	}
	shootWith := func(resource string) *corev1beta1.Shoot {
		s := shoot("mine", "mine")
		if resource != "" {
			s.Spec.Resources = []corev1beta1.NamedResourceReference{{
				Name: "r", ResourceRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: "Secret", Name: resource},
			}}
		}
		return s
	}
	bucket := func(seed, secret string) *corev1beta1.BackupBucket {
		return &corev1beta1.BackupBucket{Spec: corev1beta1.BackupBucketSpec{
			SeedName: &seed, CredentialsRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: secret,
			},
		}}
	}
	inBucket := func(name string) *corev1beta1.BackupEntry {
		e := entry("mine", "mine")
		e.Spec.BucketName = name
		return e
	}
	deploying := func(deployment string) *corev1beta1.ControllerInstallation {
		i := installation("mine")
		i.Spec.DeploymentRef = &corev1.ObjectReference{Name: deployment}
		return i
	}
	managed := func(leaving bool) *seedmanagementv1alpha1.ManagedSeed {
		m := &seedmanagementv1alpha1.ManagedSeed{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "mine"}}
		if leaving {
			m.Finalizers, m.DeletionTimestamp = []string{corev1beta1.FinalizerName}, &metav1.Time{Time: time.Unix(1, 0)}
		}
		return m
	}
	gardenlet := &user.DefaultInfo{
		Name: "gardener.cloud:system:seed:mine", Groups: []string{"gardener.cloud:system:seeds"},
	}

	for name, tc := range map[string]struct {
		caller      user.Info
		operation   admission.Operation
		subresource string
		object, old runtime.Object
		managed     *seedmanagementv1alpha1.ManagedSeed // Of the Seed; nil if there is none.
		allowed     bool
	}{
		"other users are not restricted": {
			caller: &user.DefaultInfo{Name: "alice"}, operation: admission.Create, object: &corev1beta1.CloudProfile{},
			allowed: true,
		},
		"the name alone is not sufficient": {
			caller: &user.DefaultInfo{Name: gardenlet.Name}, operation: admission.Create, object: &corev1beta1.CloudProfile{},
			allowed: true,
		},
		"its own Seed": {
			operation: admission.Create, object: &corev1beta1.Seed{ObjectMeta: meta("mine")}, allowed: true,
		},
		"its own Seed, which is managed": {
			operation: admission.Create, object: &corev1beta1.Seed{ObjectMeta: meta("mine")}, managed: managed(false),
			allowed: true,
		},
		"a new Seed whose ManagedSeed is being deleted": {
			operation: admission.Create, object: &corev1beta1.Seed{ObjectMeta: meta("mine")}, managed: managed(true),
		},
		"its Seed while its ManagedSeed is being deleted": {
			operation: admission.Update, object: &corev1beta1.Seed{ObjectMeta: meta("mine")},
			old: &corev1beta1.Seed{ObjectMeta: meta("mine")}, managed: managed(true), allowed: true,
		},
		"another Seed": {
			operation: admission.Update, object: &corev1beta1.Seed{ObjectMeta: meta("other")},
			old: &corev1beta1.Seed{ObjectMeta: meta("other")},
		},
		"a Shoot placed on it": {
			operation: admission.Update, object: shoot("mine", ""), old: shoot("mine", ""), allowed: true,
		},
		"a Shoot that leaves it": {
			operation: admission.Update, object: shoot("other", "mine"), old: shoot("other", "mine"), allowed: true,
		},
		"a Shoot that it takes over": {
			operation: admission.Update, object: shoot("mine", "mine"), old: shoot("mine", "other"), allowed: true,
		},
		"a Shoot that it binds to another Seed": {
			operation: admission.Update, object: shoot("mine", "other"), old: shoot("mine", "mine"),
		},
		"a Shoot that it hands over": {
			operation: admission.Update, object: shoot("other", "other"), old: shoot("other", "mine"), allowed: true,
		},
		"a Shoot that it releases": {
			operation: admission.Update, object: shoot("other", ""), old: shoot("other", "mine"), allowed: true,
		},
		"a Shoot that it hands to a third Seed": {
			operation: admission.Update, object: shoot("other", "third"), old: shoot("other", "mine"),
		},
		"a Shoot whose status it clears": {
			operation: admission.Update, object: shoot("mine", ""), old: shoot("mine", "mine"),
		},
		"a Shoot of another Seed": {
			operation: admission.Update, object: shoot("other", "other"), old: shoot("other", "other"),
		},
		"a Shoot that it grabs": {
			operation: admission.Update, object: shoot("other", "mine"), old: shoot("other", "other"),
		},
		"the binding of its Shoot": {
			operation: admission.Update, subresource: "binding", object: shoot("other", "mine"), old: shoot("mine", "mine"),
		},
		"a new Shoot":               {operation: admission.Create, object: shoot("mine", "")},
		"the deletion of its Shoot": {operation: admission.Delete, old: shoot("mine", "mine")},
		"its bucket": {
			operation: admission.Create, object: &corev1beta1.BackupBucket{
				Spec: corev1beta1.BackupBucketSpec{SeedName: ptr.To("mine")},
			}, allowed: true,
		},
		"a bucket of another": {
			operation: admission.Delete, old: &corev1beta1.BackupBucket{
				Spec: corev1beta1.BackupBucketSpec{SeedName: ptr.To("other")},
			},
		},
		"a backup entry that leaves it": {
			operation: admission.Update, object: entry("other", "mine"), old: entry("mine", "mine"), allowed: true,
		},
		"a backup entry of another": {
			operation: admission.Update, object: entry("mine", "mine"), old: entry("other", "other"),
		},
		"its installation": {
			operation: admission.Update, object: installation("mine"), old: installation("mine"), allowed: true,
		},
		"an installation of another": {
			operation: admission.Update, object: installation("mine"), old: installation("other"),
		},
		"a bucket given away": {
			operation: admission.Update, object: bucket("other", "readable"), old: bucket("mine", "readable"),
		},
		"a new Seed with credentials offered to it": {
			operation: admission.Create, object: seedWith("offered"), allowed: true,
		},
		"a new Seed with credentials offered to all": {
			operation: admission.Create, object: seedWith("offered-to-all"), allowed: true,
		},
		"a new Seed with credentials of another":  {operation: admission.Create, object: seedWith("offered-to-other")},
		"a new Seed with credentials not offered": {operation: admission.Create, object: seedWith("hidden")},
		"a new Seed with missing credentials":     {operation: admission.Create, object: seedWith("missing")},
		"its Seed with its credentials": {
			operation: admission.Update, object: seedWith("hidden"), old: seedWith("hidden"), allowed: true,
		},
		"its Seed with other credentials": {
			operation: admission.Update, object: seedWith("hidden"), old: seedWith("offered"),
		},
		"its Shoot with an additional Secret": {
			operation: admission.Update, object: shootWith("hidden"), old: shootWith(""),
		},
		"its Shoot with one Secret less": {
			operation: admission.Update, object: shootWith(""), old: shootWith("hidden"), allowed: true,
		},
		"its Shoot with a Secret it reads already": {
			operation: admission.Update, object: shootWith("readable"), old: shootWith(""), allowed: true,
		},
		"its bucket with credentials it reads": {
			operation: admission.Create, object: bucket("mine", "readable"), allowed: true,
		},
		"its bucket with credentials it cannot read": {operation: admission.Create, object: bucket("mine", "offered")},
		"its entry in a bucket it reads": {
			operation: admission.Create, object: inBucket("readable"), allowed: true,
		},
		"its entry in a bucket it cannot read": {
			operation: admission.Update, object: inBucket("hidden"), old: inBucket("readable"),
		},
		"its installation of another extension": {
			operation: admission.Update, object: deploying("readable-2"), old: deploying("readable"),
		},
		"the state of its Shoot": {
			operation: admission.Create, object: &corev1beta1.ShootState{ObjectMeta: meta("here")}, allowed: true,
		},
		"the state of another's Shoot": {
			operation: admission.Create, object: &corev1beta1.ShootState{ObjectMeta: meta("there")},
		},
		"the client CA of its Shoot": {
			operation: admission.Create, object: &corev1beta1.InternalSecret{ObjectMeta: meta("here.ca-client")}, allowed: true,
		},
		"the client CA of another's Shoot": {
			operation: admission.Create, object: &corev1beta1.InternalSecret{ObjectMeta: meta("there.ca-client")},
		},
		"an internal secret that belongs to no Shoot": {
			operation: admission.Create, object: &corev1beta1.InternalSecret{ObjectMeta: meta("here")},
		},
		"a project": {operation: admission.Update, object: &corev1beta1.Project{}, old: &corev1beta1.Project{}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(corev1beta1.AddToScheme(scheme), seedmanagementv1alpha1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			here, there := shoot("mine", "mine"), shoot("other", "other")
			here.Name, there.Name = "here", "there"
			p := &plugin{Base: hortusadmission.NewBase(admission.Create),
				mayRead: func(_ context.Context, seed string, ref seedauthorizer.Ref) bool {
					return seed == "mine" && strings.HasPrefix(ref.Name, "readable") || ref.Kind == seedauthorizer.Namespace ||
						ref.Kind == seedauthorizer.Seed
				}}
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(here, there)
			if tc.managed != nil {
				live.WithObjects(tc.managed)
			}
			p.Objects = &hortusadmission.Objects{
				Live: live.Build(),
				Garden: fake.NewClientBuilder().WithObjects(secret("offered", "other, mine"), secret("offered-to-all", "*"),
					secret("offered-to-other", "other"), secret("hidden", "")).Build(),
			}
			if tc.caller == nil {
				tc.caller = gardenlet
			}
			a := admission.NewAttributesRecord(tc.object, tc.old, schema.GroupVersionKind{}, "garden-dev", "x",
				schema.GroupVersionResource{Resource: "things"}, tc.subresource, tc.operation, nil, false, tc.caller)
			if err := p.Validate(t.Context(), a, nil); (err == nil) != tc.allowed {
				t.Errorf("allowed %t, got %v", tc.allowed, err)
			}
		})
	}
}
