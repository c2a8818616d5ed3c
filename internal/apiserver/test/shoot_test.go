package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	authenticationv1alpha1 "hortus.dev/hortus/api/authentication/v1alpha1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/pki"
)

func TestShootIsCompleted(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	g.Create(t, shoot)
	g.get(shoot)

	worker := shoot.Spec.Provider.Workers[0]
	got := map[string]any{
		"version":      shoot.Spec.Kubernetes.Version,
		"image":        worker.Machine.Image,
		"architecture": worker.Machine.Architecture,
		"generation":   shoot.Generation,
		"profileName":  shoot.Spec.CloudProfileName,
		"purpose":      shoot.Spec.Purpose,
		"strategy":     worker.UpdateStrategy,
		"rotation":     shoot.Spec.Maintenance.AutoRotation.Credentials.ETCDEncryptionKey.RotationPeriod.Duration,
		"tasks":        shoot.Annotations[corev1beta1.AnnotationShootTasks],
	}
	want := map[string]any{
		"version":      "1.36.3",
		"image":        &corev1beta1.ShootMachineImage{Name: "hortus-machine", Version: ptr.To("1.1.0")},
		"architecture": ptr.To("amd64"),
		"generation":   int64(1),
		"profileName":  &g.profile.Name,
		"purpose":      ptr.To(corev1beta1.ShootPurposeEvaluation),
		"strategy":     ptr.To(corev1beta1.AutoRollingUpdate),
		"rotation":     672 * time.Hour,
		"tasks":        "deployInfrastructure,deployDNSRecordInternal,deployDNSRecordExternal,deployDNSRecordIngress",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created Shoot (-want +got):\n%s", diff)
	}
	if shoot.Annotations[corev1beta1.AnnotationCreatedBy] == "" {
		t.Error("the creator is not recorded")
	}
	window := *shoot.Spec.Maintenance.TimeWindow
	g.get(shoot)
	if window != *shoot.Spec.Maintenance.TimeWindow {
		t.Error("the maintenance window changes between reads")
	}
}

func TestShootGeneration(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	g.Create(t, shoot)
	operation := func(state string) string {
		return `{"status":{"lastOperation":{"type":"Reconcile","state":"` + state +
			`","progress":1,"description":"","lastUpdateTime":"2030-01-01T00:00:00Z"}}}`
	}
	annotate := func(value string) string {
		return `{"metadata":{"annotations":{"gardener.cloud/operation":"` + value + `"}}}`
	}

	for _, step := range []struct {
		name, patch, subresource string
		bump                     bool
		annotation               string // Value of the operation annotation afterwards.
	}{
		{name: "a changed spec bumps", patch: `{"spec":{"purpose":"testing"}}`, bump: true},
		{name: "an unchanged spec does not bump", patch: `{"spec":{"purpose":"testing"}}`},
		{name: "labels do not bump", patch: `{"metadata":{"labels":{"a":"b"}}}`},
		{name: "an operation without a last operation waits", patch: annotate("reconcile"), annotation: "reconcile"},
		{name: "status does not bump", patch: operation("Processing"), subresource: "status", annotation: "reconcile"},
		{name: "reconcile bumps and is removed", patch: annotate("reconcile"), bump: true},
		{name: "maintain stays without a bump", patch: annotate("maintain"), annotation: "maintain"},
		{name: "a rotation bumps and stays", patch: annotate("rotate-observability-credentials"), bump: true,
			annotation: "rotate-observability-credentials"},
		{name: "the operation is removed", patch: `{"metadata":{"annotations":{"gardener.cloud/operation":null}}}`},
		{name: "a failed operation", patch: operation("Failed"), subresource: "status"},
		{name: "retry of a failed operation bumps and is removed", patch: annotate("retry"), bump: true},
		{name: "confined changes", patch: `{"spec":{"maintenance":{"confineSpecUpdateRollout":true}}}`},
		{name: "a confined change waits", patch: `{"spec":{"purpose":"development"}}`},
		{name: "hibernation does not wait", patch: `{"spec":{"hibernation":{"enabled":true}}}`, bump: true},
	} {
		before := shoot.Generation
		var subresource []string
		if step.subresource != "" {
			subresource = append(subresource, step.subresource)
		}
		g.mustPatch(shoot, step.patch, subresource...)
		if bumped := shoot.Generation > before; bumped != step.bump {
			t.Errorf("%s: generation %d -> %d", step.name, before, shoot.Generation)
		}
		if got := shoot.Annotations[corev1beta1.AnnotationOperation]; got != step.annotation {
			t.Errorf("%s: operation is %q, want %q", step.name, got, step.annotation)
		}
	}
	if shoot.Annotations[corev1beta1.AnnotationNeedsRetryOperation] == "" {
		t.Error("a confined change of a failed Shoot does not request a retry")
	}
}

func TestShootStatusAndSpecAreApart(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	shoot.Status.TechnicalID = "from-the-client"
	g.Create(t, shoot)
	if shoot.Status.TechnicalID != "" {
		t.Error("a client sets the status on creation")
	}
	g.mustPatch(shoot, `{"spec":{"purpose":"testing"},"status":{"technicalID":"x","seedName":"elsewhere"}}`, "status")
	if *shoot.Spec.Purpose != corev1beta1.ShootPurposeEvaluation || shoot.Status.TechnicalID != "x" {
		t.Errorf("after the status update: purpose %s, technicalID %q", *shoot.Spec.Purpose, shoot.Status.TechnicalID)
	}
	if shoot.Labels[corev1beta1.LabelPrefixSeedName+"elsewhere"] != "true" {
		t.Errorf("labels do not name the Seed of the status: %v", shoot.Labels)
	}
	g.mustPatch(shoot, `{"status":{"technicalID":"y"}}`)
	if shoot.Status.TechnicalID != "x" {
		t.Error("an update of the resource changes the status")
	}
	if err := g.patch(shoot, `{"status":{"technicalID":"y"}}`, "status"); !apierrors.IsInvalid(err) {
		t.Errorf("technicalID can be changed: %v", err)
	}
}

func TestShootBinding(t *testing.T) {
	g := newGarden(t)
	first, second := newSeed(), newSeed()
	tainted := newSeed()
	tainted.Spec.Taints = []corev1beta1.SeedTaint{{Key: "reserved"}}
	g.Create(t, first, second, tainted)
	shoot := g.newShoot()
	g.Create(t, shoot)

	bind := func(seed string) string { return `{"spec":{"seedName":"` + seed + `"}}` }
	if err := g.patch(shoot, bind(first.Name)); !apierrors.IsForbidden(err) {
		t.Errorf("a plain edit of seedName: %v", err)
	}
	if err := g.patch(shoot, bind(tainted.Name), "binding"); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "reserved") {
		t.Errorf("an untolerated taint: %v", err)
	}
	if err := g.patch(shoot, bind("nowhere"), "binding"); !apierrors.IsForbidden(err) {
		t.Errorf("a Seed that does not exist: %v", err)
	}
	g.mustPatch(shoot, bind(first.Name), "binding")
	if shoot.Generation != 2 || *shoot.Spec.Networking.Pods != "100.96.0.0/16" ||
		*shoot.Spec.Networking.Services != "100.64.0.0/16" {
		t.Errorf("bound Shoot: generation %d, networking %+v", shoot.Generation, shoot.Spec.Networking)
	}
	if want := shoot.Name + "." + strings.TrimPrefix(g.namespace, "garden-") +
		".local.hortus.dev"; *shoot.Spec.DNS.Domain != want {
		t.Errorf("domain is %s, want %s", *shoot.Spec.DNS.Domain, want)
	}
	if err := g.patch(shoot, `{"metadata":{"labels":{"a":"b"}}}`, "binding"); !apierrors.IsForbidden(err) {
		t.Errorf("binding that keeps the Seed: %v", err)
	}
	if err := g.patch(shoot, `{"spec":{"seedName":null}}`); !apierrors.IsForbidden(err) {
		t.Errorf("removing the Seed: %v", err)
	}
	g.mustPatch(shoot, bind(second.Name), "binding")
	if err := g.Client.Delete(g.ctx, second); !apierrors.IsForbidden(err) {
		t.Errorf("deletion of a Seed with Shoots: %v", err)
	}

	shoots := &corev1beta1.ShootList{}
	for selector, want := range map[string]int{"spec.seedName=" + second.Name: 1, "spec.seedName=" + first.Name: 0} {
		if err := g.Client.List(g.ctx, shoots,
			&client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: selector}}); err != nil || len(shoots.Items) != want {
			t.Errorf("list with %s: %d, %v", selector, len(shoots.Items), err)
		}
	}
	err := g.Client.List(g.ctx, shoots, client.MatchingFields{"spec.region": "local"})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "field label not supported: spec.region") {
		t.Errorf("unknown field selector: %v", err)
	}
}

func TestOneMoveAtATime(t *testing.T) {
	g := newGarden(t)
	shoot, first := g.placed()
	second, third := newSeed(), newSeed()
	third.Spec.Backup = nil
	third.Spec.Taints = []corev1beta1.SeedTaint{{Key: "reserved"}}
	g.Create(t, second, third)
	report := func(seed string, kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState) {
		g.mustPatch(shoot,
			fmt.Sprintf(`{"status":{"seedName":%q,"lastOperation":{"type":%q,"state":%q,"progress":100,"description":"","lastUpdateTime":"2026-01-01T00:00:00Z"}}}`, seed, kind, state), "status")
	}
	report(first.Name, corev1beta1.LastOperationTypeReconcile, corev1beta1.LastOperationStateSucceeded)
	for _, part := range []string{"metadata.annotations: nothing but", "spec.backup", `taint "reserved"`} {
		// All errors at once.
		err := g.patch(shoot,
			`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}},"spec":{"seedName":"`+third.Name+`"}}`,
			"binding")
		refuse(t, "a move for which much is wrong", err, apierrors.IsForbidden, part)
	}
	g.mustPatch(shoot, bind(second.Name), "binding")
	refuse(t, "a change", g.patch(shoot, `{"spec":{"purpose":"testing"}}`), apierrors.IsForbidden,
		"rescheduled to a new seed")
	refuse(t, "a third Seed", g.patch(shoot, bind(third.Name), "binding"), apierrors.IsForbidden, "cancel the move")
	g.mustPatch(shoot, bind(first.Name), "binding") // It is cancelled.
	g.mustPatch(shoot, `{"spec":{"purpose":"testing"}}`)
	g.mustPatch(shoot, bind(second.Name), "binding")
	report(first.Name, corev1beta1.LastOperationTypeMigrate, corev1beta1.LastOperationStateProcessing)
	refuse(t, "a third Seed", g.patch(shoot, bind(third.Name), "binding"), apierrors.IsForbidden, "(Migrate Processing)")
	g.mustPatch(shoot, `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`)
	refuse(t, "deletion", g.Client.Delete(g.ctx, shoot), apierrors.IsForbidden, "is being moved")
	g.mustPatch(shoot, bind(first.Name), "binding") // It is cancelled after it has begun.
	report(first.Name, corev1beta1.LastOperationTypeRestore, corev1beta1.LastOperationStateSucceeded)
	g.mustPatch(shoot, bind(second.Name), "binding")
	report(second.Name, corev1beta1.LastOperationTypeRestore, corev1beta1.LastOperationStateProcessing)
	refuse(t, "a move before it runs", g.patch(shoot, bind(first.Name), "binding"), apierrors.IsForbidden,
		"(Restore Processing)")
	report(second.Name, corev1beta1.LastOperationTypeRestore, corev1beta1.LastOperationStateSucceeded)
	g.mustPatch(shoot, bind(first.Name), "binding")
}

func TestShootRefusals(t *testing.T) {
	g := newGarden(t)
	for name, tc := range map[string]struct {
		change func(*corev1beta1.Shoot)
		is     func(error) bool
		text   string
	}{
		"unknown cloud profile": {
			func(s *corev1beta1.Shoot) { s.Spec.CloudProfile.Name = "none" }, apierrors.IsInternalError,
			"could not find referenced cloud profile"},
		"expired version": {
			func(s *corev1beta1.Shoot) { s.Spec.Kubernetes.Version = "1.34.0" }, apierrors.IsForbidden,
			"spec.kubernetes.version"},
		"unknown region": {
			func(s *corev1beta1.Shoot) { s.Spec.Region = "moon" }, apierrors.IsForbidden, "spec.region"},
		"unknown machine type": {
			func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers[0].Machine.Type = "huge" }, apierrors.IsForbidden,
			"spec.provider.workers[0].machine.type"},
		"unknown zone": {
			func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers[0].Zones = []string{"z"} }, apierrors.IsForbidden,
			"spec.provider.workers[0].zones[0]"},
		"unknown binding": {
			func(s *corev1beta1.Shoot) { s.Spec.CredentialsBindingName = ptr.To("none") }, apierrors.IsForbidden,
			"spec.credentialsBindingName"},
		"long name": {
			func(s *corev1beta1.Shoot) { s.Name = "a-name-that-is-too-long" }, apierrors.IsInvalid, "metadata.name"},
		"unknown namespace": {
			func(s *corev1beta1.Shoot) { s.Namespace = "nowhere" }, apierrors.IsNotFound, "nowhere"},
		"two profiles": {
			func(s *corev1beta1.Shoot) { s.Spec.CloudProfileName = ptr.To("other") }, apierrors.IsBadRequest,
			"different profiles"},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := g.newShoot()
			tc.change(shoot)
			if err := g.Client.Create(g.ctx, shoot); !tc.is(err) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDeletionNeedsConfirmation(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	shoot.Finalizers = []string{"test.hortus.dev/keep"}
	g.Create(t, shoot)
	if err := g.Client.Delete(g.ctx, shoot); !apierrors.IsForbidden(err) {
		t.Errorf("unconfirmed deletion: %v", err)
	}
	if err := g.Client.DeleteAllOf(g.ctx, shoot, client.InNamespace(g.namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("unconfirmed deletion of a collection: %v", err)
	}
	g.mustPatch(shoot,
		`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"1","deletion.gardener.cloud/confirmed-by":"somebody"}}}`)
	if by := shoot.Annotations[corev1beta1.AnnotationDeletionConfirmedBy]; by == "" || by == "somebody" {
		t.Errorf("confirmed by %q", by)
	}
	before := shoot.Generation
	if err := g.Client.Delete(g.ctx, shoot); err != nil {
		t.Fatalf("confirmed deletion: %v", err)
	}
	g.get(shoot)
	if shoot.DeletionTimestamp == nil || shoot.Generation != before+1 {
		t.Errorf("deleted Shoot: timestamp %v, generation %d -> %d", shoot.DeletionTimestamp, before, shoot.Generation)
	}
}

func TestOlderSpellings(t *testing.T) {
	g := newGarden(t)
	other := newProfile()
	g.Create(t, other)
	shoot := g.newShoot()
	shoot.Spec.CloudProfile, shoot.Spec.CloudProfileName = nil, &g.profile.Name
	g.Create(t, shoot)
	if want := (corev1beta1.CloudProfileReference{
		Kind: "CloudProfile", Name: g.profile.Name,
	}); *shoot.Spec.CloudProfile != want {
		t.Errorf("cloudProfile is %v, want %v", *shoot.Spec.CloudProfile, want)
	}
	// A profile of another hierarchy is rejected, which shows that the older spelling was parsed.
	if err := g.patch(shoot, `{"spec":{"cloudProfileName":"`+other.Name+`"}}`); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "spec.cloudProfile") {
		t.Errorf("changed older spelling: %v", err)
	}
}

// publishCA publishes the CA of a Shoot as its gardenlet does.
func (g *garden) publishCA(shoot *corev1beta1.Shoot) *pki.CA {
	g.t.Helper()
	ca, err := pki.NewCA("client", clock.RealClock{})
	if err != nil {
		g.t.Fatal(err)
	}
	g.Create(g.t,
		&corev1beta1.InternalSecret{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: shoot.Name + ".ca-client"},
			Data:       map[string][]byte{"ca.crt": ca.CertPEM, "ca.key": ca.KeyPEM},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: shoot.Name + ".ca-cluster"},
			Data:       map[string]string{"ca.crt": string(ca.CertPEM)},
		})
	return ca
}

func (g *garden) adminKubeconfig(as client.Client, shoot *corev1beta1.Shoot) ([]byte, error) {
	r := &authenticationv1alpha1.AdminKubeconfigRequest{}
	err := as.SubResource("adminkubeconfig").Create(g.ctx, shoot, r)
	return r.Status.Kubeconfig, err
}

func (g *garden) viewerKubeconfig(as client.Client, shoot *corev1beta1.Shoot) ([]byte, error) {
	r := &authenticationv1alpha1.ViewerKubeconfigRequest{}
	err := as.SubResource("viewerkubeconfig").Create(g.ctx, shoot, r)
	return r.Status.Kubeconfig, err
}

func TestKubeconfigRequests(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	g.Create(t, shoot)
	request := func(c client.Client, seconds *int64) (*authenticationv1alpha1.AdminKubeconfigRequest, error) {
		r := &authenticationv1alpha1.AdminKubeconfigRequest{
			Spec: authenticationv1alpha1.AdminKubeconfigRequestSpec{ExpirationSeconds: seconds},
		}
		return r, c.SubResource("adminkubeconfig").Create(g.ctx, shoot, r)
	}
	if _, err := request(g.Client, nil); !apierrors.IsInvalid(err) {
		t.Errorf("without an address: %v", err)
	}
	if _, err := request(g.Client, ptr.To[int64](10)); !apierrors.IsInvalid(err) {
		t.Errorf("too short a life: %v", err)
	}
	g.mustPatch(shoot,
		`{"status":{"advertisedAddresses":[{"name":"external","url":"https://api.example.com"},{"name":"internal","url":"https://api.internal.example.com"},{"name":"service-account-issuer","url":"https://issuer.example.com"}]}}`, "status")
	g.publishCA(shoot)
	answer, err := request(g.Client, ptr.To[int64](1<<31))
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(answer.Status.ExpirationTimestamp.Time); left > 24*time.Hour || left < 23*time.Hour {
		t.Errorf("credentials live for %s", left)
	}
	config, err := clientcmd.Load(answer.Status.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	prefix := g.namespace + "--" + shoot.Name + "-"
	if config.CurrentContext != prefix+"external" || len(config.Clusters) != 2 ||
		config.Clusters[prefix+"internal"].Server != "https://api.internal.example.com" {
		t.Errorf("kubeconfig:\n%s", answer.Status.Kubeconfig)
	}
	cert, err := pki.ParseCert(config.AuthInfos[prefix+"external"].ClientCertificateData)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"gardener.cloud:system:admins"}, cert.Subject.Organization); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if _, err := request(g.ClientAs(t, "nobody"), nil); !apierrors.IsForbidden(err) {
		t.Errorf("the request of a user without a role: %v", err)
	}
}
