package steps

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserverfiles"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/flow"
)

// addServerFiles reads the user's files for the API server from the project. It was checked when the Shoot began to
// refer to it and may have changed since. A server does not start with a wrong file, so it never gets one: the error
// has the code of a problem of the user, and running servers keep their files.
func addServerFiles(ctx context.Context, s *Values, garden *GardenNamespace, v *kubeapiserver.Values) error {
	var errs []error
	for _, file := range apiserverfiles.Of(s.Shoot, append([]string{v.Issuer}, v.AcceptedIssuers...)) {
		configMap := &corev1.ConfigMap{}
		if err := referenced(ctx, s, garden, file.Path, file.ConfigMap, configMap); err != nil {
			errs = append(errs, err)
			continue
		}
		content, err := file.Content(configMap.Data)
		if err != nil {
			errs = append(errs, flow.WithCodes(err, string(corev1beta1.ErrorConfigurationProblem)))
			continue
		}
		switch file.Use {
		case apiserverfiles.AuditPolicy:
			v.AuditPolicy = content
		case apiserverfiles.Authentication:
			v.Authentication = content
		case apiserverfiles.Authorization:
			v.Authorization = content
		}
	}
	if config := s.Shoot.Spec.Kubernetes.KubeAPIServer; config != nil && config.StructuredAuthorization != nil {
		kubeconfigs, err := authorizationKubeconfigs(ctx, s, garden, config.StructuredAuthorization.Kubeconfigs)
		errs = append(errs, err)
		v.AuthorizationKubeconfigs = kubeconfigs
	}
	return joined(errs)
}

// authorizationKubeconfigs reads the kubeconfigs of the user's webhooks, by the names of their authorizers.
func authorizationKubeconfigs(
	ctx context.Context, s *Values, garden *GardenNamespace, references []corev1beta1.AuthorizerKubeconfigReference,
) (map[string][]byte, error) {
	path := field.NewPath("spec", "kubernetes", "kubeAPIServer", "structuredAuthorization", "kubeconfigs")
	kubeconfigs := map[string][]byte{}
	var errs []error
	for i, r := range references {
		path := path.Index(i).Child("secretName")
		secret := &corev1.Secret{}
		if err := referenced(ctx, s, garden, path, r.SecretName, secret); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := apiserverfiles.Kubeconfig(secret.Data); err != nil {
			errs = append(errs, flow.WithCodes(fmt.Errorf("%s: %q: %w", path, r.SecretName, err),
				string(corev1beta1.ErrorConfigurationProblem)))
			continue
		}
		kubeconfigs[r.AuthorizerName] = secret.Data[apiserverfiles.KeyKubeconfig]
	}
	return kubeconfigs, joined(errs)
}

// joined is one error for all, on one line, as users read it. An error without a code comes from the garden and not
// from the user; the pass is tried again, so the others can wait.
func joined(errs []error) error {
	for _, err := range errs {
		if err != nil && len(flow.Codes(err)) == 0 {
			return err
		}
	}
	return flow.WithCodes(utilerrors.NewAggregate(errs), flow.Codes(errors.Join(errs...))...)
}

// referenced reads an object of the project that a field of the Shoot names.
func referenced(
	ctx context.Context, s *Values, garden *GardenNamespace, path *field.Path, name string, object client.Object,
) error {
	err := garden.Get(ctx, client.ObjectKey{Namespace: s.Shoot.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return flow.WithCodes(field.NotFound(path, s.Shoot.Namespace+"/"+name), string(corev1beta1.ErrorConfigurationProblem))
	}
	if err != nil {
		return fmt.Errorf("%s: read %s/%s: %w", path, s.Shoot.Namespace, name, err)
	}
	return nil
}
