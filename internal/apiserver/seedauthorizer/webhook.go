package seedauthorizer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Path of the webhook.
const Path = "/authorize/seeds"

// maxReviewBytes is far above the size of a review with the longest names and selectors.
const maxReviewBytes = 1 << 20

// Webhook serves SubjectAccessReviews of authorization.k8s.io/v1. The server authorizes its callers.
func (a *Authorizer) Webhook() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "only POST of a SubjectAccessReview", http.StatusMethodNotAllowed)
			return
		}
		review := &authorizationv1.SubjectAccessReview{}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReviewBytes))
		if err == nil {
			err = json.Unmarshal(body, review)
		}
		if want := authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"); err == nil &&
			review.GroupVersionKind() != want {
			err = fmt.Errorf("the body is %s, not %s", review.GroupVersionKind(), want)
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("read SubjectAccessReview: %v", err), http.StatusBadRequest)
			return
		}
		if !a.Synced() { // The caller's failure policy applies.
			http.Error(w, "the objects of each Seed are not known yet", http.StatusServiceUnavailable)
			return
		}
		review.Status = a.review(r.Context(), &review.Spec)
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

func (a *Authorizer) review(
	ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec,
) authorizationv1.SubjectAccessReviewStatus {
	decision, reason, err := a.Authorize(ctx, attributesOf(spec))
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny, Reason: reason,
	}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	return status
}

func attributesOf(spec *authorizationv1.SubjectAccessReviewSpec) authorizer.Attributes {
	record := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}}
	if spec.NonResourceAttributes != nil {
		record.Verb, record.Path = spec.NonResourceAttributes.Verb, spec.NonResourceAttributes.Path
	}
	if resource := spec.ResourceAttributes; resource != nil {
		record.ResourceRequest = true
		record.Verb, record.APIGroup, record.APIVersion = resource.Verb, resource.Group, resource.Version
		record.Resource, record.Subresource, record.Namespace, record.Name = resource.Resource, resource.Subresource,
			resource.Namespace, resource.Name
		if resource.FieldSelector != nil {
			record.FieldSelectorRequirements, record.FieldSelectorParsingErr = fieldRequirements(resource.FieldSelector)
		}
		if resource.LabelSelector != nil {
			record.LabelSelectorRequirements, record.LabelSelectorParsingErr = labelRequirements(resource.LabelSelector)
		}
	}
	return record
}

// fieldRequirements accepts the requirements of a kube-apiserver, or the raw selector of other callers. Requirements
// that it does not understand are dropped.
func fieldRequirements(s *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if s.RawSelector != "" {
		selector, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, err
		}
		return selector.Requirements(), nil
	}
	var out fields.Requirements
	for _, r := range s.Requirements {
		if r.Operator == metav1.FieldSelectorOpIn && len(r.Values) == 1 {
			out = append(out, fields.Requirement{Operator: selection.Equals, Field: r.Key, Value: r.Values[0]})
		}
	}
	return out, nil
}

func labelRequirements(s *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if s.RawSelector != "" {
		return labels.ParseToRequirements(s.RawSelector)
	}
	var out labels.Requirements
	for _, r := range s.Requirements {
		if r.Operator != metav1.LabelSelectorOpIn {
			continue
		}
		requirement, err := labels.NewRequirement(r.Key, selection.In, r.Values)
		if err != nil {
			return nil, err
		}
		out = append(out, *requirement)
	}
	return out, nil
}
