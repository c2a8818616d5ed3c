package workloadidentity

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

// TokenIssuer signs tokens that target systems accept instead of static credentials.
type TokenIssuer struct {
	// Issuer is the https URL below which target systems find the public keys.
	Issuer string
	Key    *rsa.PrivateKey
	// Max bounds the lifetime of tokens. Longer requests are cut.
	Max   time.Duration
	Clock clock.PassiveClock
	// UID returns the UID of the object in a token's context: the object that the token is requested for.
	UID func(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (types.UID, error)
}

// ParseKey reads a private RSA key from PEM.
func ParseKey(data []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	rsaKey, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key is a %T, must be an RSA key", key)
	}
	return rsaKey, nil
}

// Subresources returns the subresource token.
func (i *TokenIssuer) Subresources(store *genericregistry.Store) map[string]rest.Storage {
	return map[string]rest.Storage{"token": &tokenREST{store, i}}
}

// tokenREST issues tokens. It stores nothing.
type tokenREST struct {
	store  *genericregistry.Store
	issuer *TokenIssuer
}

func (r *tokenREST) New() runtime.Object { return &securityv1alpha1.TokenRequest{} }
func (r *tokenREST) Destroy()            {} // The store belongs to the resource.

func (r *tokenREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return securityv1alpha1.SchemeGroupVersion.WithKind("TokenRequest")
}

// Create issues a token.
func (r *tokenREST) Create(
	ctx context.Context, name string, o runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions,
) (runtime.Object, error) {
	if validate != nil { // For subresources, the storage must call validating admission.
		if err := validate(ctx, o.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	request, ok := o.(*securityv1alpha1.TokenRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is no TokenRequest", o))
	}
	stored, err := r.store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	identity := stored.(*securityv1alpha1.WorkloadIdentity)
	errs := securityv1alpha1.ValidateTokenRequest(request)
	if len(errs) == 0 && request.Spec.ContextObject != nil {
		if errs, err = r.issuer.contextProblem(ctx, request.Spec.ContextObject); err != nil {
			return nil, err
		}
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(securityv1alpha1.Kind("TokenRequest"), name, errs)
	}
	out := request.DeepCopy()
	out.Name, out.Namespace, out.ManagedFields = identity.Name, identity.Namespace, nil // Nothing is stored.
	now := r.issuer.Clock.Now()
	expiration := now.Add(r.issuer.lifetime(request))
	out.Status = securityv1alpha1.TokenRequestStatus{ExpirationTimestamp: metav1.NewTime(expiration)}
	out.Status.Token, err = r.issuer.sign(claimsOf(identity, request.Spec.ContextObject, r.issuer.Issuer,
		string(uuid.NewUUID()), now, expiration))
	return out, err
}

func (i *TokenIssuer) lifetime(request *securityv1alpha1.TokenRequest) time.Duration {
	if request.Spec.ExpirationSeconds == nil {
		return min(time.Hour, i.Max)
	}
	return min(time.Duration(*request.Spec.ExpirationSeconds)*time.Second, i.Max)
}

// contextProblem returns an error if the context object does not exist with the given UID.
func (i *TokenIssuer) contextProblem(
	ctx context.Context, object *securityv1alpha1.ContextObject,
) (field.ErrorList, error) {
	path, namespace := field.NewPath("spec", "contextObject"), ""
	if object.Namespace != nil {
		namespace = *object.Namespace
	}
	uid, err := i.UID(ctx, schema.FromAPIVersionAndKind(object.APIVersion, object.Kind), namespace, object.Name)
	switch {
	case apierrors.IsNotFound(err):
		return field.ErrorList{field.NotFound(path, object.Kind+" "+namespace+"/"+object.Name)}, nil
	case err != nil:
		return nil, err
	case uid != object.UID:
		return field.ErrorList{
			field.Invalid(path.Child("uid"), object.UID,
				fmt.Sprintf("the UID of %s %s/%s is %q", object.Kind, namespace, object.Name, uid)),
		}, nil
	}
	return nil, nil
}

// claims of a token. RFC 7519 defines all but our own.
type claims struct {
	Issuer    string         `json:"iss"`
	Subject   string         `json:"sub"`
	Audience  []string       `json:"aud"`
	Expires   int64          `json:"exp"` // Seconds since 1970.
	IssuedAt  int64          `json:"iat"`
	NotBefore int64          `json:"nbf"`
	ID        string         `json:"jti"`
	Gardener  gardenerClaims `json:"gardener.cloud"`
}

type gardenerClaims struct {
	WorkloadIdentity reference  `json:"workloadIdentity"`
	ContextObject    *reference `json:"contextObject,omitempty"`
}

type reference struct {
	Kind      string    `json:"kind,omitempty"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace,omitempty"`
	UID       types.UID `json:"uid"`
}

func claimsOf(
	identity *securityv1alpha1.WorkloadIdentity, object *securityv1alpha1.ContextObject, issuer, id string, now,
	expiration time.Time,
) claims {
	c := claims{
		Issuer: issuer, Subject: identity.Status.Sub, Audience: identity.Spec.Audiences,
		Expires: expiration.Unix(), IssuedAt: now.Unix(), NotBefore: now.Unix(), ID: id,
		Gardener: gardenerClaims{WorkloadIdentity: reference{
			Name: identity.Name, Namespace: identity.Namespace, UID: identity.UID,
		}},
	}
	if object != nil {
		c.Gardener.ContextObject = &reference{Kind: object.Kind, Name: object.Name, UID: object.UID}
		if object.Namespace != nil {
			c.Gardener.ContextObject.Namespace = *object.Namespace
		}
	}
	return c
}

// KeyID returns the ID of a public key: the hash of its DER encoding.
func KeyID(key *rsa.PublicKey) string {
	sum := sha256.Sum256(x509.MarshalPKCS1PublicKey(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// sign returns a JSON Web Token signed with RS256 (RFC 7515, RFC 7518 section 3.3).
func (i *TokenIssuer) sign(c claims) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": KeyID(&i.Key.PublicKey)})
	if err != nil {
		return "", fmt.Errorf("write token: %w", err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write token: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.Key, crypto.SHA256, digest[:])
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
