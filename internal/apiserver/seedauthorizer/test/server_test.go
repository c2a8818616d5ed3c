// Package test checks the seed authorizer behind a real kube-apiserver, which calls it as in production.
package test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/apiserver"
	"hortus.dev/hortus/internal/apiserver/admission/seedrestriction"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithSeedAuthorizer(), env.WithGardenAPI(func(o *apiserver.Options) {
		o.Tokens.Issuer, o.Tokens.KeyFile = "https://issuer.example.com",
			filepath.Join(filepath.Dir(o.Recommended.SecureServing.ServerCert.CertKey.CertFile), "tokens.key")
		if err := writeKey(o.Tokens.KeyFile); err != nil {
			panic(err)
		}
	}))
}

func writeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
	}), 0o600)
}

// side is one seed with its own project.
type side struct {
	gardenlet client.Client
	extension client.Client
	seed      *corev1beta1.Seed
	namespace string
	shoot     *corev1beta1.Shoot
	// credentials are the Seed's Secret.
	credentials *corev1.Secret
	// bastion leads to the Shoot.
	bastion *operationsv1alpha1.Bastion
	// managed makes another Shoot on the seed a Seed.
	managed *seedmanagementv1alpha1.ManagedSeed
	// self is what the gardenlet should be.
	self *seedmanagementv1alpha1.Gardenlet
}

type garden struct {
	*env.Environment
	t   *testing.T
	ctx context.Context
}

func gardenletOf(e *env.Environment, t *testing.T, seed string) client.Client {
	return e.ClientAs(t, corev1beta1.SeedUserPrefix+seed, corev1beta1.SeedsGroup)
}

func (g *garden) namespace(name string) {
	g.t.Helper()
	err := g.Client.Create(g.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		g.t.Fatal(err)
	}
}

func newSeed(name, secret string) *corev1beta1.Seed {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: secret}
	return &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: "local", Region: "local"},
		Networks: corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24", Nodes: ptr.To("10.1.0.0/24")},
		Ingress: &corev1beta1.Ingress{
			Domain: "ingress." + name + ".local.hortus.dev", Controller: corev1beta1.IngressController{Kind: "nginx"},
		},
		DNS: corev1beta1.SeedDNS{
			Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &ref},
			Internal: &corev1beta1.SeedDNSProviderConfig{
				Type: "local", Domain: "internal.local.hortus.dev", CredentialsRef: ref,
			},
			Defaults: []corev1beta1.SeedDNSProviderConfig{{Type: "local", Domain: "local.hortus.dev", CredentialsRef: ref}},
		},
	}}
}

func secretIn(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"k": []byte("v")},
	}
}

func (g *garden) newSide(profile string) *side {
	g.t.Helper()
	name := env.Name("seed-")
	s := &side{gardenlet: gardenletOf(g.Environment, g.t, name), namespace: *g.Project(g.t).Spec.Namespace}
	s.extension = g.ClientAs(g.t, "system:serviceaccount:seed-"+name+":extension-local", "system:serviceaccounts",
		"system:serviceaccounts:seed-"+name)
	g.namespace("seed-" + name)
	s.credentials = secretIn("garden", name+"-credentials")
	s.credentials.Annotations = map[string]string{seedrestriction.AnnotationSeeds: name}
	s.seed = newSeed(name, s.credentials.Name)
	s.shoot = g.newShoot(s.namespace, profile, name)
	g.Create(g.t, s.credentials)
	if err := s.gardenlet.Create(g.ctx, s.seed.DeepCopy()); err != nil {
		g.t.Fatalf("a gardenlet registers its Seed: %v", err)
	}
	g.t.Cleanup(func() { g.Client.Delete(context.Background(), s.seed) })
	g.Create(g.t, secretIn(s.namespace, "cloud"), secretIn(s.namespace, "unused"), &securityv1alpha1.CredentialsBinding{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.namespace, Name: "cloud"},
		Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
		CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "cloud", Namespace: s.namespace},
	}, s.shoot)
	s.bastion = newBastion(s.namespace, s.shoot.Name)
	g.Create(g.t, s.bastion)
	s.managed = g.newManagedSeed(profile, name)
	s.self = env.Gardenlet(g.t, s.seed)
	g.Create(g.t, s.self)
	return s
}

func newBastion(namespace, shoot string) *operationsv1alpha1.Bastion {
	bastion := &operationsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: env.Name("bastion-")},
		Spec: operationsv1alpha1.BastionSpec{
			ShootRef:     corev1.LocalObjectReference{Name: shoot},
			SSHPublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGykj8Nqmi5x5ifc7MlS0R1A8p1rxMWUWnIgmyNXuxVS",
			Ingress:      make([]operationsv1alpha1.BastionIngressPolicy, 1),
		}}
	bastion.Spec.Ingress[0].IPBlock.CIDR = "10.0.0.0/8"
	return bastion
}

// newManagedSeed makes a new Shoot on a seed a Seed.
func (g *garden) newManagedSeed(profile, seed string) *seedmanagementv1alpha1.ManagedSeed {
	g.t.Helper()
	shoot := g.newShoot(corev1beta1.GardenNamespace, profile, seed)
	shoot.Spec.CredentialsBindingName = &seed
	shoot.Spec.DNS = &corev1beta1.DNS{Domain: ptr.To(seed + ".example.org")}
	shoot.Spec.Kubernetes.VerticalPodAutoscaler = &corev1beta1.VerticalPodAutoscaler{Enabled: true}
	managed := &seedmanagementv1alpha1.ManagedSeed{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: "managed-by-" + seed},
		Spec:       seedmanagementv1alpha1.ManagedSeedSpec{Shoot: &seedmanagementv1alpha1.Shoot{Name: shoot.Name}},
	}
	managed.Spec.Gardenlet.Config = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "gardenlet.config.gardener.cloud/v1alpha1", "kind": "GardenletConfiguration", "seedConfig": {"spec": {"dns": {
		"provider": {"type": "local", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": "dns"}},
		"internal": {"type": "local", "domain": "internal.example.org", "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "namespace": "garden", "name": "dns"}}}}}}`)}
	g.Create(g.t, &securityv1alpha1.CredentialsBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: seed},
		Provider:   securityv1alpha1.CredentialsBindingProvider{Type: "local"},
		CredentialsRef: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Secret", Name: seed + "-credentials", Namespace: corev1beta1.GardenNamespace,
		},
	}, shoot, managed)
	return managed
}

func (g *garden) newShoot(namespace, profile, seed string) *corev1beta1.Shoot {
	return &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: env.Name("s")},
		Spec: corev1beta1.ShootSpec{
			CloudProfile: &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: profile}, Region: "local",
			SeedName:               &seed,
			CredentialsBindingName: ptr.To("cloud"), Networking: &corev1beta1.Networking{
				Type: ptr.To("bridge"), Pods: ptr.To("100.96.0.0/16"), Services: ptr.To("100.64.0.0/16"),
				Nodes: ptr.To("10.250.0.0/16"),
			},
			Provider: corev1beta1.Provider{
				Type: "local", Workers: []corev1beta1.Worker{
					{Name: "pool", Machine: corev1beta1.Machine{Type: "small"}, Minimum: 1, Maximum: 2},
				},
			},
		}}
}

// clientWith is authenticated by a token.
func clientWith(t *testing.T, e *env.Environment, token string) client.Client {
	t.Helper()
	config := rest.AnonymousClientConfig(e.Config)
	config.BearerToken = token
	c, err := client.New(config, client.Options{Scheme: e.Scheme, Mapper: e.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSeedsAreFenced(t *testing.T) {
	e := env.Shared(t)
	e.GardenRoles(t)
	g := &garden{e, t, t.Context()}
	for _, name := range []string{"garden", "gardener-system-seed-lease", "gardener-system-public"} {
		g.namespace(name)
	}
	profile := &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: env.Name("profile-")},
		Spec: corev1beta1.CloudProfileSpec{
			Type:       "local",
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{Version: "1.36.3"}}},
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
	e.Create(t, profile, secretIn("garden", "hortus-apiserver"))
	a, b := g.newSide(profile.Name), g.newSide(profile.Name)

	type request func(context.Context, client.Client) error
	get := func(o client.Object) request {
		return func(ctx context.Context, c client.Client) error {
			return client.IgnoreNotFound(c.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)))
		}
	}
	list := func(l client.ObjectList, opts ...client.ListOption) request {
		return func(ctx context.Context, c client.Client) error { return c.List(ctx, l, opts...) }
	}
	create := func(o client.Object) request {
		return func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll)
		}
	}
	patch := func(o client.Object, body string) request {
		return func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, o.DeepCopyObject().(client.Object),
				client.RawPatch("application/merge-patch+json", []byte(body)), client.DryRunAll)
		}
	}
	status := func(o client.Object, body string) request {
		return func(ctx context.Context, c client.Client) error {
			return c.Status().Patch(ctx, o.DeepCopyObject().(client.Object),
				client.RawPatch("application/merge-patch+json", []byte(body)))
		}
	}
	apply := func(o client.Object) request {
		return func(ctx context.Context, c client.Client) error {
			return kube.Apply(ctx, c, o.DeepCopyObject().(client.Object), "gardenlet")
		}
	}
	remove := func(o client.Object) request {
		return func(ctx context.Context, c client.Client) error {
			return client.IgnoreNotFound(c.Delete(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll))
		}
	}
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "gardener-system-seed-lease", Name: name}}
	}
	event := func(namespace string) *eventsv1.Event {
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: env.Name("event-")}, EventTime: metav1.NowMicro(),
			Type: "Normal", Reason: "Test", Action: "Test",
			ReportingController: "gardenlet", ReportingInstance: "gardenlet-0",
			Regarding: corev1.ObjectReference{Kind: "Shoot", Namespace: namespace, Name: "s"},
		}
	}
	label := func(s *side) client.ListOption {
		return client.MatchingLabels{corev1beta1.LabelPrefixSeedName + s.seed.Name: "true"}
	}
	configMap := func(namespace, name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	account := func(s *side, name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "seed-" + s.seed.Name, Name: name}}
	}
	token := func(o client.Object) request {
		return func(ctx context.Context, c client.Client) error {
			return c.SubResource("token").Create(ctx, o.DeepCopyObject().(client.Object), &authenticationv1.TokenRequest{})
		}
	}
	e.Create(t, account(a, "extension-local"), account(b, "extension-local"))
	note := `{"metadata":{"annotations":{"note":"x"}}}`
	env.Eventually(t, "the gardenlet may read the newest object", func() (bool, error) {
		err := errors.Join(get(a.bastion)(t.Context(), a.gardenlet), get(a.managed)(t.Context(), a.gardenlet))
		return err == nil, err
	})

	// Each request is sent as the gardenlet of a, for its own objects and for the other's.
	t.Run("gardenlets", func(t *testing.T) {
		for name, tc := range map[string]struct {
			own, other request
		}{
			"read Shoot":           {get(a.shoot), get(b.shoot)},
			"list Shoots by label": {list(&corev1beta1.ShootList{}, label(a)), list(&corev1beta1.ShootList{}, label(b))},
			"list Shoots by field": {
				list(&corev1beta1.ShootList{}, client.MatchingFields{"spec.seedName": a.seed.Name}),
				list(&corev1beta1.ShootList{}, client.MatchingFields{"spec.seedName": b.seed.Name}),
			},
			"list Shoots of a project": {nil, list(&corev1beta1.ShootList{}, client.InNamespace(a.namespace))},
			"list all Shoots":          {nil, list(&corev1beta1.ShootList{})},
			"change Shoot":             {patch(a.shoot, note), patch(b.shoot, note)},
			"report on Shoot": {
				status(a.shoot, `{"status":{"gardener":{"id":"i","name":"n","version":"v"}}}`),
				status(b.shoot, `{"status":{"gardener":{"id":"i","name":"n","version":"v"}}}`),
			},
			"delete Shoot": {nil, remove(a.shoot)},
			"claim a Secret": {
				nil,
				patch(a.shoot,
					`{"spec":{"resources":[{"name":"r","resourceRef":{"apiVersion":"v1","kind":"Secret","name":"unused"}}]}}`),
			},
			"read Seed": {get(a.seed), get(b.seed)},
			"list Seeds": {
				list(&corev1beta1.SeedList{}, client.MatchingFields{"metadata.name": a.seed.Name}), list(&corev1beta1.SeedList{}),
			},
			"change Seed": {patch(a.seed, note), patch(b.seed, note)},
			"change the Seed's Secret": {
				nil,
				patch(a.seed,
					`{"spec":{"dns":{"provider":{"credentialsRef":{"apiVersion":"v1","kind":"Secret","namespace":"garden","name":"hortus-apiserver"}}}}}`),
			},
			"register Seed":                     {nil, create(newSeed("stranger", a.credentials.Name))},
			"read credentials of Seed":          {get(a.credentials), get(b.credentials)},
			"read the garden's Secrets":         {nil, get(secretIn("garden", "hortus-apiserver"))},
			"read cloud credentials":            {get(secretIn(a.namespace, "cloud")), get(secretIn(b.namespace, "cloud"))},
			"read an object that nothing needs": {nil, get(secretIn(a.namespace, "unused"))},
			"list Secrets":                      {nil, list(&corev1.SecretList{}, client.InNamespace("seed-"+b.seed.Name))},
			"list Secrets of a project":         {nil, list(&corev1.SecretList{}, client.InNamespace(a.namespace))},
			"list all Secrets":                  {nil, list(&corev1.SecretList{})},
			"change cloud credentials":          {nil, patch(secretIn(a.namespace, "cloud"), note)},
			"read binding": {
				get(&securityv1alpha1.CredentialsBinding{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "cloud"}}),
				get(&securityv1alpha1.CredentialsBinding{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "cloud"}}),
			},
			"publish CA": {
				apply(configMap(a.namespace, a.shoot.Name+".ca-cluster")),
				apply(configMap(b.namespace, b.shoot.Name+".ca-cluster")),
			},
			"publish SSH key": {
				apply(secretIn(a.namespace, a.shoot.Name+".ssh-keypair")),
				apply(secretIn(b.namespace, b.shoot.Name+".ssh-keypair")),
			},
			"publish something":           {nil, apply(secretIn(a.namespace, "something"))},
			"create a Secret by its body": {nil, create(secretIn(a.namespace, a.shoot.Name+".ssh-keypair"))},
			"publish client CA": {
				apply(&corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{
					Namespace: a.namespace, Name: a.shoot.Name + ".ca-client",
				}, Type: corev1.SecretTypeOpaque}),
				apply(&corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{
					Namespace: b.namespace, Name: b.shoot.Name + ".ca-client",
				}, Type: corev1.SecretTypeOpaque}),
			},
			"read client CA": {get(&corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{
				Namespace: a.namespace, Name: a.shoot.Name + ".ca-client",
			}}),
				get(&corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{
					Namespace: b.namespace, Name: b.shoot.Name + ".ca-client",
				}})},
			"save state": {create(&corev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{
				Namespace: a.namespace, Name: a.shoot.Name,
			}}),
				create(&corev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: b.shoot.Name}})},
			"renew Lease":                {apply(lease(a.seed.Name)), apply(lease(b.seed.Name))},
			"create a Lease by its body": {nil, create(lease("stranger"))},
			"list Leases": {
				nil, list(&coordinationv1.LeaseList{}, client.InNamespace("gardener-system-seed-lease")),
			},
			"list installations": {list(&corev1beta1.ControllerInstallationList{},
				client.MatchingFields{"spec.seedRef.name": a.seed.Name}),
				list(&corev1beta1.ControllerInstallationList{}, client.MatchingFields{"spec.seedRef.name": b.seed.Name})},
			"list registrations": {list(&corev1beta1.ControllerRegistrationList{}), nil},
			"read profile":       {get(profile), nil},
			"change profile":     {nil, patch(profile, note)},
			"find project": {
				list(&corev1beta1.ProjectList{}, client.MatchingFields{"spec.namespace": a.namespace}),
				list(&corev1beta1.ProjectList{}, client.MatchingFields{"spec.namespace": b.namespace}),
			},
			"list projects": {nil, list(&corev1beta1.ProjectList{})},
			"record event":  {create(event(a.namespace)), create(event(b.namespace))},
			"read namespace": {
				get(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}),
				get(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}),
			},
			"read garden identity": {
				get(configMap("kube-system", "cluster-identity")),
				get(configMap("kube-system", "extension-apiserver-authentication")),
			},
			"account for extension":              {apply(account(a, "extension-new")), apply(account(b, "extension-new"))},
			"account for extension, by its body": {nil, create(account(a, "extension-new"))},
			"account that is no extension's":     {nil, apply(account(a, "operator"))},
			"account in a project": {nil, apply(&corev1.ServiceAccount{
				ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "extension-local"},
			})},
			"token for extension":          {token(account(a, "extension-local")), token(account(b, "extension-local"))},
			"token of another account":     {nil, token(account(a, "default"))},
			"delete account for extension": {remove(account(a, "extension-local")), remove(account(b, "extension-local"))},
			"delete another account":       {nil, remove(account(a, "default"))},
			"list accounts": {
				list(&corev1.ServiceAccountList{}, client.InNamespace("seed-"+a.seed.Name)),
				list(&corev1.ServiceAccountList{}, client.InNamespace("seed-"+b.seed.Name)),
			},
			"list all accounts": {nil, list(&corev1.ServiceAccountList{})},
			"read Bastion":      {get(a.bastion), get(b.bastion)},
			"list Bastions": {
				list(&operationsv1alpha1.BastionList{}, client.MatchingFields{"spec.seedName": a.seed.Name}),
				list(&operationsv1alpha1.BastionList{}, client.MatchingFields{"spec.seedName": b.seed.Name}),
			},
			"list Bastions of a project": {nil, list(&operationsv1alpha1.BastionList{}, client.InNamespace(a.namespace))},
			"take on Bastion": {
				patch(a.bastion, `{"metadata":{"finalizers":["gardener"]}}`),
				patch(b.bastion, `{"metadata":{"finalizers":["gardener"]}}`),
			},
			"report on Bastion": {
				status(a.bastion, `{"status":{"observedGeneration":1}}`), status(b.bastion, `{"status":{"observedGeneration":1}}`),
			},
			"open Bastion to the world": {nil, patch(a.bastion, `{"spec":{"ingress":[{"ipBlock":{"cidr":"0.0.0.0/0"}}]}}`)},
			"create Bastion":            {nil, create(newBastion(a.namespace, a.shoot.Name))},
			"delete Bastion":            {nil, remove(a.bastion)},
			"read ManagedSeed":          {get(a.managed), get(b.managed)},
			"list ManagedSeeds": {
				list(&seedmanagementv1alpha1.ManagedSeedList{}, label(a)),
				list(&seedmanagementv1alpha1.ManagedSeedList{}, label(b)),
			},
			"list all ManagedSeeds": {nil, list(&seedmanagementv1alpha1.ManagedSeedList{})},
			"take on ManagedSeed": {
				patch(a.managed, `{"metadata":{"finalizers":["gardener"]}}`),
				patch(b.managed, `{"metadata":{"finalizers":["gardener"]}}`),
			},
			"report on ManagedSeed": {
				status(a.managed, `{"status":{"observedGeneration":1}}`), status(b.managed, `{"status":{"observedGeneration":1}}`),
			},
			"change ManagedSeed": {nil, patch(a.managed, `{"spec":{"gardenlet":{"deployment":{"replicaCount":7}}}}`)},
			"delete ManagedSeed": {nil, remove(a.managed)},
			"read Gardenlet":     {get(a.self), get(b.self)},
			"read Gardenlet that does not exist": {func(ctx context.Context, _ client.Client) error {
				other := a.self.DeepCopy()
				other.Name = env.Name("seed-")
				return get(other)(ctx, gardenletOf(e, t, other.Name)) // It is allowed to find out.
			}, nil},
			"list Gardenlets": {
				list(&seedmanagementv1alpha1.GardenletList{}, client.MatchingFields{"metadata.name": a.seed.Name}),
				list(&seedmanagementv1alpha1.GardenletList{}, client.MatchingFields{"metadata.name": b.seed.Name}),
			},
			"list all Gardenlets": {nil, list(&seedmanagementv1alpha1.GardenletList{})},
			"report on Gardenlet": {
				status(a.self, `{"status":{"observedGeneration":1}}`), status(b.self, `{"status":{"observedGeneration":1}}`),
			},
			"change Gardenlet": {nil, patch(a.self, `{"spec":{"deployment":{"replicaCount":7}}}`)},
			"delete Gardenlet": {nil, remove(a.self)},
			"take over the garden": {
				nil, create(&rbacv1.ClusterRoleBinding{
					ObjectMeta: metav1.ObjectMeta{Name: "x"},
					RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				}),
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if tc.own != nil {
					if err := tc.own(t.Context(), a.gardenlet); err != nil {
						t.Errorf("its own: %v", err)
					}
				}
				if tc.other != nil {
					if err := tc.other(t.Context(), a.gardenlet); !apierrors.IsForbidden(err) {
						t.Errorf("objects of the other: %v", err)
					}
				}
			})
		}
	})

	t.Run("extensions", func(t *testing.T) {
		// Its token comes from the gardenlet, as in a seed.
		asked := &authenticationv1.TokenRequest{}
		if err := a.gardenlet.SubResource("token").Create(t.Context(), account(a, "extension-local"), asked); err != nil {
			t.Fatal(err)
		}
		extension := clientWith(t, e, asked.Status.Token)
		state := func(o *side) *corev1beta1.ShootState {
			return &corev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.shoot.Name}}
		}
		internal := &corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{
			Namespace: a.namespace, Name: a.shoot.Name + ".ca-client",
		}}
		for name, tc := range map[string]struct{ own, other request }{
			"read Seed": {get(a.seed), nil},
			"list Seeds": {
				list(&corev1beta1.SeedList{}, client.MatchingFields{"metadata.name": a.seed.Name}), nil,
			},
			"change Seed":              {nil, patch(a.seed, note)},
			"read Shoot":               {get(a.shoot), get(b.shoot)},
			"list Shoots":              {list(&corev1beta1.ShootList{}, label(a)), list(&corev1beta1.ShootList{}, label(b))},
			"all Shoots":               {nil, list(&corev1beta1.ShootList{})},
			"change Shoot":             {nil, patch(a.shoot, note)},
			"read state":               {get(state(a)), get(state(b))},
			"list states":              {nil, list(&corev1beta1.ShootStateList{}, client.InNamespace(a.namespace))},
			"change state":             {nil, patch(state(a), note)},
			"read Secret":              {nil, get(secretIn(a.namespace, "cloud"))},
			"read credentials of Seed": {nil, get(a.credentials)},
			"read SSH key":             {nil, get(secretIn(a.namespace, a.shoot.Name+".ssh-keypair"))},
			"read the garden's Secret": {nil, get(secretIn("garden", "hortus-apiserver"))},
			"list Secrets":             {nil, list(&corev1.SecretList{}, client.InNamespace("seed-"+a.seed.Name))},
			"read client CA":           {nil, get(internal)},
			"read binding": {
				get(&securityv1alpha1.CredentialsBinding{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "cloud"}}),
				get(&securityv1alpha1.CredentialsBinding{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "cloud"}}),
			},
			"read profile": {get(profile), nil},
			"read Bastion": {get(a.bastion), get(b.bastion)},
			"list Bastions": {
				list(&operationsv1alpha1.BastionList{}, client.MatchingFields{"spec.seedName": a.seed.Name}),
				list(&operationsv1alpha1.BastionList{}, client.MatchingFields{"spec.seedName": b.seed.Name}),
			},
			"change Bastion":        {nil, patch(a.bastion, `{"metadata":{"finalizers":["gardener"]}}`)},
			"read ManagedSeed":      {nil, get(a.managed)},
			"make account":          {nil, apply(account(a, "extension-other"))},
			"change account":        {nil, patch(account(a, "extension-local"), note)},
			"token":                 {nil, token(account(a, "extension-local"))},
			"record event":          {create(event("seed-" + a.seed.Name)), create(event("seed-" + b.seed.Name))},
			"record event on Shoot": {nil, create(event(a.namespace))},
			"certificate of gardenlet": {nil, get(&certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: "x"},
			})},
			"renew Lease of gardenlet": {nil, apply(lease(a.seed.Name))},
			"elect leaders": {create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Namespace: "seed-" + a.seed.Name, Name: "leader",
			}}), create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "seed-" + b.seed.Name, Name: "leader"}})},
		} {
			if tc.own != nil {
				if err := tc.own(t.Context(), extension); err != nil {
					t.Errorf("%s, its own: %v", name, err)
				}
			}
			if tc.other != nil {
				if err := tc.other(t.Context(), extension); !apierrors.IsForbidden(err) {
					t.Errorf("%s, not its own: %v", name, err)
				}
			}
		}
		// Its tokens end with its account.
		if err := a.gardenlet.Delete(t.Context(), account(a, "extension-local")); err != nil {
			t.Fatal(err)
		}
		env.Eventually(t, "the token is invalid", func() (bool, error) {
			err := get(a.shoot)(t.Context(), extension)
			return apierrors.IsUnauthorized(err), err
		})
	})

	t.Run("rights follow the Shoot", func(t *testing.T) {
		shoot := g.newShoot(b.namespace, profile.Name, a.seed.Name)
		e.Create(t, shoot)
		secret := secretIn(b.namespace, "cloud")
		if err := get(secret)(t.Context(), a.gardenlet); err != nil {
			t.Errorf("the Shoot's credentials: %v", err)
		}
		if err := get(secretIn(b.namespace, b.shoot.Name+".ssh-keypair"))(t.Context(),
			a.gardenlet); !apierrors.IsForbidden(err) {
			t.Errorf("a neighbour's key: %v", err)
		}
		for _, body := range []string{
			`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`,
			`{"metadata":{"finalizers":null}}`,
		} {
			if err := e.Client.Patch(t.Context(), shoot,
				client.RawPatch("application/merge-patch+json", []byte(body))); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Client.Delete(t.Context(), shoot); err != nil {
			t.Fatal(err)
		}
		env.Eventually(t, "the credentials are unreadable", func() (bool, error) {
			err := get(secret)(t.Context(), a.gardenlet)
			return apierrors.IsForbidden(err), err
		})
	})

	t.Run("tokens of WorkloadIdentities", func(t *testing.T) {
		identity := func(name string) *securityv1alpha1.WorkloadIdentity {
			return &securityv1alpha1.WorkloadIdentity{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name},
				Spec: securityv1alpha1.WorkloadIdentitySpec{
					Audiences: []string{"cloud"}, TargetSystem: securityv1alpha1.TargetSystem{Type: "local"},
				}}
		}
		needed, unused := identity("needed"), identity("unused")
		shoot := g.newShoot(a.namespace, profile.Name, a.seed.Name)
		shoot.Spec.CredentialsBindingName = ptr.To("identified")
		e.Create(t, needed, unused, &securityv1alpha1.CredentialsBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "identified"},
			Provider:   securityv1alpha1.CredentialsBindingProvider{Type: "local"},
			CredentialsRef: corev1.ObjectReference{
				APIVersion: "security.gardener.cloud/v1alpha1", Kind: "WorkloadIdentity", Name: needed.Name, Namespace: a.namespace,
			},
		}, shoot)
		ask := func(c client.Client, of client.Object) (string, error) {
			request := &securityv1alpha1.TokenRequest{}
			err := c.SubResource("token").Create(t.Context(), of, request)
			return request.Status.Token, err
		}
		if token, err := ask(a.gardenlet, needed); err != nil || token == "" {
			t.Errorf("an identity that a Shoot on the seed needs: token of %d bytes, %v", len(token), err)
		}
		for what, err := range map[string]error{
			"an identity that nothing needs": func() error { _, err := ask(a.gardenlet, unused); return err }(),
			"an identity of another seed":    func() error { _, err := ask(b.gardenlet, needed); return err }(),
			"an extension":                   func() error { _, err := ask(a.extension, needed); return err }(),
		} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})

	t.Run("other users are not reviewed", func(t *testing.T) {
		if err := get(secretIn("garden", "hortus-apiserver"))(t.Context(),
			e.ClientAs(t, "alice")); !apierrors.IsForbidden(err) {
			t.Errorf("a user without roles: %v", err)
		}
		if err := get(b.seed)(t.Context(), e.ClientAs(t, "alice")); err != nil {
			t.Errorf("a user reads a Seed: %v", err)
		}
	})
}
