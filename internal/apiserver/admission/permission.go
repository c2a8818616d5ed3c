package admission

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// MayGet reports whether a user may read an object. A reference must not expose an object to a user who may not read
// it.
func (o *Objects) MayGet(ctx context.Context, caller user.Info, ref corev1.ObjectReference) (bool, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return false, err
	}
	return o.May(ctx, authorizer.AttributesRecord{
		User: caller, Verb: "get", APIGroup: gv.Group, APIVersion: gv.Version, Resource: pluralOf(ref.Kind),
		Namespace: ref.Namespace, Name: ref.Name, ResourceRequest: true,
	})
}

// May reports whether a user may do something in the garden.
func (o *Objects) May(ctx context.Context, attributes authorizer.AttributesRecord) (bool, error) {
	decision, _, err := o.Authorizer.Authorize(ctx, attributes)
	if err != nil {
		return false, fmt.Errorf("authorize verb %q on %s %s/%s: %w", attributes.Verb, attributes.Resource,
			attributes.Namespace, attributes.Name, err)
	}
	return decision == authorizer.DecisionAllow, nil
}

// pluralOf returns the resource of a kind, as far as objects of the kind can be referred to.
func pluralOf(kind string) string {
	kind = strings.ToLower(kind)
	if stem, ok := strings.CutSuffix(kind, "y"); ok {
		return stem + "ies"
	}
	return kind + "s"
}
