package controllermanager

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/controllermanager/extensionrole"
	"hortus.dev/hortus/internal/controllermanager/project/stale"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) { env.Main(m, env.WithGardenAPI()) }

// garden is a real API server with the complete controller-manager.
type garden struct {
	*env.Environment
	t   *testing.T
	ctx context.Context
}

func start(t *testing.T) *garden {
	t.Helper()
	e := env.Shared(t)
	for _, name := range []string{"garden", "gardener-system-seed-lease"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := e.Client.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := options{metricsAddress: "0", stale: stale.Default()}
	mgr, err := newManager(ctx, e.Config, o, clock.RealClock{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	return &garden{e, t, t.Context()}
}

func (g *garden) create(objects ...client.Object) {
	g.t.Helper()
	for _, o := range objects {
		if err := g.Client.Create(g.ctx, o); err != nil {
			g.t.Fatalf("create %T %s: %v", o, client.ObjectKeyFromObject(o), err)
		}
	}
}

func (g *garden) eventually(what string, o client.Object, holds func() bool) {
	g.t.Helper()
	env.Eventually(g.t, what, func() (bool, error) {
		if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return false, err
		}
		return holds(), fmt.Errorf("%T is %+v", o, o)
	})
}

func (g *garden) delete(o client.Object) {
	g.t.Helper()
	if err := g.Client.Patch(g.ctx, o, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`))); err != nil {
		g.t.Fatal(err)
	}
	if err := g.Client.Delete(g.ctx, o); err != nil {
		g.t.Fatalf("delete %T: %v", o, err)
	}
}

// awaitEvent waits for an event about an object.
func (g *garden) awaitEvent(o client.Object, reason string) {
	g.t.Helper()
	env.Eventually(g.t, fmt.Sprintf("event %s of %T %s", reason, o, o.GetName()), func() (bool, error) {
		list := &eventsv1.EventList{}
		if err := g.Client.List(g.ctx, list); err != nil {
			return false, err
		}
		var others []string
		for _, event := range list.Items {
			if event.Regarding.UID != o.GetUID() {
				continue
			}
			if event.Reason == reason {
				return true, nil
			}
			others = append(others, event.Reason)
		}
		return false, fmt.Errorf("events %v", others)
	})
}

func (g *garden) gone(o client.Object) {
	g.t.Helper()
	env.Eventually(g.t, fmt.Sprintf("%T %s is gone", o, client.ObjectKeyFromObject(o)), func() (bool, error) {
		err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err), fmt.Errorf("it has finalizers %v: %v", o.GetFinalizers(), err)
	})
}

func cloudProfile() *corev1beta1.CloudProfile {
	version := corev1beta1.ExpirableVersion{Version: "1.36.3"}
	return &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: env.Name("profile-")},
		Spec: corev1beta1.CloudProfileSpec{
			Type:       "local",
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{version}},
			MachineImages: []corev1beta1.MachineImage{{
				Name: "os", Versions: []corev1beta1.MachineImageVersion{
					{ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"}},
				},
			}},
			MachineTypes: []corev1beta1.MachineType{{
				Name: "small", CPU: resource.MustParse("1"), GPU: resource.MustParse("0"), Memory: resource.MustParse("2Gi"),
			}},
			Regions: []corev1beta1.Region{{Name: "local"}},
		}}
}

func TestControllerManagerOnARealServer(t *testing.T) {
	g := start(t)
	profile := cloudProfile()
	project := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: env.Name("p")}, Spec: corev1beta1.ProjectSpec{
		Members: []corev1beta1.ProjectMember{{
			Subject: rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "eve"}, Role: "viewer",
		}}}}
	g.create(profile, project)
	g.eventually("the project is ready", project, func() bool {
		return project.Status.Phase == corev1beta1.ProjectReady && project.Spec.Namespace != nil &&
			slices.Contains(project.Finalizers, "gardener")
	})
	namespace := *project.Spec.Namespace
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "gardener.cloud:system:project-viewer",
	}}
	g.eventually("eve is a viewer", binding,
		func() bool { return len(binding.Subjects) == 1 && binding.Subjects[0].Name == "eve" })

	child := &corev1beta1.NamespacedCloudProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "child"},
		Spec: corev1beta1.NamespacedCloudProfileSpec{
			Parent: corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: profile.Name},
			MachineTypes: []corev1beta1.MachineType{{
				Name: "large", CPU: resource.MustParse("8"), GPU: resource.MustParse("0"), Memory: resource.MustParse("16Gi"),
			}}}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cloud"}}
	quota := &corev1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "quota"},
		Spec: corev1beta1.QuotaSpec{
			Scope:   corev1.ObjectReference{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Project"},
			Metrics: corev1.ResourceList{"cpu": resource.MustParse("10")}}}
	g.create(child, secret, quota)
	credentials := &securityv1alpha1.CredentialsBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cloud"},
		Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
		CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: "cloud"},
		Quotas:         []corev1.ObjectReference{{Namespace: namespace, Name: "quota"}}}
	g.create(credentials)
	g.eventually("the project is active", project, func() bool { return project.Status.LastActivityTimestamp != nil })
	g.eventually("the child profile has its parent's machine types and its own", child, func() bool {
		return len(child.Status.CloudProfileSpec.MachineTypes) == 2 && child.Status.ObservedGeneration == child.Generation
	})
	g.eventually("the credentials are marked", secret, func() bool {
		return secret.Labels["reference.gardener.cloud/credentialsbinding"] == "true" &&
			secret.Labels["provider.shoot.gardener.cloud/local"] == "true" &&
			slices.Contains(secret.Finalizers, "gardener.cloud/credentialsbinding")
	})
	g.eventually("the quota is marked", quota,
		func() bool { return quota.Labels["reference.gardener.cloud/credentialsbinding"] == "true" })

	shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: env.Name("s")},
		Spec: corev1beta1.ShootSpec{
			CloudProfile: &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: profile.Name}, Region: "local",
			CredentialsBindingName: ptr.To("cloud"), Networking: &corev1beta1.Networking{
				Type: ptr.To("bridge"), Pods: ptr.To("100.96.0.0/16"), Services: ptr.To("100.64.0.0/16"),
				Nodes: ptr.To("10.250.0.0/16"),
			},
			Provider: corev1beta1.Provider{
				Type: "local", Workers: []corev1beta1.Worker{
					{Name: "pool", Machine: corev1beta1.Machine{Type: "small"}, Minimum: 1, Maximum: 2},
				},
			}}}
	g.create(shoot)
	g.eventually("the profile is protected", profile,
		func() bool { return slices.Contains(profile.Finalizers, "gardener") })
	g.eventually("the binding is protected", credentials,
		func() bool { return slices.Contains(credentials.Finalizers, "gardener") })
	g.eventually("the quota is protected", quota, func() bool { return slices.Contains(quota.Finalizers, "gardener") })

	for _, o := range []client.Object{credentials, quota, profile, project} {
		g.delete(o)
	}
	for o, reason := range map[client.Object]string{
		credentials: "ResourceReferenced", quota: "ResourceReferenced", profile: "ResourceReferenced",
		project: "NamespaceNotEmpty",
	} {
		g.awaitEvent(o, reason) // The controller has decided about the deletion.
		if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(o), o); err != nil {
			t.Errorf("%T %s was not protected: %v", o, o.GetName(), err)
		}
	}
	g.delete(shoot)
	if err := g.Client.Patch(g.ctx, shoot, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	g.gone(shoot)
	g.gone(credentials)
	g.gone(quota)
	g.eventually("the credentials are released", secret, func() bool {
		return len(secret.Labels) == 0 && !slices.Contains(secret.Finalizers, "gardener.cloud/credentialsbinding")
	})
	if err := g.Client.Delete(g.ctx, child); err != nil {
		t.Fatal(err)
	}
	g.gone(child)
	g.gone(profile)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	g.eventually("the namespace is being deleted", ns, func() bool { return ns.DeletionTimestamp != nil })
}

func newSeed() *corev1beta1.Seed {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "dns"}
	return &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: env.Name("seed-")}, Spec: corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: "local", Region: "local"},
		Networks: corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24", Nodes: ptr.To("10.1.0.0/24")},
		Ingress: &corev1beta1.Ingress{
			Domain: "ingress.local.hortus.dev", Controller: corev1beta1.IngressController{Kind: "nginx"},
		},
		DNS: corev1beta1.SeedDNS{
			Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &ref},
			Internal: &corev1beta1.SeedDNSProviderConfig{
				Type: "local", Domain: "internal.local.hortus.dev", CredentialsRef: ref,
			},
			Defaults: []corev1beta1.SeedDNSProviderConfig{{Type: "local", Domain: "local.hortus.dev", CredentialsRef: ref}},
		},
		Backup: &corev1beta1.Backup{Provider: "local", CredentialsRef: &ref},
	}}
}

// forExtension are a role of an operator and a ServiceAccount as gardenlets make it, for one extension.
func forExtension(registration, namespace string) (*rbacv1.ClusterRole, *corev1.ServiceAccount) {
	const label = "controllerregistration.core.gardener.cloud/name"
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
			Name: env.Name("extension-"), Labels: map[string]string{extensionrole.LabelCustom: "true"},
			Annotations: map[string]string{
				extensionrole.AnnotationSelector: fmt.Sprintf(`{"matchLabels":{%q:%q}}`, label, registration),
			},
		}}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "extension-x",
			Labels: map[string]string{label: registration, "hortus.dev/requested-in": "extension-x"},
		}}
}

func TestSeedsOnARealServer(t *testing.T) {
	g := start(t)
	deployment := &corev1beta1.ControllerDeployment{ObjectMeta: metav1.ObjectMeta{Name: env.Name("local-")}, Type: "helm"}
	deployment.ProviderConfig.Raw = []byte(`{"chart":"H4sIAAAAAAAA"}`)
	registration := &corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name},
		Spec: corev1beta1.ControllerRegistrationSpec{
			Resources: []corev1beta1.ControllerResource{{Kind: "DNSRecord", Type: "local"}},
			Deployment: &corev1beta1.ControllerRegistrationDeployment{
				DeploymentRefs: []corev1beta1.DeploymentRef{{Name: deployment.Name}},
			}}}
	seed := newSeed()
	if err := g.Client.Create(g.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "dns"},
	}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	g.create(deployment, registration, seed)
	condition := func(kind corev1beta1.ConditionType) corev1beta1.Condition {
		for _, c := range seed.Status.Conditions {
			if c.Type == kind {
				return c
			}
		}
		return corev1beta1.Condition{}
	}
	g.eventually("the seed waits for its bucket", seed, func() bool {
		return condition("BackupBucketsReady").Reason == "BackupBucketsMissing" &&
			slices.Contains(seed.Finalizers, "core.gardener.cloud/controllerregistration")
	})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "seed-" + seed.Name}}
	g.eventually("the seed's namespace is there", ns, func() bool { return ns.Labels["gardener.cloud/role"] == "seed" })

	installation := &corev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{
		Name: registration.Name + "-" + seed.Name,
	}}
	g.eventually("the extension has an installation", installation,
		func() bool { return installation.Spec.DeploymentRef.Name == deployment.Name })
	g.eventually("the registration is protected", registration, func() bool { return len(registration.Finalizers) == 1 })
	g.eventually("the deployment is protected", deployment, func() bool { return len(deployment.Finalizers) == 1 })

	// Another deployment of the extension reaches the seed, and the former one can be deleted.
	former := deployment
	deployment = &corev1beta1.ControllerDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("local-")}, Type: former.Type, ProviderConfig: former.ProviderConfig,
	}
	g.create(deployment)
	unchanged := registration.DeepCopy()
	registration.Spec.Deployment.DeploymentRefs[0].Name = deployment.Name
	if err := g.Client.Patch(g.ctx, registration, client.MergeFrom(unchanged)); err != nil {
		t.Fatal(err)
	}
	g.eventually("the installation refers to the new deployment", installation,
		func() bool { return installation.Spec.DeploymentRef.Name == deployment.Name })
	if err := g.Client.Delete(g.ctx, former); err != nil {
		t.Fatal(err)
	}
	g.gone(former)

	role, account := forExtension(registration.Name, ns.Name)
	g.create(role, account)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:extensions:" + role.Name}}
	g.eventually("the extension has the operator's role", binding, func() bool {
		return len(binding.Subjects) == 1 && binding.Subjects[0].Name == account.Name &&
			binding.Subjects[0].Namespace == ns.Name && binding.RoleRef.Name == role.Name
	})

	bucket := &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: string(seed.UID)},
		Spec: corev1beta1.BackupBucketSpec{
			Provider: corev1beta1.BackupBucketProvider{Type: "local", Region: "local"}, SeedName: &seed.Name,
			CredentialsRef: seed.Spec.Backup.CredentialsRef}}
	g.create(bucket)
	before := bucket.DeepCopy()
	bucket.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateSucceeded, Progress: 100,
		LastUpdateTime: metav1.Now(),
	}
	if err := g.Client.Status().Patch(g.ctx, bucket, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	g.eventually("the bucket is ready", seed,
		func() bool { return condition("BackupBucketsReady").Status == corev1beta1.ConditionTrue })

	// The last heartbeat is older than the grace period.
	renewed := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	g.create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gardener-system-seed-lease", Name: seed.Name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
	})
	g.eventually("the gardenlet is lost", seed, func() bool {
		return condition("GardenletReady").Status == corev1beta1.ConditionUnknown &&
			condition("BackupBucketsReady").Status == corev1beta1.ConditionTrue
	})

	for _, o := range []client.Object{registration, deployment, bucket} {
		if err := g.Client.Delete(g.ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	g.gone(installation)
	g.gone(binding)
	g.gone(registration)
	g.gone(deployment)
	if err := g.Client.Delete(g.ctx, seed); err != nil {
		t.Fatal(err)
	}
	g.gone(seed)
}
