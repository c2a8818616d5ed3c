package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// noiseObjects and noiseBytes are the number and the size of the objects in lists of noisy tenants, 4 MB per list.
	noiseObjects = 500
	noiseBytes   = 8 << 10
	// noiseClients is the number of clients of each noisy tenant.
	noiseClients = 4
	noiseCommand = "make-noise"
)

// noise is a kind of request that a tenant repeats as often as it can.
type noise struct {
	name string
	make func(ctx context.Context, c *jsonClient, i int) (int64, error)
}

// noises are ways to keep an API server busy.
var noises = []noise{
	{"lists of 4 MB", func(ctx context.Context, c *jsonClient, _ int) (int64, error) {
		return c.send(ctx, http.MethodGet, configMaps, "", nil)
	}},
	{"watches with 4 MB each at their beginning", func(ctx context.Context, c *jsonClient, _ int) (int64, error) {
		const initial = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
		return c.send(ctx, http.MethodGet, configMaps+initial, "", nil)
	}},
	{"writes of 8 KB", func(ctx context.Context, c *jsonClient, i int) (int64, error) {
		path := fmt.Sprintf("%s/noise-%d", configMaps, i%noiseObjects)
		return c.send(ctx, http.MethodPatch, path, mergePatch, fmt.Appendf(nil, `{"data":{"turn":"%d"}}`, i))
	}},
}

// fill makes the objects of a noisy tenant.
func fill(ctx context.Context, c *jsonClient) error {
	for i := range noiseObjects {
		body, err := configMap(fmt.Sprintf("noise-%d", i), strings.Repeat("n", noiseBytes))
		if err != nil {
			return err
		}
		if _, err := c.send(ctx, http.MethodPost, configMaps, plainJSON, body); err != nil {
			return err
		}
	}
	return nil
}

func configMap(name, text string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
		"data": map[string]string{"text": text},
	})
}

// makeNoise makes noise with all clients until the context ends, and returns the number of requests that succeeded.
func makeNoise(ctx context.Context, n noise, clients []*jsonClient) int {
	made := make([]int, len(clients))
	var wg sync.WaitGroup
	for k, c := range clients {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := n.make(ctx, c, i); err == nil { // Excess requests may be refused.
					made[k]++
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, m := range made {
		total += m
	}
	return total
}

// noiseOrder is the input of a process that makes noise. The process ends with its standard input.
type noiseOrder struct {
	Noise       string   `json:"noise"`
	Kubeconfigs [][]byte `json:"kubeconfigs"`
}

// noiseResult is the output of that process.
type noiseResult struct {
	Made int `json:"made"`
}

// newNoiseCommand is for processes of the bench itself.
func newNoiseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    noiseCommand,
		Short:  "Run the clients of noisy tenants until standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := leastShare(); err != nil { // The figures are worse without it, but still useful.
				fmt.Fprintf(command.ErrOrStderr(), "the share of noisy clients stays as it is: %v\n", err)
			}
			return obeyNoiseOrder(command.Context(), command.InOrStdin(), command.OutOrStdout())
		},
	}
}

// leastShare gives the session of this process the smallest share of the processors. Linux shares them between sessions
// first, and by priority only within one; it does so for processes without a cgroup of their own.
func leastShare() error {
	err := os.WriteFile("/proc/self/autogroup", []byte("19"), 0)
	if errors.Is(err, os.ErrNotExist) { // The kernel has no autogroups.
		return nil
	}
	return err
}

func obeyNoiseOrder(ctx context.Context, in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(in)
	var order noiseOrder
	if err := decoder.Decode(&order); err != nil {
		return fmt.Errorf("read what noise to make: %w", err)
	}
	i := slices.IndexFunc(noises, func(n noise) bool { return n.name == order.Noise })
	if i < 0 {
		return fmt.Errorf("unknown noise %q", order.Noise)
	}
	var clients []*jsonClient
	for _, kubeconfig := range order.Kubeconfigs {
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			return fmt.Errorf("read kubeconfig: %w", err)
		}
		more, err := newJSONClients(config, noiseClients)
		if err != nil {
			return err
		}
		clients = append(clients, more...)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, io.MultiReader(decoder.Buffered(), in))
		cancel()
	}()
	return json.NewEncoder(out).Encode(noiseResult{makeNoise(ctx, noises[i], clients)})
}

// startNoise starts a process of its own with the lowest priority: in practice clients run elsewhere and do not use the
// processors that serve them. The function that it returns ends the noise and returns the number of requests.
func startNoise(ctx context.Context, program string, order noiseOrder) (func() (int, error), error) {
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	// By nice, since a running process can change the priority of only one of its threads.
	command := exec.CommandContext(ctx, "nice", "-n", "19", program, "bench", noiseCommand)
	// A session of its own has a share of its own, see leastShare.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the clients of noisy tenants: %w", err)
	}
	_, writeErr := in.Write(text)
	return func() (int, error) {
		closeErr := in.Close()
		var result noiseResult
		readErr := json.NewDecoder(out).Decode(&result)
		if err := errors.Join(writeErr, closeErr, readErr, command.Wait()); err != nil {
			return 0, fmt.Errorf("clients of noisy tenants: %w", err)
		}
		return result.Made, nil
	}, nil
}
