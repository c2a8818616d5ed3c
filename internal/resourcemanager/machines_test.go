package resourcemanager

import (
	"testing"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

// TestMachinesOnARealServer follows a machine from its first certificate to the end of its permissions, with the caches
// and watches of the real manager.
func TestMachinesOnARealServer(t *testing.T) {
	e := env.Shared(t)
	ctx := t.Context()
	namespace := e.Namespace(t, nil).Name
	start(t, e, namespace)
	name := env.Name("m-") + "-klmno" // The suffix determines the ID of the token, 6b6c6d.
	machine := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	e.Create(t, machine)

	// The request is created before the machine has its node.
	request := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("csr-")},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			Request:    certificateRequest(t, corev1beta1.KubeletUserPrefix+name, corev1beta1.KubeletsGroup),
		},
	}
	bootstrap := e.ClientAs(t, corev1beta1.BootstrapUserPrefix+"6b6c6d", corev1beta1.BootstrappersGroup, "system:masters")
	if err := bootstrap.Create(ctx, request); err != nil {
		t.Fatal(err)
	}
	machine.Labels = map[string]string{machinev1alpha1.NodeLabelKey: name}
	if err := e.Client.Update(ctx, machine); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the request is approved", func() (bool, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(request), request)
		return len(request.Status.Conditions) == 1 && request.Status.Conditions[0].Type == certificatesv1.CertificateApproved,
			err
	})

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	e.Create(t, node)
	meta := metav1.ObjectMeta{Name: "gardener.cloud:machine:" + name}
	role, binding := &rbacv1.ClusterRole{ObjectMeta: meta}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta}
	env.Eventually(t, "the role records the Node", func() (bool, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(role), role)
		return role.Annotations["worker.hortus.dev/node-uid"] == string(node.UID), err
	})

	// A user removes the label by which the cache selects the role, adds rules to it, and changes the binding.
	want := len(role.Rules)
	wider := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	role.Labels, role.Rules = nil, append(role.Rules, wider)
	if err := e.Client.Update(ctx, role); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Delete(ctx, binding); err != nil {
		t.Fatal(err)
	}
	foreign := binding.DeepCopy()
	foreign.ResourceVersion, foreign.UID = "", ""
	foreign.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	if err := e.Client.Create(ctx, foreign); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	env.Eventually(t, "the permissions are corrected", func() (bool, error) {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(role), role); err != nil {
			return false, err
		}
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(binding), binding)
		return len(role.Rules) == want && role.Labels["worker.hortus.dev/machine"] == name &&
			binding.RoleRef.Name == role.Name, err
	})

	// The machine is gone: its permissions stay as long as its Node, even if a new Node with the same name is created at
	// once.
	if err := e.Client.Delete(ctx, machine); err != nil {
		t.Fatal(err)
	}
	renewal := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("csr-")}, Spec: request.Spec,
	}
	renewal.Spec.Username, renewal.Spec.Groups, renewal.Spec.UID, renewal.Spec.Extra = "", nil, "", nil
	kubelet := e.ClientAs(t, corev1beta1.KubeletUserPrefix+name, corev1beta1.KubeletsGroup, "system:masters")
	if err := kubelet.Create(ctx, renewal); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Delete(ctx, node); err != nil {
		t.Fatal(err)
	}
	e.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	env.Eventually(t, "the rights are gone", func() (bool, error) {
		errRole := e.Client.Get(ctx, client.ObjectKeyFromObject(role), role)
		errBinding := e.Client.Get(ctx, client.ObjectKeyFromObject(binding), binding)
		return apierrors.IsNotFound(errRole) && apierrors.IsNotFound(errBinding), nil
	})
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(renewal), renewal); err != nil ||
		len(renewal.Status.Conditions) > 0 {
		t.Errorf("conditions of a request for a node without a machine: %v, error %v", renewal.Status.Conditions, err)
	}
}
