package resourcereference

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

func named(name, kind, object string) corev1beta1.NamedResourceReference {
	return corev1beta1.NamedResourceReference{
		Name: name, ResourceRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: object},
	}
}

func show(refs []reference) []string {
	var list []string
	for _, ref := range refs {
		text := ref.path.String() + " " + ref.Kind + " " + ref.Namespace + "/" + ref.Name
		if ref.unread {
			text += " unread"
		}
		if ref.content != nil {
			text += fmt.Sprintf(" empty: %v, x: %v", ref.content(nil), ref.content(map[string][]byte{"kubeconfig": []byte("x")}))
		}
		list = append(list, text)
	}
	return list
}

func TestReferencesOfAShoot(t *testing.T) {
	shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "dev"}}
	shoot.Spec.Resources = []corev1beta1.NamedResourceReference{named("a", "Secret", "hook"), named("b", "ConfigMap", "b")}
	shoot.Spec.DNS = &corev1beta1.DNS{Providers: []corev1beta1.DNSProvider{
		{}, {CredentialsRef: &autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: "Secret", Name: "dns"}},
	}}
	shoot.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{
		AuditConfig: &corev1beta1.AuditConfig{
			AuditPolicy: &corev1beta1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: "audit"}},
		},
		StructuredAuthentication: &corev1beta1.StructuredAuthentication{ConfigMapName: "authn"},
		StructuredAuthorization: &corev1beta1.StructuredAuthorization{ConfigMapName: "authz",
			Kubeconfigs: []corev1beta1.AuthorizerKubeconfigReference{
				{AuthorizerName: "w", SecretName: "webhook"},
			}},
		AdmissionPlugins: []corev1beta1.AdmissionPlugin{{Name: "A"}, {
			Name: "B", KubeconfigSecretName: ptr.To("hook"),
		}, {Name: "C"}},
	}
	const (
		server = "spec.kubernetes.kubeAPIServer."
		empty  = ` empty: the Secret must have the key "kubeconfig", x: `
	)
	want := []string{
		"spec.resources[0].resourceRef Secret dev/hook", "spec.resources[1].resourceRef ConfigMap dev/b",
		"spec.dns.providers[1].credentialsRef Secret dev/dns",
		server + "auditConfig.auditPolicy.configMapRef.name ConfigMap dev/audit",
		server + "structuredAuthentication.configMapName ConfigMap dev/authn",
		server + "structuredAuthorization.configMapName ConfigMap dev/authz",
		server + "structuredAuthorization.kubeconfigs[0].secretName Secret dev/webhook" + empty +
			`key "kubeconfig" of the Secret cannot be read`,
		server + "admissionPlugins[1].kubeconfigSecretName Secret dev/hook" + empty + "<nil>",
	}
	if diff := cmp.Diff(want, show(namedByShoot(shoot, &corev1beta1.Shoot{}))); diff != "" {
		t.Errorf("of a new Shoot (-want +got):\n%s", diff)
	}
	if got := show(namedByShoot(shoot, shoot.DeepCopy())); len(got) > 0 {
		t.Errorf("of an unchanged Shoot: %v", got)
	}
	old := shoot.DeepCopy()
	old.Spec.Resources = old.Spec.Resources[:1]
	old.Spec.Kubernetes.KubeAPIServer.StructuredAuthentication = nil
	if diff := cmp.Diff([]string{want[1], want[4]}, show(namedByShoot(shoot, old))); diff != "" {
		t.Errorf("of a changed Shoot (-want +got):\n%s", diff)
	}
}

func TestReferencesOfASeed(t *testing.T) {
	seed := &corev1beta1.Seed{}
	seed.Spec.Resources = []corev1beta1.NamedResourceReference{named("a", "Secret", "a"), named("b", "ConfigMap", "b")}
	old := seed.DeepCopy()
	old.Spec.Resources = old.Spec.Resources[:1]
	if diff := cmp.Diff([]string{"spec.resources[1].resourceRef ConfigMap garden/b unread"},
		show(namedBySeed(seed, old))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBindingsFitTheirUsers(t *testing.T) {
	shoots := []corev1beta1.Shoot{{Spec: corev1beta1.ShootSpec{Provider: corev1beta1.Provider{Type: "local"}}}}
	for types, ok := range map[string]bool{"local": true, "aws,local": true, "aws": false} {
		if errs := otherProviders(types, shoots); (len(errs) == 0) != ok {
			t.Errorf("%s: %v", types, errs)
		}
	}
	identity := &securityv1alpha1.WorkloadIdentity{
		Spec: securityv1alpha1.WorkloadIdentitySpec{TargetSystem: securityv1alpha1.TargetSystem{Type: "local"}},
	}
	for provider, ok := range map[string]bool{"local": true, "aws": false} {
		if errs := otherTarget(identity, provider, field.NewPath("credentialsRef")); (len(errs) == 0) != ok {
			t.Errorf("identity for %s: %v", provider, errs)
		}
	}
}

func TestRefusedCredentials(t *testing.T) {
	b := ofSecretBinding(&corev1beta1.SecretBinding{
		SecretRef: corev1.SecretReference{Name: "s"}, Provider: &corev1beta1.SecretBindingProvider{Type: "local"},
	})
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "s", errors.New("no token"))
	if errs, err := refusedCopy(b, forbidden); err != nil || len(errs) != 1 || errs[0].Field != "secretRef" {
		t.Errorf("rejected by a webhook: %v, %v", errs, err)
	}
	if errs, err := refusedCopy(b, errors.New("no connection")); err == nil || len(errs) > 0 {
		t.Errorf("not asked: %v, %v", errs, err)
	}
	if errs, err := refusedCopy(b, nil); err != nil || len(errs) > 0 {
		t.Errorf("accepted: %v, %v", errs, err)
	}
}

func TestNamesOfImagesAreTaken(t *testing.T) {
	images := func(names ...string) []corev1beta1.MachineImage {
		var list []corev1beta1.MachineImage
		for _, name := range names {
			list = append(list, corev1beta1.MachineImage{Name: name})
		}
		return list
	}
	child := &corev1beta1.NamespacedCloudProfile{Spec: corev1beta1.NamespacedCloudProfileSpec{
		MachineImages: images("own", "os"),
	}}
	old := &corev1beta1.CloudProfileSpec{MachineImages: images("os")}
	added := addedImages(&corev1beta1.CloudProfileSpec{MachineImages: images("os", "new", "own")}, old)
	errs := takenByChild(added, child)
	if len(errs) != 1 || errs[0].Field != "spec.machineImages[2].name" {
		t.Errorf("%v", errs)
	}
}
