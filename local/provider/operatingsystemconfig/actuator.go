// Package operatingsystemconfig acts on OperatingSystemConfigs for the machine image of this project: it renders the
// user data that the image's init reads at the first boot.
package operatingsystemconfig

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/local/provider/containerruntime"
)

// Type is the name of the machine image, which is the type of OperatingSystemConfigs.
const Type = "hortus-machine"

const (
	// header marks user data for the init.
	header = "#hortus-machine-config\n"

	secretPrefix       = "osc-result-"
	defaultPermissions = 0o644
)

// Actuator acts on OperatingSystemConfigs.
type Actuator struct {
	Client client.Client
}

var _ extension.Actuator[*extensionsv1alpha1.OperatingSystemConfig] = &Actuator{}

// Reconcile renders the user data of purpose provision. Purpose reconcile is for the node agent; the image needs only
// the SSH server in addition, and gVisor in pools that request it.
func (a *Actuator) Reconcile(
	ctx context.Context, osc *extensionsv1alpha1.OperatingSystemConfig, cluster *extension.Cluster,
) (extension.Result, error) {
	if osc.Spec.Purpose != extensionsv1alpha1.OperatingSystemConfigPurposeProvision {
		osc.Status.InPlaceUpdates = inPlaceUpdate(osc.Spec.InPlaceUpdates)
		files, units := sshServer(&osc.Spec)
		if containerruntime.OfPool(cluster.Shoot, osc.Labels[corev1beta1.LabelWorkerPool]) {
			moreFiles, moreUnits := containerruntime.OnMachines()
			files, units = append(files, moreFiles...), append(units, moreUnits...)
		}
		osc.Status.ExtensionFiles, osc.Status.ExtensionUnits = files, units
		return extension.Done(), nil
	}
	files, err := a.files(ctx, osc)
	if err != nil {
		return extension.Result{}, err
	}
	data, err := UserData(files, osc.Spec.Units)
	if err != nil {
		return extension.Result{}, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: osc.Namespace, Name: secretPrefix + osc.Name}}
	if _, err := controllerutil.CreateOrPatch(ctx, a.Client, secret, func() error {
		secret.Data = map[string][]byte{extensionsv1alpha1.OperatingSystemConfigSecretDataKey: data}
		return controllerutil.SetControllerReference(osc, secret, a.Client.Scheme())
	}); err != nil {
		return extension.Result{}, fmt.Errorf("apply secret %q: %w", secret.Name, err)
	}
	osc.Status.CloudConfig = &extensionsv1alpha1.CloudConfig{
		SecretRef: corev1.SecretReference{Namespace: secret.Namespace, Name: secret.Name},
	}
	return extension.Done(), nil
}

// inPlaceUpdate describes how the image of a running machine is changed.
func inPlaceUpdate(spec *extensionsv1alpha1.InPlaceUpdates) *extensionsv1alpha1.InPlaceUpdatesStatus {
	if spec == nil {
		return nil
	}
	return &extensionsv1alpha1.InPlaceUpdatesStatus{
		OSUpdate: &extensionsv1alpha1.OSUpdate{
			Command: "/sbin/init", Args: []string{"ctl", "update", spec.OperatingSystemVersion},
		},
	}
}

// file and unit are the form the init reads; see local/machineinit.
type file struct {
	Path        string      `json:"path"`
	Permissions uint32      `json:"permissions"`
	Content     fileContent `json:"content"`
}

type fileContent struct {
	Inline extensionsv1alpha1.FileContentInline `json:"inline"`
}

type unit struct {
	Name    string   `json:"name"`
	Command string   `json:"command,omitempty"`
	Enable  *bool    `json:"enable,omitempty"`
	Content string   `json:"content,omitempty"`
	DropIns []dropIn `json:"dropIns,omitempty"`
}

type dropIn struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// files resolves the content of all files: the machine cannot read Secrets.
func (a *Actuator) files(
	ctx context.Context, osc *extensionsv1alpha1.OperatingSystemConfig,
) ([]extensionsv1alpha1.File, error) {
	out := make([]extensionsv1alpha1.File, 0, len(osc.Spec.Files))
	for _, f := range osc.Spec.Files {
		switch {
		case f.Content.Inline != nil:
		case f.Content.SecretRef != nil:
			secret := &corev1.Secret{}
			ref := f.Content.SecretRef
			if err := a.Client.Get(ctx, client.ObjectKey{Namespace: osc.Namespace, Name: ref.Name}, secret); err != nil {
				return nil, fmt.Errorf("read content of file %q: %w", f.Path, err)
			}
			data, ok := secret.Data[ref.DataKey]
			if !ok {
				return nil, fmt.Errorf("read content of file %q: secret %q has no key %q", f.Path, ref.Name, ref.DataKey)
			}
			f.Content = extensionsv1alpha1.FileContent{Inline: inline(data)}
		default:
			return nil, fmt.Errorf("file %q: a machine cannot take files from images before its first boot", f.Path)
		}
		out = append(out, f)
	}
	return out, nil
}

func inline(data []byte) *extensionsv1alpha1.FileContentInline {
	if utf8.Valid(data) {
		return &extensionsv1alpha1.FileContentInline{Data: string(data)}
	}
	return &extensionsv1alpha1.FileContentInline{
		Encoding: extensionsv1alpha1.EncodingBase64, Data: base64.StdEncoding.EncodeToString(data),
	}
}

// UserData renders files, whose content is inline, and units in the form the init reads. Content stays as readable as
// it is, so that placeholders in it can be replaced for each machine.
func UserData(files []extensionsv1alpha1.File, units []extensionsv1alpha1.Unit) ([]byte, error) {
	doc := struct {
		Files []file `json:"files,omitempty"`
		Units []unit `json:"units,omitempty"`
	}{}
	for _, f := range files {
		doc.Files = append(doc.Files, file{
			Path: f.Path, Permissions: ptr.Deref(f.Permissions, defaultPermissions),
			Content: fileContent{Inline: *f.Content.Inline},
		})
	}
	for _, u := range units {
		one := unit{
			Name: u.Name, Command: string(ptr.Deref(u.Command, "")), Enable: u.Enable, Content: ptr.Deref(u.Content, ""),
		}
		for _, d := range u.DropIns {
			one.DropIns = append(one.DropIns, dropIn{Name: d.Name, Content: d.Content})
		}
		doc.Units = append(doc.Units, one)
	}
	body, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode user data: %w", err)
	}
	return bytes.Join([][]byte{[]byte(header), body}, nil), nil
}

// Restore does what Reconcile does: the result follows from the spec alone.
func (a *Actuator) Restore(
	ctx context.Context, osc *extensionsv1alpha1.OperatingSystemConfig, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, osc, cluster)
}

// Migrate has nothing to remove: the Secret is deleted with its owner.
func (a *Actuator) Migrate(
	context.Context, *extensionsv1alpha1.OperatingSystemConfig, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete has nothing to remove: the Secret is deleted with its owner.
func (a *Actuator) Delete(
	context.Context, *extensionsv1alpha1.OperatingSystemConfig, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

// ForceDelete has nothing to remove.
func (a *Actuator) ForceDelete(
	context.Context, *extensionsv1alpha1.OperatingSystemConfig, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}
