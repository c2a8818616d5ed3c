package plan

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// pageSize bounds the memory of one answer while a large garden is read; at 10 kB per Shoot it is 5 MB.
const pageSize = 500

// NewClient returns a client for the garden's own kinds.
func NewClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	return c, nil
}

// ReadGarden reads the profiles of a garden and its Shoots, those of one namespace unless it is empty.
func ReadGarden(ctx context.Context, c client.Reader, namespace string) (*Objects, error) {
	o := &Objects{}
	var profiles corev1beta1.CloudProfileList
	if err := c.List(ctx, &profiles); err != nil {
		return nil, fmt.Errorf("list CloudProfiles: %w", err)
	}
	for i := range profiles.Items {
		o.CloudProfiles = append(o.CloudProfiles, &profiles.Items[i])
	}
	var namespaced corev1beta1.NamespacedCloudProfileList
	if err := c.List(ctx, &namespaced, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list NamespacedCloudProfiles: %w", err)
	}
	for i := range namespaced.Items {
		o.NamespacedCloudProfiles = append(o.NamespacedCloudProfiles, &namespaced.Items[i])
	}
	for token, more := "", true; more; more = token != "" {
		var page corev1beta1.ShootList
		if err := c.List(ctx, &page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(token)); err != nil {
			return nil, fmt.Errorf("list Shoots: %w", err)
		}
		for i := range page.Items {
			shoot := &page.Items[i]
			slim(shoot)
			o.Shoots = append(o.Shoots, shoot)
		}
		token = page.Continue
	}
	return o, nil
}
