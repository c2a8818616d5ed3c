package images

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"time"

	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/components"
)

const (
	testRepository = "registry.k8s.io/e2e-test-images/"
	// testComponent has the programs of most images, in the default version.
	testComponent = "e2e"
	// groupE2E is the name by which [Select] selects all of them.
	groupE2E = "e2e"
)

// testPauses and testEtcds are images that tests name, whatever control planes and nodes use.
var (
	testPauses = []string{"registry.k8s.io/pause:3.10.2", "registry.k8s.io/pause:3.10.1"}
	testEtcds  = []string{"registry.k8s.io/etcd:3.6.8-0", "registry.k8s.io/etcd:3.6.6-0", "registry.k8s.io/etcd:3.6.4-0"}
)

// E2E lists the images that Kubernetes' own end-to-end tests run, in the tags that the tests of all versions request,
// without [Pause] and [Etcd], which exist anyway. They behave like the originals as far as the conformance tests look
// at them: nginx, for instance, is any server on port 80.
func E2E() []string {
	names := slices.DeleteFunc(slices.Concat(testPauses, testEtcds),
		func(name string) bool { return name == image.Pause || name == image.Etcd })
	for _, i := range testImages {
		names = append(names, i.names()...)
	}
	return names
}

// testImage describes one of those images: its content in addition to the programs of the distribution and the tools
// for tests. It has the same content under all its tags.
type testImage struct {
	tags            []string
	user            string
	entrypoint, cmd []string
	// programs of the component (default: the end-to-end tests) are put into the root folder, files at their own paths.
	component string
	programs  []string
	files     []Entry
}

func (i testImage) names() []string {
	var names []string
	for _, tag := range i.tags {
		names = append(names, testRepository+tag)
	}
	return names
}

var (
	agnhost = []string{"/agnhost"}
	serve   = []string{"test-webserver"} // Serves the files of the image on port 80.
)

// busyboxShell is the shell of the image busybox, whose messages a spec compares. The busybox of the distribution drops
// variables whose names have dashes, which newer ones keep, so a command of one word is run without it.
const busyboxShell = `#!/bin/bash
if [[ $# = 2 && $1 = -c && $2 =~ ^[a-z]+$ && $(type -t "$2") = file ]]; then exec "$2"; fi
exec -a "$0" /bin/busybox "$@"
`

// serveHTTPD stands in for Apache: probes see at once which files exist, and the server ends on SIGTERM.
const serveHTTPD = "trap exit TERM; busybox httpd -f -p 80 -h /usr/local/apache2/htdocs & wait"

// testImages have the tags of Kubernetes 1.36, 1.35 and 1.34, in this order where they differ.
var testImages = []testImage{
	{
		tags:     []string{"agnhost:2.63.0", "agnhost:2.59", "agnhost:2.56", "agnhost:2.55"},
		programs: []string{"agnhost"}, entrypoint: agnhost, cmd: []string{"pause"},
	},
	{
		tags: []string{"busybox:1.37.0-1"}, cmd: []string{"sh"},
		files: []Entry{
			{Path: "bin/sh", Content: []byte(busyboxShell), Mode: 0o755}, {Path: "bin/sysctl", Symlink: "/bin/busybox"},
		},
	},
	{tags: []string{"glibc-dns-testing:2.0.0", "jessie-dnsutils:1.7"}, cmd: []string{"bash"}},
	{
		tags: []string{"httpd:2.4.38-4", "httpd:2.4.39-4"}, cmd: []string{"sh", "-c", serveHTTPD},
		files: []Entry{{
			Path: "usr/local/apache2/htdocs/index.html", Content: []byte("<html><body>It works!</body></html>\n"),
		}},
	},
	{
		tags: []string{"kitten:1.8", "kitten:1.7"}, programs: []string{"agnhost"}, entrypoint: agnhost, cmd: serve,
		files: []Entry{
			{Path: "data.json", Content: []byte(`{"image": "kitten.jpg"}`)},
			// The image is also mounted as a volume, in which a spec looks for the operating system of the original image.
			{Path: "etc/os-release", Content: []byte("NAME=\"Alpine Linux\"\n")},
		},
	},
	{
		tags: []string{"nautilus:1.8", "nautilus:1.7"}, programs: []string{"agnhost"}, entrypoint: agnhost, cmd: serve,
		files: []Entry{{Path: "data.json", Content: []byte(`{"image": "nautilus.jpg"}`)}},
	},
	{
		tags:     []string{"nginx:1.27-0", "nginx:1.15-4", "nginx:1.14-4"},
		programs: []string{"agnhost"}, entrypoint: agnhost, cmd: serve,
	},
	{tags: []string{"nonewprivs:1.4", "nonewprivs:1.3"}, programs: []string{"nnp"}, cmd: []string{"/nnp"}},
	{tags: []string{"nonroot:1.5", "nonroot:1.4"}, user: "1234", cmd: []string{"id", "-u"}},
	{
		tags: []string{"sample-apiserver:1.29.2"}, component: "sample-apiserver", programs: []string{"sample-apiserver"},
		entrypoint: []string{"/sample-apiserver"},
	},
}

// testTools are programs of the distribution that tests call in their pods: the shell's own are not enough for them.
var testTools = []program{
	// The shell of busybox prefers its own programs, and drops variables whose names have dashes.
	{name: "bash", path: "bin/bash", links: []string{"sh"}},
	{name: "curl", path: "usr/bin/curl"},
	{name: "dig", path: "usr/bin/dig"},
	{name: "env", path: "usr/bin/env"}, // The env of busybox does not print names with dashes.
	{name: "getent", path: "usr/bin/getent"},
	{name: "host", path: "usr/bin/host"},
	{name: "nc.openbsd", path: "usr/bin/nc"},
	{name: "nslookup", path: "usr/bin/nslookup"},
}

// tools collects the programs for tests.
func tools(ctx context.Context) ([]Entry, error) {
	entries, err := collect(ctx, testTools)
	if err != nil {
		return nil, err
	}
	certificate, key, err := serverCertificate()
	if err != nil {
		return nil, err
	}
	return append(entries,
		Entry{Path: "etc/nsswitch.conf", Content: []byte("hosts: files dns\n")},
		// A user whose groups a spec checks.
		Entry{Path: "etc/passwd", Content: []byte("root:x:0:0:root:/root:/bin/sh\n" +
			"user-defined-in-image:x:1000:1000::/home:/bin/sh\n")},
		Entry{Path: "etc/group", Content: []byte("root:x:0:\nuser-defined-in-image:x:1000:\n" +
			"group-defined-in-image:x:50000:user-defined-in-image\n")},
		Entry{Path: "localhost.crt", Content: certificate}, Entry{Path: "localhost.key", Content: key},
		Entry{Path: "agnhost-2", Symlink: "/agnhost"},
		Entry{Path: "uploads", Mode: 0o1777, Dir: true}, temporary,
	), nil
}

// serverCertificate makes the certificate of servers in tests, which nobody checks, and its key: always the same, so
// that the image stays the same.
func serverCertificate() (certificate, key []byte, err error) {
	seed := sha256.Sum256([]byte("localhost"))
	private := ed25519.NewKeyFromSeed(seed[:])
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:  time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(nil, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate for tests: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key for tests: %w", err)
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

// usesTools says whether the image is one of [testImages].
func usesTools(name string) bool {
	return slices.ContainsFunc(testImages, func(i testImage) bool { return slices.Contains(i.names(), name) })
}

// testRecipe returns the recipe of an image out of [testImages].
func testRecipe(name string, i testImage, from sources) (recipe, error) {
	r := recipe{
		name: name, layers: [][]Entry{from.distribution, from.tools}, entrypoint: i.entrypoint, cmd: i.cmd, user: i.user,
	}
	files := slices.Clone(i.files)
	for _, program := range i.programs {
		component, version := i.component, ""
		if component == "" {
			component, version = testComponent, components.KubernetesDefaultVersion
		}
		source, err := from.program(component, version, program)
		if err != nil {
			return recipe{}, err
		}
		e := Entry{Path: program, Source: source}
		if program == "nnp" {
			e.Mode = 0o4755 // Runs as root for all users (setuid).
		}
		files = append(files, e)
	}
	if len(files) > 0 {
		r.layers = append(r.layers, files)
	}
	return r, nil
}
