package admission

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
)

// Get reads an object of our own kinds from the cache, or from the API server if the cache does not contain it yet. An
// object can therefore be referred to as soon as it has been created.
func (o *Objects) Get(ctx context.Context, namespace, name string, object client.Object) error {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	err := o.Cached.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		err = o.Live.Get(ctx, key, object)
	}
	return err
}

// ProjectOf returns the project that a namespace belongs to, or nil.
func (o *Objects) ProjectOf(ctx context.Context, namespace string) (*corev1beta1.Project, error) {
	find := func(reader client.Reader, options ...client.ListOption) (*corev1beta1.Project, error) {
		projects := &corev1beta1.ProjectList{}
		if err := reader.List(ctx, projects, options...); err != nil {
			return nil, fmt.Errorf("list projects: %w", err)
		}
		if len(projects.Items) == 0 {
			return nil, nil
		}
		return &projects.Items[0], nil
	}
	project, err := find(o.Cached, client.MatchingFields{indexNamespace: namespace}, client.UnsafeDisableDeepCopy)
	if project != nil || err != nil {
		return project, err
	}
	return find(o.Live, client.MatchingFields{"spec.namespace": namespace})
}

// Profile is the cloud profile of a Shoot: a CloudProfile, or a CloudProfile with the changes of a
// NamespacedCloudProfile.
type Profile struct {
	Spec     *corev1beta1.CloudProfileSpec
	Versions *cloudprofile.Profile
	// Parent is the name of the CloudProfile; for a NamespacedCloudProfile, of its parent.
	Parent string
}

// compiled caches compiled profiles. There are few, and they rarely change.
type compiled struct {
	sync.Mutex
	byKey map[string]compiledProfile
}

type compiledProfile struct {
	version string
	profile *Profile
}

// Profile reads and compiles the profile that a Shoot in the namespace refers to. If it does not exist, the error is an
// API status for InternalError.
func (o *Objects) Profile(
	ctx context.Context, namespace string, ref corev1beta1.CloudProfileReference,
) (*Profile, error) {
	parent, child := &corev1beta1.CloudProfile{}, (*corev1beta1.NamespacedCloudProfile)(nil)
	parentName, key := ref.Name, ref.Name
	if ref.Kind == corev1beta1.NamespacedCloudProfileKind {
		child = &corev1beta1.NamespacedCloudProfile{}
		if err := o.Get(ctx, namespace, ref.Name, child); err != nil {
			return nil, o.missingProfile(ctx, namespace, ref, err)
		}
		parentName, key = child.Spec.Parent.Name, namespace+"/"+ref.Name
	}
	if err := o.Get(ctx, "", parentName, parent); err != nil {
		return nil, o.missingProfile(ctx, namespace, ref, err)
	}
	version := string(parent.UID) + parent.ResourceVersion
	if child != nil {
		version += string(child.UID) + child.ResourceVersion
	}
	o.profiles.Lock()
	defer o.profiles.Unlock()
	if known, ok := o.profiles.byKey[key]; ok && known.version == version {
		return known.profile, nil
	}
	spec := &parent.Spec
	if child != nil {
		merged := cloudprofile.Merge(spec, &child.Spec)
		spec = &merged
	}
	versions, err := cloudprofile.Compile(ref.Name, spec)
	if err != nil {
		return nil, fmt.Errorf("read cloud profile %q: %w", ref.Name, err)
	}
	profile := &Profile{Spec: spec, Versions: versions, Parent: parentName}
	if o.profiles.byKey == nil {
		o.profiles.byKey = map[string]compiledProfile{}
	}
	o.profiles.byKey[key] = compiledProfile{version, profile}
	return profile, nil
}

// missingProfile returns the error for a profile that could not be read. If it does not exist, the status is 500, as
// clients of this API expect, but with the field, the value and the available profiles, as for any invalid value.
func (o *Objects) missingProfile(
	ctx context.Context, namespace string, ref corev1beta1.CloudProfileReference, err error,
) error {
	err = fmt.Errorf("could not find referenced cloud profile: %w", err)
	if !apierrors.IsNotFound(err) {
		return err
	}
	path := field.NewPath("spec", "cloudProfile", "name")
	detail := fmt.Sprintf("%v; %s", err, o.OfferedProfiles(ctx, namespace, ref.Kind))
	problem := field.NotFound(path, ref.Name)
	status := apierrors.NewInternalError(err)
	status.ErrStatus.Message = fmt.Sprintf("%v: %s", problem, detail)
	status.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeFieldValueNotFound, Field: path.String(),
		Message: fmt.Sprintf("%s: %s", problem.ErrorBody(), detail),
	}}
	return status
}

// OfferedProfiles lists the profiles of a kind that a Shoot of the namespace may refer to.
func (o *Objects) OfferedProfiles(ctx context.Context, namespace, kind string) string {
	var names []string
	if kind == corev1beta1.NamespacedCloudProfileKind {
		list := &corev1beta1.NamespacedCloudProfileList{}
		if err := o.Cached.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "try again"
		}
		for i := range list.Items {
			names = append(names, strconv.Quote(list.Items[i].Name))
		}
	} else {
		kind = corev1beta1.CloudProfileKind
		list := &corev1beta1.CloudProfileList{}
		if err := o.Cached.List(ctx, list); err != nil {
			return "try again"
		}
		for i := range list.Items {
			names = append(names, strconv.Quote(list.Items[i].Name))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("there is no %s", kind)
	}
	return fmt.Sprintf("there are %ss %s", kind, Named(names))
}
