package fleet

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// pageSize bounds the memory of one response while a large garden is read: 5 MB at 10 kB per Shoot.
const pageSize = 500

// NewClient returns a client for the kinds of a Fleet.
func NewClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1beta1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	return c, nil
}

// FromGarden reads a live garden. Unless namespace is empty, it reads only Shoots and NamespacedCloudProfiles of the
// namespace. c must not be a cache, which does not support pages.
func FromGarden(ctx context.Context, c client.Reader, namespace string, options Options) (*Fleet, error) {
	f := &Fleet{}
	regions := client.MatchingLabels{corev1beta1.LabelSchedulingPurpose: corev1beta1.SchedulingPurposeRegionConfig}
	for _, step := range []struct {
		kind Kind
		list client.ObjectList
		take func(client.ObjectList)
		only []client.ListOption
	}{
		{Seeds, &corev1beta1.SeedList{}, func(l client.ObjectList) {
			f.Seeds = append(f.Seeds, l.(*corev1beta1.SeedList).Items...)
		}, nil},
		{CloudProfiles, &corev1beta1.CloudProfileList{}, func(l client.ObjectList) {
			f.CloudProfiles = append(f.CloudProfiles, l.(*corev1beta1.CloudProfileList).Items...)
		}, nil},
		{NamespacedCloudProfiles, &corev1beta1.NamespacedCloudProfileList{}, func(l client.ObjectList) {
			items := l.(*corev1beta1.NamespacedCloudProfileList).Items
			f.NamespacedCloudProfiles = append(f.NamespacedCloudProfiles, items...)
		}, []client.ListOption{client.InNamespace(namespace)}},
		{Projects, &corev1beta1.ProjectList{}, func(l client.ObjectList) {
			f.Projects = append(f.Projects, l.(*corev1beta1.ProjectList).Items...)
		}, nil},
		{Shoots, &corev1beta1.ShootList{}, func(l client.ObjectList) {
			items := l.(*corev1beta1.ShootList).Items
			for i := range items {
				options.trim(&items[i])
			}
			f.Shoots = append(f.Shoots, items...)
		}, []client.ListOption{client.InNamespace(namespace)}},
		{ConfigMaps, &corev1.ConfigMapList{}, func(l client.ObjectList) {
			f.ConfigMaps = append(f.ConfigMaps, l.(*corev1.ConfigMapList).Items...)
		}, []client.ListOption{client.InNamespace(corev1beta1.GardenNamespace), regions}},
	} {
		if !slices.Contains(options.Kinds, step.kind) {
			continue
		}
		if err := readPages(ctx, c, step.list, step.take, step.only); err != nil {
			return nil, fmt.Errorf("list %ss: %w", step.kind, err)
		}
	}
	return f, nil
}

func readPages(
	ctx context.Context, c client.Reader, list client.ObjectList, take func(client.ObjectList), only []client.ListOption,
) error {
	for token, more := "", true; more; more = token != "" {
		page := list.DeepCopyObject().(client.ObjectList)
		if err := c.List(ctx, page, append(only, client.Limit(pageSize), client.Continue(token))...); err != nil {
			return err
		}
		take(page)
		token = page.GetContinue()
	}
	return nil
}
