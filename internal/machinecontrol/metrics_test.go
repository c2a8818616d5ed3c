package machinecontrol

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
)

// TestMetricsOfLibrariesAreServed: client-go's metrics are in other registries than those of the machine controller
// manager.
func TestMetricsOfLibrariesAreServed(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	client := discovery.NewDiscoveryClientForConfigOrDie(&rest.Config{Host: api.URL})
	client.RESTClient().Get().RequestURI("/version").Do(t.Context())
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "machine"})
	defer queue.ShutDown()

	recorder := httptest.NewRecorder()
	metricsHandler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(recorder.Result().Body)
	if err != nil || recorder.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", recorder.Code, err, body)
	}
	for _, metric := range []string{
		"mcm_", "process_resident_memory_bytes ", "go_goroutines ",
		`workqueue_depth\{.*name="machine"`, `rest_client_requests_total\{code="404"`,
	} {
		if !regexp.MustCompile("(?m)^" + metric).Match(body) {
			t.Errorf("%s is missing", metric)
		}
	}
	if strings.Contains(string(body), "\napiserver_") || strings.Contains(string(body), "\ncontroller_runtime_") {
		t.Error("metrics of other commands are served")
	}
}
