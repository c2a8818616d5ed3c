package bench

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/internal/chart"
)

//go:embed manifests/*.yaml
var manifests embed.FS

const (
	coreAPI     = "/apis/core.gardener.cloud/v1beta1"
	securityAPI = "/apis/security.gardener.cloud/v1alpha1"
	// noScheduler is the name of a scheduler that does not run, so that no real one assigns the Shoots to a real Seed.
	noScheduler = "hortus-bench-none"
	// removal bounds the wait for controllers of the target to release objects.
	removal = 2 * time.Minute
	// acceptance bounds the wait until admission knows the objects that Shoots refer to.
	acceptance = 10 * time.Second
	// removalPoll is the interval at which removed objects are read; this wait is not measured.
	removalPoll = 200 * time.Millisecond
)

// workspace holds the objects that a bench has made for its Shoots.
type workspace struct {
	garden *jsonClient
	// Project names the project and its profile, and is part of the namespace's name.
	Project, Namespace string
	made               []string // Paths of objects, in the order in which they were made.
}

// makeWorkspace creates namespace, project, profile and credentials. The caller removes it, also after an error.
func makeWorkspace(ctx context.Context, garden *jsonClient, suffix string) (*workspace, error) {
	w := &workspace{garden: garden, Project: "b" + suffix, Namespace: "garden-b" + suffix}
	if err := w.create(ctx, "garden.yaml", w); err != nil {
		return w, err
	}
	return w, w.awaitAccepted(ctx)
}

// awaitAccepted creates a Shoot as a dry run until the server's admission has seen all objects that were made for it.
func (w *workspace) awaitAccepted(ctx context.Context) error {
	body, err := w.shootBodies(noScheduler)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, acceptance)
	defer cancel()
	for {
		_, err := w.garden.send(ctx, http.MethodPost, w.shoots()+"?dryRun=All", plainJSON, body(0))
		if err == nil || !hasStatus(err, http.StatusForbidden) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("try a Shoot: %w", err)
		case <-time.After(removalPoll):
		}
	}
}

// create creates the objects of a manifest.
func (w *workspace) create(ctx context.Context, file string, values any) error {
	objects, err := render(file, values)
	if err != nil {
		return err
	}
	for _, o := range objects {
		body, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		collection := collectionOf(o)
		if _, err := w.garden.send(ctx, http.MethodPost, collection, plainJSON, body); err != nil {
			return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		w.made = append(w.made, collection+"/"+o.GetName())
	}
	return nil
}

// collectionOf is the path of an object's collection. It knows only the kinds in the manifests.
func collectionOf(o *unstructured.Unstructured) string {
	path := "/apis/" + o.GetAPIVersion()
	if o.GetAPIVersion() == "v1" {
		path = "/api/v1"
	}
	if o.GetNamespace() != "" {
		path += "/namespaces/" + o.GetNamespace()
	}
	return path + "/" + strings.ToLower(o.GetKind()) + "s"
}

func (w *workspace) shoots() string           { return coreAPI + "/namespaces/" + w.Namespace + "/shoots" }
func (w *workspace) shoot(name string) string { return w.shoots() + "/" + name }

// remove deletes the objects that were made, in reverse order, and waits until they are gone. Namespaces disappear by
// themselves where a controller finalizes them.
func (w *workspace) remove(ctx context.Context) error {
	var errs []error
	for i := len(w.made) - 1; i >= 0; i-- {
		if _, err := w.garden.send(ctx, http.MethodDelete, w.made[i], plainJSON, nil); err != nil &&
			!hasStatus(err, http.StatusNotFound) {
			errs = append(errs, fmt.Errorf("remove %s: %w", w.made[i], err))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	for _, path := range w.made {
		if strings.HasPrefix(path, "/api/v1/namespaces/") {
			continue
		}
		if err := w.awaitGone(ctx, path); err != nil {
			errs = append(errs, err)
		}
	}
	w.made = nil
	return errors.Join(errs...)
}

func (w *workspace) awaitGone(ctx context.Context, path string) error {
	for {
		_, err := w.garden.send(ctx, http.MethodGet, path, "", nil)
		if hasStatus(err, http.StatusNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait for the end of %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is still there after %s", path, removal)
		case <-time.After(removalPoll):
		}
	}
}

// shootValues are the variable parts of a Shoot.
type shootValues struct {
	Name, Namespace, Project, Scheduler string
	Pools                               map[string]string // Machine type by name.
}

// shootNamePlaceholder is replaced by each Shoot's name, so that the manifest is rendered only once.
const shootNamePlaceholder = "shoot-name-of-bench"

// shootBodies returns a function that makes the body of a Shoot by its number.
func (w *workspace) shootBodies(scheduler string) (func(i int) []byte, error) {
	objects, err := render("shoot.yaml", shootValues{
		Name: shootNamePlaceholder, Namespace: w.Namespace, Project: w.Project, Scheduler: scheduler,
		Pools: map[string]string{"batch": "large", "system": "small"},
	})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(objects[0])
	if err != nil {
		return nil, fmt.Errorf("encode Shoot: %w", err)
	}
	return func(i int) []byte {
		return bytes.Replace(body, []byte(shootNamePlaceholder), []byte(shootName(i)), 1)
	}, nil
}

func shootName(i int) string { return fmt.Sprintf("s%05d", i) }

func render(file string, values any) ([]*unstructured.Unstructured, error) {
	parsed, err := template.New(file).Option("missingkey=error").ParseFS(manifests, "manifests/"+file)
	if err != nil {
		return nil, fmt.Errorf("parse manifest %s: %w", file, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("render manifest %s: %w", file, err)
	}
	objects, err := chart.Decode(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("decode manifest %s: %w", file, err)
	}
	return objects, nil
}
