package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

// raw reads a path of the API with the given Accept header.
func raw(t *testing.T, e *env.Environment, accept, format string, args ...any) []byte {
	t.Helper()
	c, err := kubernetes.NewForConfig(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf(format, args...)
	body, err := c.RESTClient().Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("get %s: %v\n%s", path, err, body)
	}
	return body
}

func TestServerSideApply(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	g.Create(t, shoot)
	pool := func(name, maximum string) string {
		return `{"name":"` + name + `","machine":{"type":"small"},"minimum":1,"maximum":` + maximum + `}`
	}
	apply := func(owner, spec string) error {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Shoot","metadata":{"name":"`+
			shoot.Name+`","namespace":"`+g.namespace+`"},"spec":`+spec+`}`), u); err != nil {
			t.Fatal(err)
		}
		return g.Client.Apply(g.ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(owner))
	}
	if err := apply("second", `{"provider":{"workers":[`+pool("more", "3")+`]}}`); err != nil {
		t.Fatal(err)
	}
	g.get(shoot)
	if len(shoot.Spec.Provider.Workers) != 2 {
		t.Errorf("pools of two managers are not merged by name: %d", len(shoot.Spec.Provider.Workers))
	}
	if err := apply("third", `{"provider":{"workers":[`+pool("more", "4")+`]}}`); !apierrors.IsConflict(err) {
		t.Errorf("apply of another's field: %v", err)
	}
	if err := apply("second", `{"systemComponents":{"nodeLocalDNS":{"enabled":true}}}`); err != nil {
		t.Fatal(err)
	}
	g.get(shoot)
	if len(shoot.Spec.Provider.Workers) != 1 || shoot.Spec.Provider.Workers[0].Name != "pool" {
		t.Errorf("the pool that is no longer applied stays: %+v", shoot.Spec.Provider.Workers)
	}
	version := shoot.ResourceVersion
	if err := apply("second", `{"systemComponents":{"nodeLocalDNS":{"enabled":true}}}`); err != nil {
		t.Fatal(err)
	}
	if g.get(shoot); shoot.ResourceVersion != version {
		t.Error("an apply without a change writes")
	}
}

func TestStrategicMergePatch(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	g.Create(t, shoot)
	patch := client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"spec":{"provider":{"workers":[{"name":"pool","maximum":5}]}}}`))
	if err := g.Client.Patch(g.ctx, shoot, patch); err != nil {
		t.Fatal(err)
	}
	if worker := shoot.Spec.Provider.Workers[0]; worker.Maximum != 5 || worker.Machine.Type != "small" {
		t.Errorf("merged pool: %+v", worker)
	}
}

func TestStaleAndUnconditionalUpdates(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	g.Create(t, shoot)
	stale := shoot.DeepCopy()
	g.mustPatch(shoot, `{"spec":{"purpose":"testing"}}`)
	if err := g.Client.Update(g.ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
	stale.ResourceVersion = ""
	if err := g.Client.Update(g.ctx, stale); !apierrors.IsInvalid(err) {
		t.Errorf("unconditional update of a Shoot: %v", err)
	}
	g.profile.ResourceVersion = ""
	if err := g.Client.Update(g.ctx, g.profile); err != nil {
		t.Errorf("unconditional update of a CloudProfile: %v", err)
	}
}

func TestStrictValidation(t *testing.T) {
	g := newGarden(t)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ExposureClass",
		"metadata": map[string]any{"name": env.Name("class-")}, "handler": "x", "handel": "y",
	}}
	err := g.Client.Create(g.ctx, u, client.FieldValidation("Strict"))
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "handel"`) {
		t.Errorf("unknown field: %v", err)
	}
}

func TestWatch(t *testing.T) {
	g := newGarden(t)
	c, err := client.NewWithWatch(g.Config, client.Options{Scheme: g.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	shoot := g.newShoot()
	w, err := c.Watch(g.ctx, &corev1beta1.ShootList{}, client.InNamespace(g.namespace),
		client.MatchingFields{"spec.seedName": ""})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	g.Create(t, shoot)
	if event := <-w.ResultChan(); event.Type != watch.Added || event.Object.(*corev1beta1.Shoot).Name != shoot.Name {
		t.Errorf("event %v", event)
	}
}

func TestTables(t *testing.T) {
	g := newGarden(t)
	seed := newSeed()
	shoot := g.newShoot()
	g.Create(t, seed, shoot)
	g.mustPatch(shoot,
		`{"metadata":{"labels":{"shoot.gardener.cloud/status":"healthy"}},"spec":{"hibernation":{"enabled":true}}}`)
	g.mustPatch(shoot,
		`{"status":{"lastOperation":{"type":"Create","state":"Processing","progress":42,"description":"Waiting`+
			strings.Repeat("é", 200)+`","lastUpdateTime":"2030-01-01T00:00:00Z"}}}`, "status")
	check := func(path, want string) {
		t.Helper()
		table := &metav1.Table{}
		if err := json.Unmarshal(raw(t, g.Environment, "application/json;as=Table;v=v1;g=meta.k8s.io", "%s", path),
			table); err != nil {
			t.Fatal(err)
		}
		var cells []string
		for i, column := range table.ColumnDefinitions {
			if column.Name == "Age" {
				break
			}
			cells = append(cells, fmt.Sprintf("%s=%v", column.Name, table.Rows[0].Cells[i]))
		}
		if diff := cmp.Diff(want, strings.Join(cells, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for path, want := range map[string]string{
		"/apis/core.gardener.cloud/v1beta1/namespaces/" + g.namespace + "/shoots": "Name=" + shoot.Name + " CloudProfile=" +
			g.profile.Name +
			" Provider=local Region=local Seed=<none> K8S Version=1.36.3 Hibernation=Hibernating Last Operation=Create Processing (42%)" +
			" Status=healthy Purpose=evaluation Gardener Version=<unknown> APIServer=<unknown> Control=<unknown> Observability=<unknown> Nodes=<unknown> System=<unknown>" +
			" Message=Waiting" + strings.Repeat("é", 112) + "…",
		"/apis/core.gardener.cloud/v1beta1/seeds/" + seed.Name: "Name=" + seed.Name +
			" Status=NotReady Last Operation=<pending> Provider=local Region=local",
		"/apis/security.gardener.cloud/v1alpha1/namespaces/" + g.namespace +
			"/credentialsbindings": "Name=cloud Provider=local APIVersion=v1 Kind=Secret Name=" + g.namespace + "/cloud",
	} {
		check(path, want)
	}
	g.mustPatch(shoot, `{"status":{"lastOperation":{"state":"Failed","description":"infrastructure failed."},`+
		`"lastErrors":[{"description":"task \"infrastructure\" failed: the cause"}]}}`, "status")
	check("/apis/core.gardener.cloud/v1beta1/namespaces/"+g.namespace+"/shoots/"+shoot.Name, "Name="+shoot.Name+
		" CloudProfile="+g.profile.Name+
		" Provider=local Region=local Seed=<none> K8S Version=1.36.3 Hibernation=Hibernating Last Operation=Create Failed (42%)"+
		" Status=healthy Purpose=evaluation Gardener Version=<unknown> APIServer=<unknown> Control=<unknown> Observability=<unknown> Nodes=<unknown> System=<unknown>"+
		` Message=task "infrastructure" failed: the cause`)
}

func TestDiscovery(t *testing.T) {
	e := env.Shared(t)
	d, err := discovery.NewDiscoveryClientForConfig(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, gv := range []string{
		"core.gardener.cloud/v1beta1", "core.gardener.cloud/v1", "security.gardener.cloud/v1alpha1",
		"seedmanagement.gardener.cloud/v1alpha1",
	} {
		resources, err := d.ServerResourcesForGroupVersion(gv)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resources.APIResources {
			scope := "cluster"
			if r.Namespaced {
				scope = "ns"
			}
			got[gv+" "+r.Name] = strings.Join([]string{
				r.Kind, r.SingularName, scope, strings.Join(r.ShortNames, ","), strings.Join(r.Categories, ","),
			}, " ")
		}
	}
	for name, want := range map[string]string{
		"core.gardener.cloud/v1beta1 shoots":                   "Shoot shoot ns  all",
		"core.gardener.cloud/v1beta1 shoots/status":            "Shoot  ns  ",
		"core.gardener.cloud/v1beta1 shoots/binding":           "Shoot  ns  ",
		"core.gardener.cloud/v1beta1 shoots/adminkubeconfig":   "AdminKubeconfigRequest  ns  ",
		"core.gardener.cloud/v1beta1 shoots/viewerkubeconfig":  "ViewerKubeconfigRequest  ns  ",
		"core.gardener.cloud/v1beta1 cloudprofiles":            "CloudProfile cloudprofile cluster cprofile,cpfl ",
		"core.gardener.cloud/v1beta1 seeds":                    "Seed seed cluster  ",
		"core.gardener.cloud/v1beta1 controllerdeployments":    "ControllerDeployment controllerdeployment cluster ctrldeploy all",
		"core.gardener.cloud/v1 controllerdeployments":         "ControllerDeployment controllerdeployment cluster ctrldeploy all",
		"security.gardener.cloud/v1alpha1 credentialsbindings": "CredentialsBinding credentialsbinding ns cb ",
		"seedmanagement.gardener.cloud/v1alpha1 managedseeds":  "ManagedSeed managedseed ns ms ",
		"seedmanagement.gardener.cloud/v1alpha1 gardenlets":    "Gardenlet gardenlet ns gl ",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}

func TestOpenAPIHasFieldDocs(t *testing.T) {
	e := env.Shared(t)
	const name = "com.github.gardener.gardener.pkg.apis.core.v1beta1.ShootSpec"
	check := func(document string, schemas map[string]any) {
		spec, ok := schemas[name].(map[string]any)
		if !ok {
			t.Errorf("%s has no %s", document, name)
			return
		}
		region := spec["properties"].(map[string]any)["region"].(map[string]any)
		if !strings.HasPrefix(region["description"].(string), "region of the infrastructure") {
			t.Errorf("%s: region is described as %q", document, region["description"])
		}
		shoot := schemas[strings.TrimSuffix(name, "Spec")].(map[string]any)
		if shoot["x-kubernetes-group-version-kind"] == nil {
			t.Errorf("%s: Shoot has no group, version and kind", document)
		}
		provider := schemas[strings.Replace(name, "ShootSpec", "Provider", 1)].(map[string]any)
		workers := provider["properties"].(map[string]any)["workers"].(map[string]any)
		if workers["x-kubernetes-patch-merge-key"] != "name" {
			t.Errorf("%s: workers are merged by %v", document, workers["x-kubernetes-patch-merge-key"])
		}
	}
	var v3 struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw(t, e, "application/json", "/openapi/v3/apis/core.gardener.cloud/v1beta1"),
		&v3); err != nil {
		t.Fatal(err)
	}
	check("OpenAPI v3", v3.Components.Schemas)
	for _, gv := range []string{
		"core.gardener.cloud/v1", "security.gardener.cloud/v1alpha1", "seedmanagement.gardener.cloud/v1alpha1",
		"operations.gardener.cloud/v1alpha1",
	} {
		if err := json.Unmarshal(raw(t, e, "application/json", "/openapi/v3/apis/%s", gv), &v3); err != nil {
			// Adds to the previous ones.
			t.Fatal(err)
		}
	}
	documented(t, "OpenAPI v3", v3.Components.Schemas)
	env.Eventually(t, "the aggregated OpenAPI v2 document has our kinds", func() (bool, error) {
		var v2 struct {
			Definitions map[string]any `json:"definitions"`
		}
		if err := json.Unmarshal(raw(t, e, "application/json", "/openapi/v2"), &v2); err != nil {
			return false, err
		}
		if v2.Definitions[name] == nil {
			return false, nil
		}
		check("OpenAPI v2", v2.Definitions)
		documented(t, "OpenAPI v2", v2.Definitions)
		return true, nil
	})
}

// documented checks that kubectl explain has a description of each of our types and fields.
func documented(t *testing.T, document string, schemas map[string]any) {
	t.Helper()
	const ours = "com.github.gardener."
	types, fields := 0, 0
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if !strings.HasPrefix(name, ours) {
			continue
		}
		types++
		schema := schemas[name].(map[string]any)
		if description, _ := schema["description"].(string); description == "" {
			t.Errorf("%s: %s has no description", document, name)
		}
		properties, _ := schema["properties"].(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(properties)) {
			fields++
			description, _ := properties[field].(map[string]any)["description"].(string)
			if strings.TrimSpace(description) == "" {
				t.Errorf("%s: %s has no description of %s", document, name, field)
			}
		}
	}
	// There were 247 and 966 when this was written; far fewer would mean that the names have changed and nothing is
	// checked.
	if types < 200 || fields < 900 {
		t.Errorf("%s: only %d types with %d fields were checked", document, types, fields)
	}
}
