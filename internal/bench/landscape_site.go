package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/local/cloud"
)

// lookAgain is the interval at which a Shoot is read. It is the error of the measured times; a read costs the API
// server about a millisecond.
const lookAgain = 100 * time.Millisecond

// ownClusters are the landscape's own clusters. The first one holds the garden.
var ownClusters = []string{"garden", "seed-2"}

// localSite is the landscape of this machine.
type localSite struct {
	stateDir, runDir string
	// upFlags are passed on to 'hortus up' and 'hortus down'.
	upFlags []string
}

func (s *localSite) Up(ctx context.Context, out io.Writer) error {
	return s.hortus(ctx, out, append([]string{"up"}, s.upFlags...)...)
}

func (s *localSite) Down(ctx context.Context, out io.Writer) error {
	return s.hortus(ctx, out, append([]string{"down"}, s.upFlags...)...)
}

// hortus runs this program with another command, as a person would.
func (s *localSite) hortus(ctx context.Context, out io.Writer, arguments ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the hortus binary: %w", err)
	}
	run := exec.CommandContext(ctx, self, arguments...)
	run.Stdout, run.Stderr = out, out
	return run.Run()
}

// client reaches one of the landscape's own clusters.
func (s *localSite) client(cluster string) (*jsonClient, error) {
	config, err := loadKubeconfig(garden.KubeconfigPath(s.stateDir, cluster))
	if err != nil {
		return nil, err
	}
	return newJSONClient(config)
}

func shootPath(name string) string {
	return coreAPI + "/namespaces/" + landscapeNamespace + "/shoots/" + name
}

func (s *localSite) CreateShoot(ctx context.Context, name string) error {
	return s.create(ctx, "landscape-shoot.yaml", name)
}

// create makes a Shoot out of a manifest.
func (s *localSite) create(ctx context.Context, manifest, name string) error {
	c, err := s.client("garden")
	if err != nil {
		return err
	}
	objects, err := render(manifest, map[string]string{"Name": name, "Namespace": landscapeNamespace})
	if err != nil {
		return err
	}
	body, err := json.Marshal(objects[0])
	if err != nil {
		return fmt.Errorf("encode Shoot: %w", err)
	}
	_, err = c.send(ctx, http.MethodPost, collectionOf(objects[0]), plainJSON, body)
	return err
}

func (s *localSite) PatchShoot(ctx context.Context, name, patch string) error {
	c, err := s.client("garden")
	if err != nil {
		return err
	}
	_, err = c.send(ctx, http.MethodPatch, shootPath(name), string(types.MergePatchType), []byte(patch))
	return err
}

// shootState is the part of a Shoot that shows its progress.
type shootState struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		LastOperation      struct {
			State       string `json:"state"`
			Progress    int    `json:"progress"`
			Description string `json:"description"`
		} `json:"lastOperation"`
	} `json:"status"`
}

func (s shootState) succeeded() bool {
	return s.Status.ObservedGeneration == s.Metadata.Generation && s.Status.LastOperation.State == "Succeeded"
}

func (s *localSite) AwaitSucceeded(ctx context.Context, name string) error {
	c, err := s.client("garden")
	if err != nil {
		return err
	}
	var state shootState
	for {
		state = shootState{}
		if err := c.read(ctx, shootPath(name), &state); err != nil {
			return fmt.Errorf("wait for success: it is at %d%% (%s): %w", state.Status.LastOperation.Progress,
				state.Status.LastOperation.Description, err)
		}
		if state.succeeded() {
			return nil
		}
		if err := sleep(ctx, lookAgain); err != nil {
			return fmt.Errorf("wait for success: it is at %d%% (%s): %w", state.Status.LastOperation.Progress,
				state.Status.LastOperation.Description, err)
		}
	}
}

func (s *localSite) AwaitNode(ctx context.Context, name string) error {
	c, err := s.client("garden")
	if err != nil {
		return err
	}
	var shoot *jsonClient
	for {
		if shoot == nil {
			shoot, err = shootClient(ctx, c, name)
		}
		if shoot != nil {
			var ready bool
			if ready, err = hasReadyNode(ctx, shoot); ready {
				return nil
			}
		}
		// Errors are expected while the control plane comes up. The last one shows why it does not.
		if ended := sleep(ctx, lookAgain); ended != nil {
			return fmt.Errorf("wait for a Node: %w (last answer: %v)", ended, err)
		}
	}
}

func shootClient(ctx context.Context, c *jsonClient, name string) (*jsonClient, error) {
	config, err := shootConfig(ctx, c, name)
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second // Connections that are made too early may hang.
	return newJSONClient(config)
}

// shootConfig requests access to a Shoot from the garden.
func shootConfig(ctx context.Context, c *jsonClient, name string) (*rest.Config, error) {
	kubeconfig, err := shootKubeconfig(ctx, c, name)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of Shoot %s: %w", name, err)
	}
	return config, nil
}

func shootKubeconfig(ctx context.Context, c *jsonClient, name string) ([]byte, error) {
	const request = `{"apiVersion":"authentication.gardener.cloud/v1alpha1","kind":"AdminKubeconfigRequest","spec":{"expirationSeconds":3600}}`
	stream, err := c.start(ctx, http.MethodPost, shootPath(name)+"/adminkubeconfig", plainJSON, []byte(request))
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var answer struct {
		Status struct {
			Kubeconfig []byte `json:"kubeconfig"`
		} `json:"status"`
	}
	if err := json.NewDecoder(stream).Decode(&answer); err != nil {
		return nil, fmt.Errorf("decode kubeconfig of Shoot %s: %w", name, err)
	}
	return answer.Status.Kubeconfig, nil
}

func hasReadyNode(ctx context.Context, c *jsonClient) (bool, error) {
	var nodes struct {
		Items []struct {
			Status struct {
				Conditions []struct {
					Type   string `json:"type"`
					Status string `json:"status"`
				} `json:"conditions"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := c.read(ctx, "/api/v1/nodes", &nodes); err != nil {
		return false, err
	}
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				return true, nil
			}
		}
	}
	return false, nil
}

func (s *localSite) DeleteShoot(ctx context.Context, name string) error {
	c, err := s.client("garden")
	if err != nil {
		return err
	}
	if _, err := c.send(ctx, http.MethodDelete, shootPath(name), plainJSON, nil); err != nil &&
		!hasStatus(err, http.StatusNotFound) {
		return fmt.Errorf("delete Shoot %s: %w", name, err)
	}
	for {
		_, err := c.send(ctx, http.MethodGet, shootPath(name), "", nil)
		if hasStatus(err, http.StatusNotFound) {
			return nil
		}
		if err == nil {
			err = sleep(ctx, lookAgain)
		}
		if err != nil {
			return fmt.Errorf("wait for the end of Shoot %s: %w", name, err)
		}
	}
}

// Look reads the pods of the landscape's own clusters, their instances, and all processes of this machine.
func (s *localSite) Look(ctx context.Context) (*ground, []process, error) {
	g := &ground{pods: map[string]podKey{}, own: map[string]bool{}, marks: []string{s.stateDir, s.runDir}}
	for _, cluster := range ownClusters {
		c, err := s.client(cluster)
		if err != nil {
			return nil, nil, err
		}
		if err := addPods(ctx, c, g.pods); err != nil {
			return nil, nil, fmt.Errorf("list pods of cluster %q: %w", cluster, err)
		}
	}
	config, err := cloud.LoadConfig(cloud.AdminFile(s.stateDir))
	if err != nil {
		return nil, nil, fmt.Errorf("read access to the cloud: %w", err)
	}
	provider, err := cloud.New(config)
	if err != nil {
		return nil, nil, err
	}
	instances, err := provider.ListInstances(ctx, cloud.Filter{})
	if err != nil {
		return nil, nil, err
	}
	for _, instance := range instances {
		if _, own := instance.Tags["hortus.dev/cluster"]; own {
			g.own[instance.ID] = true
		}
	}
	processes, err := readProcesses("/proc")
	return g, processes, err
}

// addPods adds the pods of a cluster by the UIDs that their cgroups are named by. That of a static pod is the hash of
// its manifest.
func addPods(ctx context.Context, c *jsonClient, pods map[string]podKey) error {
	var list struct {
		Items []struct {
			Metadata struct {
				Name        string            `json:"name"`
				Namespace   string            `json:"namespace"`
				UID         string            `json:"uid"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := c.read(ctx, "/api/v1/pods", &list); err != nil {
		return err
	}
	for _, pod := range list.Items {
		uid := pod.Metadata.UID
		if hash := pod.Metadata.Annotations["kubernetes.io/config.hash"]; hash != "" {
			uid = hash
		}
		pods[uid] = podKey{pod.Metadata.Namespace, pod.Metadata.Name}
	}
	return nil
}

// sleep waits for d or until ctx ends, in which case it returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
