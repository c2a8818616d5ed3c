package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/apiserver/registry/security/workloadidentity"
)

// defaultTokenMaxExpiration bounds the lifetime of tokens, which cannot be revoked.
const defaultTokenMaxExpiration = 48 * time.Hour

// TokenOptions are the flags for tokens of WorkloadIdentities. Without issuer and key no tokens are issued.
type TokenOptions struct {
	Issuer        string
	KeyFile       string
	MaxExpiration time.Duration
}

func (o *TokenOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Issuer, "workload-identity-token-issuer", o.Issuer,
		"The https URL below which others find the key that tokens of WorkloadIdentities are signed with. Empty: no tokens.")
	flags.StringVar(&o.KeyFile, "workload-identity-signing-key-file", o.KeyFile,
		"File with the private RSA key for tokens of WorkloadIdentities, PEM.")
	flags.DurationVar(&o.MaxExpiration, "workload-identity-token-max-expiration", o.MaxExpiration,
		"Maximum lifetime of tokens of WorkloadIdentities; longer requests are shortened to it.")
}

func (o *TokenOptions) validate() []error {
	if o.Issuer == "" && o.KeyFile == "" {
		return nil
	}
	var errs []error
	if issuer, err := url.Parse(o.Issuer); err != nil || issuer.Scheme != "https" || issuer.Host == "" {
		errs = append(errs, fmt.Errorf("--workload-identity-token-issuer: must be an https URL: %q", o.Issuer))
	}
	if o.KeyFile == "" {
		errs = append(errs, errors.New("--workload-identity-signing-key-file: required with --workload-identity-token-issuer"))
	}
	if o.MaxExpiration < time.Hour {
		errs = append(errs, fmt.Errorf("--workload-identity-token-max-expiration: must be at least 1h: %s",
			o.MaxExpiration))
	}
	return errs
}

// issuer returns nil if no issuer is configured.
func (o *TokenOptions) issuer(
	objects *hortusadmission.Objects, clock clock.PassiveClock,
) (*workloadidentity.TokenIssuer, error) {
	if o.Issuer == "" {
		return nil, nil
	}
	content, err := os.ReadFile(o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read key for tokens: %w", err)
	}
	key, err := workloadidentity.ParseKey(content)
	if err != nil {
		return nil, fmt.Errorf("read key for tokens from %s: %w", o.KeyFile, err)
	}
	return &workloadidentity.TokenIssuer{
		Issuer: o.Issuer, Key: key, Max: o.MaxExpiration, Clock: clock, UID: uidOf(objects),
	}, nil
}

// uidOf returns a function that reads the UIDs of objects of our own kinds that the caller may read. A token contains
// no other UIDs.
func uidOf(
	objects *hortusadmission.Objects,
) func(context.Context, schema.GroupVersionKind, string, string) (types.UID, error) {
	return func(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (types.UID, error) {
		caller, ok := apirequest.UserFrom(ctx)
		if !ok {
			return "", apierrors.NewUnauthorized("the request has no user")
		}
		ref := corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: namespace, Name: name,
		}
		allowed, err := objects.MayGet(ctx, caller, ref)
		if err != nil {
			return "", err
		}
		if !allowed {
			return "", apierrors.NewForbidden(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, name,
				fmt.Errorf("user %q may not get the context object", caller.GetName()))
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(gvk)
		err = objects.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		if meta.IsNoMatchError(err) {
			return "",
				apierrors.NewBadRequest(fmt.Sprintf("the context object must be of a kind of the garden, such as Shoot, not %s",
					gvk))
		}
		return object.UID, err
	}
}
