package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// ChartMediaType is the media type of the layer that holds a chart, as `helm push` writes it:
// https://helm.sh/docs/topics/registries.
const ChartMediaType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// ResolvePeriod is how long a tag is taken to name the same chart, also if it could not be resolved.
const ResolvePeriod = 5 * time.Minute

const (
	// pullTimeout bounds one pull, so that a registry that does not answer holds up nothing else for long.
	pullTimeout = 30 * time.Second
	// maxSize of a chart's archive in bytes. What it is rendered to is compressed and has to fit into a Secret of 1 MiB.
	maxSize = 10 << 20
)

// Source says where a chart is, and with what it is read.
type Source struct {
	// Reference in full, with a tag or a digest, such as registry.example.org/charts/dns:1.0.0.
	Reference string
	// DockerConfig holds the credentials of registries, in the format of .dockerconfigjson. Empty: none.
	DockerConfig []byte
	// CABundle holds certificates in PEM that are trusted besides those of the system. Empty: none.
	CABundle []byte
}

// Puller pulls charts. It keeps the last one of each owner in memory.
type Puller struct {
	Clock clock.PassiveClock

	mu     sync.Mutex
	charts map[string]pulled
}

type pulled struct {
	reference string
	digest    v1.Hash
	resolved  time.Time // The last attempt.
	chart     Chart
}

// Chart is what a registry has for a reference.
type Chart struct {
	// Archive is the gzipped tar archive.
	Archive []byte
	// Stale is why the tag could not be resolved again: Archive is the chart that it last named. Nil if it was resolved.
	Stale error
}

// Pull returns an owner's chart. A reference with a digest is pulled once, a tag is resolved again every
// [ResolvePeriod]. If that fails, the chart that it last named is returned, and is marked as stale. An error means that
// there is none.
func (p *Puller) Pull(ctx context.Context, owner string, s Source) (Chart, error) {
	reference, err := name.ParseReference(strings.TrimPrefix(s.Reference, "oci://"))
	if err != nil {
		return Chart{}, err
	}
	p.mu.Lock()
	last, found := p.charts[owner]
	p.mu.Unlock()
	now := p.Clock.Now()
	found = found && last.reference == s.Reference
	if _, fixed := reference.(name.Digest); found && (fixed || now.Sub(last.resolved) < ResolvePeriod) {
		return last.chart, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	next, err := fetch(ctx, reference, s, last)
	if err != nil {
		err = fmt.Errorf("pull chart %s: %w", reference, err)
	}
	switch {
	case err != nil && !found:
		return Chart{}, err
	case err != nil:
		ctrl.LoggerFrom(ctx).Info("Using the chart that was pulled last", "reference", s.Reference, "digest",
			last.digest.String(), "error", err.Error())
		next = last
	}
	next.chart.Stale = err
	next.reference, next.resolved = s.Reference, now
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.charts == nil {
		p.charts = map[string]pulled{}
	}
	p.charts[owner] = next
	return next.chart, nil
}

// Forget drops the chart of an owner.
func (p *Puller) Forget(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.charts, owner)
}

// fetch resolves a reference and reads its chart, unless that is the last one.
func fetch(ctx context.Context, reference name.Reference, s Source, last pulled) (pulled, error) {
	credentials, err := parseCredentials(s.DockerConfig)
	if err != nil {
		return pulled{}, err
	}
	transport, err := transportFor(s.CABundle)
	if err != nil {
		return pulled{}, err
	}
	defer transport.CloseIdleConnections()
	manifest, err := remote.Get(reference, remote.WithContext(ctx), remote.WithTransport(encrypted{transport}),
		remote.WithAuthFromKeychain(credentials), remote.WithUserAgent("hortus"))
	if err != nil {
		return pulled{}, err
	}
	if manifest.Digest == last.digest {
		return last, nil
	}
	if !manifest.MediaType.IsImage() {
		return pulled{}, fmt.Errorf("%s is a %s, not a chart", manifest.Digest, manifest.MediaType)
	}
	image, err := manifest.Image()
	if err != nil {
		return pulled{}, err
	}
	archive, err := chartOf(image)
	return pulled{digest: manifest.Digest, chart: Chart{Archive: archive}}, err
}

// chartOf reads the layer with the chart. Its digest is verified while it is read.
func chartOf(image v1.Image) ([]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != ChartMediaType {
			continue
		}
		if layer.Size > maxSize {
			return nil, fmt.Errorf("the chart has %d bytes (at most %d)", layer.Size, maxSize)
		}
		content, err := image.LayerByDigest(layer.Digest)
		if err != nil {
			return nil, err
		}
		from, err := content.Compressed()
		if err != nil {
			return nil, err
		}
		defer from.Close()
		return io.ReadAll(from)
	}
	return nil, fmt.Errorf("it has no layer of type %s, so it is no chart", ChartMediaType)
}

// encrypted refuses requests without TLS, which clients of registries try for local addresses, with their credentials.
type encrypted struct{ *http.Transport }

func (e encrypted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s://%s: registries are read with TLS only", r.URL.Scheme, r.URL.Host)
	}
	return e.Transport.RoundTrip(r)
}

// transportFor trusts certificates besides those of the system.
func transportFor(bundle []byte) (*http.Transport, error) {
	transport := remote.DefaultTransport.(*http.Transport).Clone()
	if len(bundle) == 0 {
		return transport, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the certificates of the system: %w", err)
	}
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, errors.New("the CA bundle has no certificate in PEM")
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport, nil
}
