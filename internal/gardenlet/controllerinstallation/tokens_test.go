package controllerinstallation

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// TestTokenPolicy: an extension has tokens of its own ServiceAccounts, and nobody else has.
func TestTokenPolicy(t *testing.T) {
	installation := func(name, seed string) *corev1beta1.ControllerInstallation {
		i := &corev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{Name: name}}
		i.Spec.RegistrationRef.Name = "registration-of-" + name
		i.Spec.SeedRef = &corev1.ObjectReference{Name: seed}
		return i
	}
	namespace := func(name, role string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"gardener.cloud/role": role, "controllerregistration.core.gardener.cloud/name": "forged",
		}}}
	}
	policy := &TokenPolicy{
		Garden: gardenBuilder(t).WithObjects(installation("a", "blue"), installation("b", "blue"),
			installation("bare", "blue"), installation("elsewhere", "green")).Build(),
		Seed: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(namespace("extension-a", "extension"),
			namespace("extension-b", "extension"), namespace("extension-bare", "other"),
			namespace("extension-elsewhere", "extension"), namespace("extension-gone", "extension"),
			namespace("shoot--dev--a", "shoot"), namespace("garden", "garden"), namespace("a", "extension")).Build(),
		SeedName: "blue",
	}
	const needed = `must be the namespace of an extension: the label gardener.cloud/role=extension, ` +
		`and the name extension-<ControllerInstallation> with one of Seed "blue")`
	for name, tc := range map[string]struct {
		namespace, account string
		want               map[string]string
		err                string
	}{
		"its own": {namespace: "extension-a", account: "extension-a", want: map[string]string{
			"controllerregistration.core.gardener.cloud/name": "registration-of-a", "hortus.dev/requested-in": "extension-a",
		}},
		"another one of its own": {namespace: "extension-b", account: "extension-b.backup", want: map[string]string{
			"controllerregistration.core.gardener.cloud/name": "registration-of-b", "hortus.dev/requested-in": "extension-b",
		}},
		"that of another extension": {namespace: "extension-b", account: "extension-a",
			err: `"extension-a" (must be "extension-b", or begin with "extension-b.")`},
		"another one of another extension": {namespace: "extension-b", account: "extension-a.backup",
			err: `"extension-a.backup" (must be "extension-b", or begin with "extension-b.")`},
		"that of an extension with a longer name": {namespace: "extension-b", account: "extension-bare",
			err: `"extension-bare" (must be "extension-b", or begin with "extension-b.")`},
		"that of no extension": {namespace: "extension-a", account: "default",
			err: `"default" (must be "extension-a", or begin with "extension-a.")`},
		"none": {namespace: "extension-a", err: `"" (must be "extension-a", or begin with "extension-a.")`},
		"that of an extension, for a Shoot": {namespace: "shoot--dev--a", account: "extension-a",
			err: `"shoot--dev--a" (` + needed},
		"in the namespace garden": {namespace: "garden", account: "extension-a", err: `"garden" (` + needed},
		"in a namespace with the label alone": {namespace: "a", account: "a",
			err: `"a" (` + needed},
		"in a namespace with the name alone": {namespace: "extension-bare", account: "extension-bare",
			err: `"extension-bare" (` + needed},
		"in a namespace without an installation": {namespace: "extension-gone", account: "extension-gone",
			err: `"extension-gone" (` + needed},
		"installed in another seed": {namespace: "extension-elsewhere", account: "extension-elsewhere",
			err: `"extension-elsewhere" (` + needed},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "x"}}
			path := "metadata.namespace"
			if tc.namespace == "extension-a" || tc.namespace == "extension-b" {
				path = "metadata.annotations[" + resourcesv1alpha1.AnnotationServiceAccountName + "]"
			}
			if tc.account != "" {
				secret.Annotations = map[string]string{resourcesv1alpha1.AnnotationServiceAccountName: tc.account}
			}
			got, err := policy.Labels(t.Context(), secret)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			want := "<nil>"
			if tc.err != "" {
				want = "terminal error: " + path + ": unsupported value: " + tc.err
			}
			if fmt.Sprint(err) != want || err != nil && !errors.Is(err, reconcile.TerminalError(nil)) {
				t.Errorf("the error is %v, want %s", err, want)
			}
		})
	}
}

// TestAccountsEndWithTheExtension: all of its ServiceAccounts are deleted, and those of others stay, whatever their
// labels say.
func TestAccountsEndWithTheExtension(t *testing.T) {
	account := func(namespace, name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{resourcesv1alpha1.LabelRequestedIn: "extension-notice-blue"}}}
	}
	for name, tc := range map[string]struct {
		account *corev1.ServiceAccount
		kept    bool
	}{
		"its own":                     {account: account("seed-blue", "extension-notice-blue")},
		"another one of its own":      {account: account("seed-blue", "extension-notice-blue.backup")},
		"that of a longer name":       {account: account("seed-blue", "extension-notice-blue-2"), kept: true},
		"that of another extension":   {account: account("seed-blue", "extension-dns-blue"), kept: true},
		"in the namespace of another": {account: account("seed-green", "extension-notice-blue"), kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Garden: gardenBuilder(t).WithObjects(tc.account).Build(), SeedName: "blue"}
			if err := r.deleteAccounts(t.Context(), noticeInstallation); err != nil {
				t.Fatal(err)
			}
			err := r.Garden.Get(t.Context(), client.ObjectKeyFromObject(tc.account), tc.account)
			if got := err == nil; got != tc.kept || client.IgnoreNotFound(err) != nil {
				t.Errorf("the ServiceAccount is there: %t, want %t (error %v)", got, tc.kept, err)
			}
		})
	}
}

// gardenBuilder returns one for clients of the garden.
func gardenBuilder(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), corev1beta1.AddToScheme(scheme),
		corev1v1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme)
}

// TestInjectedTokens: the Secret for injected kubeconfigs gets a token while the deployment requests access, others
// always.
func TestInjectedTokens(t *testing.T) {
	for name, tc := range map[string]struct {
		inject *bool
		secret string
		want   error
	}{
		"requested":        {inject: ptr.To(true), secret: "garden-access-extension"},
		"not requested":    {secret: "garden-access-extension", want: errNotInjected},
		"not any more":     {inject: ptr.To(false), secret: "garden-access-extension", want: errNotInjected},
		"of its own chart": {secret: "garden-access-backup"},
		"of a chart, too":  {inject: ptr.To(true), secret: "garden-access-backup"},
	} {
		t.Run(name, func(t *testing.T) {
			installation := noticeInstallation.DeepCopy()
			installation.Spec.SeedRef = &corev1.ObjectReference{Name: "blue"}
			installation.Spec.DeploymentRef = &corev1.ObjectReference{Name: "d"}
			deployment := &corev1v1.ControllerDeployment{
				ObjectMeta: metav1.ObjectMeta{Name: "d"}, InjectGardenKubeconfig: tc.inject,
			}
			policy := &TokenPolicy{
				Garden: gardenBuilder(t).WithObjects(installation, deployment).Build(),
				Seed: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
					WithObjects(desiredNamespace(installation, noticeRegistration, &corev1beta1.Seed{})).Build(),
				SeedName: "blue",
			}
			_, err := policy.Labels(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: "extension-notice-blue", Name: tc.secret,
				Annotations: map[string]string{resourcesv1alpha1.AnnotationServiceAccountName: "extension-notice-blue"},
			}})
			if err != tc.want {
				t.Errorf("the error is %v, want %v", err, tc.want)
			}
		})
	}
}
