package test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

const (
	jsonType     = runtime.ContentTypeJSON
	protobufType = runtime.ContentTypeProtobuf
	classes      = "/apis/core.gardener.cloud/v1beta1/exposureclasses"
)

// answer is the response to a request.
type answer struct {
	status      int
	contentType string
	body        []byte
	err         error
}

func ask(t *testing.T, e *env.Environment, verb, path string, headers map[string]string, body string) answer {
	t.Helper()
	c, err := kubernetes.NewForConfig(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	request := c.RESTClient().Verb(verb).AbsPath(path)
	if body != "" {
		request.Body([]byte(body)).Param("dryRun", metav1.DryRunAll)
	}
	for key, value := range headers {
		request.SetHeader(key, value)
	}
	var a answer
	result := request.Do(t.Context()).StatusCode(&a.status).ContentType(&a.contentType)
	a.body, a.err = result.Raw()
	return a
}

func TestEncodingOfAnswers(t *testing.T) {
	e := env.Shared(t)
	class := &corev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: env.Name("class-")}, Handler: "x"}
	e.Create(t, class)
	for name, tc := range map[string]struct {
		accept string
		status int
		want   string
	}{
		"JSON":                    {jsonType, http.StatusOK, jsonType},
		"protobuf, else JSON":     {protobufType + "," + jsonType, http.StatusOK, jsonType},
		"protobuf, else anything": {protobufType + ", */*", http.StatusOK, jsonType},
		"YAML":                    {runtime.ContentTypeYAML, http.StatusOK, runtime.ContentTypeYAML},
		"nothing but protobuf":    {protobufType, http.StatusNotAcceptable, ""},
		"table in protobuf, else JSON": {
			protobufType + ";as=Table;v=v1;g=meta.k8s.io," + jsonType + ";as=Table;v=v1;g=meta.k8s.io", http.StatusOK, jsonType,
		},
		"table only in protobuf": {protobufType + ";as=Table;v=v1;g=meta.k8s.io", http.StatusNotAcceptable, ""},
		// Options are the library's own type.
		"metadata in protobuf, else JSON": {
			protobufType + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io," + jsonType +
				";as=PartialObjectMetadata;v=v1;g=meta.k8s.io", http.StatusOK, protobufType,
		},
	} {
		for _, path := range []string{classes, classes + "/" + class.Name} {
			t.Run(name+" of "+strings.TrimPrefix(path, "/apis/"), func(t *testing.T) {
				accept := tc.accept
				if path == classes {
					accept = strings.ReplaceAll(accept, "as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
				}
				got := ask(t, e, http.MethodGet, path, map[string]string{"Accept": accept}, "")
				if got.status != tc.status || tc.want != "" && got.contentType != tc.want {
					t.Fatalf("status %d, %q: %v\n%.200s", got.status, got.contentType, got.err, got.body)
				}
				if tc.want == jsonType && !json.Valid(got.body) {
					t.Errorf("no JSON: %.200s", got.body)
				}
			})
		}
	}
}

func TestEncodingOfRequests(t *testing.T) {
	e := env.Shared(t)
	manifest := func(name string) string {
		return `{"apiVersion":"core.gardener.cloud/v1beta1","kind":"ExposureClass","metadata":{"name":"` + name +
			`"},"handler":"x"}`
	}
	for name, tc := range map[string]struct {
		contentType, body string
		status            int
	}{
		"JSON": {jsonType, manifest(env.Name("class-")), http.StatusCreated},
		"YAML": {
			runtime.ContentTypeYAML, "apiVersion: core.gardener.cloud/v1beta1\nkind: ExposureClass\nmetadata: {name: " +
				env.Name("class-") + "}\nhandler: x\n", http.StatusCreated,
		},
		"no type means JSON": {"", manifest(env.Name("class-")), http.StatusCreated},
		"protobuf":           {protobufType, "k8s\x00\x0a\x00", http.StatusUnsupportedMediaType},
		"something else":     {"text/plain", manifest(env.Name("class-")), http.StatusUnsupportedMediaType},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, e, http.MethodPost, classes, map[string]string{"Content-Type": tc.contentType}, tc.body)
			if got.status != tc.status {
				t.Errorf("status %d: %v\n%.300s", got.status, got.err, got.body)
			}
		})
	}
}

// TestMistakesInDocumentsAreLocated writes values of the wrong type.
func TestMistakesInDocumentsAreLocated(t *testing.T) {
	e := env.Shared(t)
	class := &corev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: env.Name("class-")}, Handler: "x"}
	e.Create(t, class)
	for what, tc := range map[string]struct{ method, path, contentType, body string }{
		"create": {
			http.MethodPost, classes, jsonType,
			`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"ExposureClass","metadata":{"name":"x"},"handler":"x","scheduling":{"tolerations":[{"key":5}]}}`,
		},
		"patch": {
			http.MethodPatch, classes + "/" + class.Name, "application/merge-patch+json",
			`{"scheduling":{"tolerations":[{"key":5}]}}`,
		},
	} {
		got := ask(t, e, tc.method, tc.path, map[string]string{"Content-Type": tc.contentType}, tc.body)
		if !strings.Contains(string(got.body), "scheduling.tolerations[0].key: json: cannot unmarshal number") {
			t.Errorf("%s: status %d: %s", what, got.status, got.body)
		}
	}
}

// TestClientsThatPreferProtobuf: client-go falls back if possible. It accepts protobuf and all other types, so
// responses are in JSON. Options of a deletion are the server library's own type, which it decodes from protobuf, too.
// The client does not send objects that it cannot encode.
func TestClientsThatPreferProtobuf(t *testing.T) {
	e := env.Shared(t)
	ctx := t.Context()
	config := rest.CopyConfig(e.Config)
	config.ContentType, config.AcceptContentTypes = protobufType, ""
	typed, err := client.NewWithWatch(config, client.Options{Scheme: e.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	class := &corev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: env.Name("class-")}, Handler: "x"}
	e.Create(t, class)

	got := &corev1beta1.ExposureClass{}
	if err := typed.Get(ctx, client.ObjectKeyFromObject(class), got); err != nil || got.Handler != "x" {
		t.Errorf("get: %q, %v", got.Handler, err)
	}
	list := &corev1beta1.ExposureClassList{}
	if err := typed.List(ctx, list, client.MatchingFields{"metadata.name": class.Name}); err != nil ||
		len(list.Items) != 1 {
		t.Errorf("list: %d, %v", len(list.Items), err)
	}
	w, err := typed.Watch(ctx, &corev1beta1.ExposureClassList{}, client.MatchingFields{"metadata.name": class.Name})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()
	if event := <-w.ResultChan(); event.Type != watch.Added || event.Object.(*corev1beta1.ExposureClass).Handler != "x" {
		t.Errorf("watch: %+v", event)
	}
	if err := typed.Patch(ctx, got, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil || got.Labels["a"] != "b" {
		t.Errorf("patch: %v, %v", got.Labels, err)
	}
	other := &corev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: env.Name("class-")}, Handler: "x"}
	if err := typed.Create(ctx, other); err == nil ||
		!strings.Contains(err.Error(), "does not implement the protobuf marshalling interface") {
		t.Errorf("create in protobuf: %v, want an error of the client itself", err)
	}
	if err := typed.Delete(ctx, got, client.Preconditions{UID: ptr.To(got.UID)}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if event := <-w.ResultChan(); event.Type != watch.Modified {
		t.Errorf("watch: %+v", event)
	}
	if event := <-w.ResultChan(); event.Type != watch.Deleted {
		t.Errorf("watch: %+v", event)
	}

	// As the garbage collector and the namespace controller do.
	e.Create(t, other)
	resource := corev1beta1.SchemeGroupVersion.WithResource("exposureclasses")
	meta, err := metadata.NewForConfig(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := meta.Resource(resource).Get(ctx, other.Name, metav1.GetOptions{}); err != nil || o.UID != other.UID {
		t.Errorf("get of metadata: %v", err)
	}
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + other.Name}
	if l, err := meta.Resource(resource).List(ctx, options); err != nil || len(l.Items) != 1 ||
		l.Items[0].UID != other.UID {
		t.Errorf("list of metadata: %v", err)
	}
	mw, err := meta.Resource(resource).Watch(ctx, options)
	if err != nil {
		t.Fatalf("watch of metadata: %v", err)
	}
	defer mw.Stop()
	if event := <-mw.ResultChan(); event.Type != watch.Added ||
		event.Object.(*metav1.PartialObjectMetadata).UID != other.UID {
		t.Errorf("watch of metadata: %+v", event)
	}
	if err := meta.Resource(resource).Delete(ctx, other.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other.UID}}); err != nil {
		t.Errorf("delete by metadata: %v", err)
	}
}

// watched reads a watch until the last event.
func watched(
	t *testing.T, e *env.Environment, resource schema.GroupVersionResource, options metav1.ListOptions,
	last func(watch.Event) bool,
) []watch.Event {
	t.Helper()
	out, complete := watchedUntilItsEnd(t, e, resource, options, last)
	if !complete {
		t.Fatalf("the watch has ended after %v", out)
	}
	return out
}

// watchedUntilItsEnd is [watched] for a watch that may end before the last event.
func watchedUntilItsEnd(
	t *testing.T, e *env.Environment, resource schema.GroupVersionResource, options metav1.ListOptions,
	last func(watch.Event) bool,
) (out []watch.Event, complete bool) {
	t.Helper()
	c, err := dynamic.NewForConfig(e.Config)
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Resource(resource).Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		out = append(out, event)
		if last(event) {
			return out, true
		}
	}
	return out, false
}

func resourceVersion(event watch.Event) string {
	return event.Object.(metav1.Object).GetResourceVersion()
}

func isBookmark(event watch.Event) bool { return event.Type == watch.Bookmark }

func TestWatchBookmarks(t *testing.T) {
	e := env.Shared(t)
	class := &corev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: env.Name("class-")}, Handler: "x"}
	e.Create(t, class)
	// The server sends a bookmark 2 s before the watch ends by its timeout. A busy one may be late.
	var got []watch.Event
	for _, timeout := range []int64{4, 15, 30} {
		var complete bool
		got, complete = watchedUntilItsEnd(t, e, corev1beta1.SchemeGroupVersion.WithResource("exposureclasses"),
			metav1.ListOptions{
				FieldSelector: "metadata.name=" + class.Name, AllowWatchBookmarks: true, ResourceVersion: "0",
				TimeoutSeconds: &timeout,
			}, isBookmark)
		if complete {
			break
		}
	}
	if len(got) == 0 || !isBookmark(got[len(got)-1]) {
		t.Fatalf("no bookmark, but %v", got)
	}
	if bookmark := got[len(got)-1]; resourceVersion(bookmark) == "" ||
		bookmark.Object.GetObjectKind().GroupVersionKind().Kind != "ExposureClass" {
		t.Errorf("the bookmark is %+v", bookmark.Object)
	}
}

func TestWatchList(t *testing.T) {
	e := env.Shared(t)
	class := &corev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: env.Name("class-")}, Handler: "x"}
	e.Create(t, class)
	for name, version := range map[string]string{
		"from any version": "", "from the one of its creation": class.ResourceVersion,
	} {
		t.Run(name, func(t *testing.T) {
			got := watched(t, e, corev1beta1.SchemeGroupVersion.WithResource("exposureclasses"), metav1.ListOptions{
				FieldSelector: "metadata.name=" + class.Name, SendInitialEvents: ptr.To(true), ResourceVersion: version,
				ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
			}, isBookmark)
			if len(got) != 2 || got[0].Type != watch.Added || resourceVersion(got[0]) != class.ResourceVersion {
				t.Fatalf("events before the bookmark: %+v", got)
			}
			annotations := got[1].Object.(metav1.Object).GetAnnotations()
			if annotations[metav1.InitialEventsAnnotationKey] != "true" || resourceVersion(got[1]) == "" {
				t.Errorf("the bookmark is %+v", got[1].Object)
			}
		})
	}
}
