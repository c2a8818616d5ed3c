package controllerinstallation

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	clocktesting "k8s.io/utils/clock/testing"
)

// server is what an API server reports.
type server struct {
	discovery.ServerResourcesInterface
	version                  string
	resources                []*metav1.APIResourceList
	versionErr, resourcesErr error
	requests                 int
}

func (s *server) ServerVersion() (*apiversion.Info, error) {
	s.requests++
	return &apiversion.Info{Major: "1", Minor: "36", GitVersion: s.version}, s.versionErr
}

func (s *server) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return nil, s.resources, s.resourcesErr
}

// TestCapabilitiesOfTheSeed: they are read again after some minutes, and an API that does not answer changes nothing.
func TestCapabilitiesOfTheSeed(t *testing.T) {
	kind := func(gv, kind string) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: gv, APIResources: []metav1.APIResource{{Kind: kind}}}
	}
	s := &server{version: "v1.36.1", resources: []*metav1.APIResourceList{
		kind("policy/v1", "PodDisruptionBudget"), kind("metrics.k8s.io/v1", "PodMetrics"),
	}}
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	c := &Capabilities{Server: s, Clock: clock}
	check := func(version string, apis map[string]bool, requests int) {
		t.Helper()
		got, err := c.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Version() != version || s.requests != requests {
			t.Errorf("the version is %s after %d requests, want %s after %d", got.Version(), s.requests, version, requests)
		}
		for api, want := range apis {
			if got.Has(api) != want {
				t.Errorf("%s is offered: %t, want %t", api, !want, want)
			}
		}
	}
	s.versionErr = errors.New("unavailable")
	if _, err := c.Get(t.Context()); err == nil {
		t.Error("an unknown version is no error")
	}
	s.versionErr, s.resourcesErr = nil, errors.New("unavailable")
	if _, err := c.Get(t.Context()); err == nil {
		t.Error("unknown API versions are no error")
	}
	s.resourcesErr = nil
	check("v1.36.1", map[string]bool{
		"policy/v1": true, "policy/v1/PodDisruptionBudget": true, "policy/v1beta1": false,
		"metrics.k8s.io/v1/PodMetrics": true,
	}, 3)

	s.version, s.resources = "v1.36.3", s.resources[:1]
	clock.SetTime(clock.Now().Add(capabilitiesPeriod - time.Second))
	check("v1.36.1", map[string]bool{"metrics.k8s.io/v1": true}, 3)

	s.resourcesErr = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{
		{Group: "metrics.k8s.io", Version: "v1"}: errors.New("unavailable"),
	}}
	clock.SetTime(clock.Now().Add(time.Second))
	check("v1.36.3", map[string]bool{"policy/v1": true, "metrics.k8s.io/v1/PodMetrics": true}, 4)

	s.resourcesErr = nil
	clock.SetTime(clock.Now().Add(capabilitiesPeriod))
	check("v1.36.3", map[string]bool{"metrics.k8s.io/v1": false}, 5)
}
