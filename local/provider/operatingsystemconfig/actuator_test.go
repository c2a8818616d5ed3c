package operatingsystemconfig

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/local/machineinit"
)

func TestUserDataIsWhatTheMachineReads(t *testing.T) {
	ctx := context.Background()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(extensionsv1alpha1.AddToScheme(scheme))
	binary := []byte{0xff, 0xfe, 0x00}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"},
		Data:       map[string][]byte{"text": []byte("from secret"), "binary": binary},
	}).Build()
	osc := &extensionsv1alpha1.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "pool-init", UID: "u",
	}}
	osc.Spec.Purpose = extensionsv1alpha1.OperatingSystemConfigPurposeProvision
	osc.Spec.Files = []extensionsv1alpha1.File{
		{Path: "/token", Permissions: ptr.To(uint32(0o600)), Content: extensionsv1alpha1.FileContent{
			Inline: &extensionsv1alpha1.FileContentInline{Data: "<<BOOTSTRAP_TOKEN>>\n"}, TransmitUnencoded: ptr.To(true),
		}},
		{Path: "/b64", Content: extensionsv1alpha1.FileContent{
			Inline: &extensionsv1alpha1.FileContentInline{Encoding: "b64", Data: "aGVsbG8="},
		}},
		{Path: "/text", Content: extensionsv1alpha1.FileContent{
			SecretRef: &extensionsv1alpha1.FileContentSecretRef{Name: "s", DataKey: "text"},
		}},
		{Path: "/binary", Content: extensionsv1alpha1.FileContent{
			SecretRef: &extensionsv1alpha1.FileContentSecretRef{Name: "s", DataKey: "binary"},
		}},
	}
	osc.Spec.Units = []extensionsv1alpha1.Unit{{
		Name: "a.service", Command: ptr.To(extensionsv1alpha1.CommandStart), Enable: ptr.To(true),
		Content: ptr.To("[Service]\nExecStart=/a\n"),
		DropIns: []extensionsv1alpha1.DropIn{{Name: "10.conf", Content: "[Service]\nRestart=always\n"}},
	}}
	if _, err := (&Actuator{Client: c}).Reconcile(ctx, osc, nil); err != nil {
		t.Fatal(err)
	}
	if osc.Status.CloudConfig == nil || osc.Status.CloudConfig.SecretRef.Name != "osc-result-pool-init" {
		t.Fatalf("cloudConfig is %+v", osc.Status.CloudConfig)
	}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "osc-result-pool-init"}, secret); err != nil {
		t.Fatal(err)
	}
	data := secret.Data[extensionsv1alpha1.OperatingSystemConfigSecretDataKey]
	if !strings.Contains(string(data), "<<BOOTSTRAP_TOKEN>>") {
		t.Errorf("the placeholder is not readable in the user data:\n%s", data)
	}
	parsed, err := machineinit.ParseUserData(data)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range parsed.Files {
		content, err := f.Content.Inline.Decode()
		if err != nil {
			t.Fatal(err)
		}
		got[f.Path] = string(content)
	}
	want := map[string]string{
		"/token": "<<BOOTSTRAP_TOKEN>>\n", "/b64": "hello", "/text": "from secret", "/binary": string(binary),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files mismatch (-want +got):\n%s", diff)
	}
	if p := parsed.Files[0].Permissions; p == nil || *p != 0o600 {
		t.Errorf("permissions are %v, want 0600", p)
	}
	unit := parsed.Units[0]
	if unit.Name != "a.service" || ptr.Deref(unit.Content, "") != "[Service]\nExecStart=/a\n" || len(unit.DropIns) != 1 ||
		ptr.Deref(unit.Command, "") != "start" {
		t.Errorf("unit is %+v", unit)
	}
}

func TestFilesFromImagesAreRefused(t *testing.T) {
	osc := &extensionsv1alpha1.OperatingSystemConfig{}
	osc.Spec.Purpose = extensionsv1alpha1.OperatingSystemConfigPurposeProvision
	osc.Spec.Files = []extensionsv1alpha1.File{{
		Path: "/x", Content: extensionsv1alpha1.FileContent{
			ImageRef: &extensionsv1alpha1.FileContentImageRef{Image: "i", FilePathInImage: "/x"},
		},
	}}
	if _, err := (&Actuator{}).Reconcile(context.Background(), osc, nil); err == nil {
		t.Error("Reconcile() accepts a file that a machine cannot have before its first boot")
	}
}
