package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"hortus.dev/hortus/local/cloud"
)

const (
	// writePeriod is the pause between two writes of the client, writeTimeout bounds one write.
	writePeriod  = 50 * time.Millisecond
	writeTimeout = 10 * time.Second
	// moveTimeout is many times the duration of a move.
	moveTimeout = 10 * time.Minute
)

// seedNames are the seeds of the landscape, between which control planes move.
var seedNames = []string{"local-1", "local-2"}

// Move runs 'hortus move shoot' while a client writes.
func (s *localSite) Move(ctx context.Context, name string) (MoveTimes, error) {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	garden, err := s.client("garden")
	if err != nil {
		return MoveTimes{}, err
	}
	var shoot struct {
		Spec struct {
			SeedName string `json:"seedName"`
		} `json:"spec"`
	}
	if err := garden.read(ctx, shootPath(name), &shoot); err != nil {
		return MoveTimes{}, err
	}
	times := MoveTimes{Shoot: name, From: shoot.Spec.SeedName, To: seedNames[0]}
	if times.From == times.To {
		times.To = seedNames[1]
	}
	w, err := s.startWriter(ctx, garden, name)
	if err != nil {
		return MoveTimes{}, err
	}
	var out bytes.Buffer
	start := time.Now()
	err = s.hortus(ctx, &out, "move", "shoot", name, "-n", landscapeNamespace, "--to", times.To)
	times.Seconds = time.Since(start).Seconds()
	written := w.end()
	times.Writes, times.GapSeconds = len(written), w.gap.Seconds()
	if err != nil {
		return MoveTimes{}, fmt.Errorf("%w\n%s", err, out.String())
	}
	times.Lost, err = w.missing(ctx, written)
	return times, err
}

// writer writes ConfigMaps, each over a new connection to the address to which the API server's name resolves at that
// time.
type writer struct {
	config   *rest.Config
	resolver *net.Resolver
	prefix   string
	stop     context.CancelFunc
	result   chan []string
	gap      time.Duration // The longest between two acknowledged writes; valid after end.
}

func (s *localSite) startWriter(ctx context.Context, garden *jsonClient, shoot string) (*writer, error) {
	config, err := shootConfig(ctx, garden, shoot)
	if err != nil {
		return nil, err
	}
	nameServer, err := s.nameServer()
	if err != nil {
		return nil, err
	}
	w := &writer{
		config: config, prefix: "bench-" + suffix() + "-", result: make(chan []string, 1),
		resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, nameServer)
		}},
	}
	if err := w.write(ctx, w.prefix+"first"); err != nil { // A client that never worked measures nothing.
		return nil, err
	}
	writing, cancel := context.WithCancel(ctx)
	w.stop = cancel
	go func() { w.result <- w.run(writing) }()
	return w, nil
}

// nameServer is the address of the cloud's name server, which runs on the same host as its API.
func (s *localSite) nameServer() (string, error) {
	config, err := cloud.LoadConfig(cloud.AdminFile(s.stateDir))
	if err != nil {
		return "", fmt.Errorf("read access to the cloud: %w", err)
	}
	endpoint, err := url.Parse(config.Endpoint)
	if err != nil {
		return "", fmt.Errorf("read address of the cloud: %w", err)
	}
	return net.JoinHostPort(endpoint.Hostname(), "53"), nil
}

// end stops the writer and returns the acknowledged writes.
func (w *writer) end() []string {
	w.stop()
	return <-w.result
}

func (w *writer) run(ctx context.Context) []string {
	acknowledged, last := []string{w.prefix + "first"}, time.Now()
	for n := 0; sleep(ctx, writePeriod) == nil; n++ {
		name := fmt.Sprintf("%s%d", w.prefix, n)
		if err := w.write(ctx, name); err != nil {
			continue
		}
		now := time.Now()
		w.gap, last = max(w.gap, now.Sub(last)), now
		acknowledged = append(acknowledged, name)
	}
	w.gap = max(w.gap, time.Since(last))
	return acknowledged
}

const writtenPath = "/api/v1/namespaces/default/configmaps"

func (w *writer) write(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": name}})
	if err != nil {
		return fmt.Errorf("encode ConfigMap: %w", err)
	}
	answer, err := w.send(ctx, http.MethodPost, writtenPath, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if answer.StatusCode != http.StatusCreated {
		return &statusError{answer.StatusCode, http.MethodPost, writtenPath, fmt.Sprintf("%.500s", text)}
	}
	return nil
}

// send makes a connection for one request.
func (w *writer) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	tlsConfig, err := rest.TLSConfigFor(w.config)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true, DialContext: w.dial}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(w.config.Host, "/")+path,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", plainJSON)
	return (&http.Client{Transport: transport}).Do(request)
}

// dial connects to the address to which the name resolves now: kubeconfigs of the local landscape have addresses, since
// the host does not know the names of the local cloud.
func (w *writer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if name := w.config.ServerName; name != "" {
		addresses, err := w.resolver.LookupHost(ctx, name)
		if err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		address = net.JoinHostPort(addresses[0], port)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// missing counts acknowledged writes that the Shoot does not have.
func (w *writer) missing(ctx context.Context, acknowledged []string) (int, error) {
	answer, err := w.send(ctx, http.MethodGet, writtenPath, nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if answer.StatusCode != http.StatusOK {
		return 0, &statusError{code: answer.StatusCode, method: http.MethodGet, path: writtenPath}
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return 0, fmt.Errorf("GET %s: decode answer: %w", writtenPath, err)
	}
	there := map[string]bool{}
	for _, item := range list.Items {
		there[item.Metadata.Name] = true
	}
	lost := 0
	for _, name := range acknowledged {
		if !there[name] {
			lost++
		}
	}
	return lost, nil
}
