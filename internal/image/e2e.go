package image

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
)

const (
	testRepository = "registry.k8s.io/e2e-test-images/"
	// groupE2E is what [Select] takes for all of them.
	groupE2E = "e2e"
	// testPause is the pause container that tests name, whatever the nodes use.
	testPause = "registry.k8s.io/pause:3.10.2"
)

// E2E lists the images that Kubernetes' own end-to-end tests run, in the versions that those of the default version ask for.
// They behave like the originals as far as the tests of conformance look at them: nginx, for instance, is any server on port 80.
func E2E() []string {
	names := []string{testPause}
	for _, i := range testImages {
		names = append(names, i.name)
	}
	return names
}

// testImage is one of those images, beside the programs of the distribution and the tools for tests.
type testImage struct {
	name, user      string
	entrypoint, cmd []string
	// programs of the component go to the root folder, files wherever they say.
	programs []string
	files    []Entry
}

var (
	agnhost = []string{"/agnhost"}
	serve   = []string{"test-webserver"} // Serves the files of the image on port 80.
)

// busyboxShell is the shell of the image busybox, whose messages a spec compares. The busybox of the distribution drops variables
// whose names have dashes, which newer ones keep, so a command of one word is run without it.
const busyboxShell = `#!/bin/bash
if [[ $# = 2 && $1 = -c && $2 =~ ^[a-z]+$ && $(type -t "$2") = file ]]; then exec "$2"; fi
exec -a "$0" /bin/busybox "$@"
`

var testImages = []testImage{
	{name: testRepository + "agnhost:2.63.0", programs: []string{"agnhost"}, entrypoint: agnhost, cmd: []string{"pause"}},
	{name: testRepository + "agnhost:2.55", programs: []string{"agnhost"}, entrypoint: agnhost, cmd: []string{"pause"}},
	{
		name: testRepository + "busybox:1.37.0-1", cmd: []string{"sh"},
		files: []Entry{
			{Path: "bin/sh", Content: []byte(busyboxShell), Mode: 0o755}, {Path: "bin/sysctl", Symlink: "/bin/busybox"},
		},
	},
	{name: testRepository + "glibc-dns-testing:2.0.0", cmd: []string{"bash"}},
	{
		name: testRepository + "kitten:1.8", programs: []string{"agnhost"}, entrypoint: agnhost, cmd: serve,
		files: []Entry{
			{Path: "data.json", Content: []byte(`{"image": "kitten.jpg"}`)},
			// The image is also mounted as a volume, in which a spec looks for the system that the original is made from.
			{Path: "etc/os-release", Content: []byte("NAME=\"Alpine Linux\"\n")},
		},
	},
	{
		name: testRepository + "nautilus:1.8", programs: []string{"agnhost"}, entrypoint: agnhost, cmd: serve,
		files: []Entry{{Path: "data.json", Content: []byte(`{"image": "nautilus.jpg"}`)}},
	},
	{name: testRepository + "nginx:1.15-4", programs: []string{"agnhost"}, entrypoint: agnhost, cmd: serve},
	{name: testRepository + "nginx:1.27-0", programs: []string{"agnhost"}, entrypoint: agnhost, cmd: serve},
	{name: testRepository + "nonewprivs:1.4", programs: []string{"nnp"}, cmd: []string{"/nnp"}},
	{name: testRepository + "nonroot:1.5", user: "1234", cmd: []string{"id", "-u"}},
	{
		name: testRepository + "sample-apiserver:1.29.2", programs: []string{"sample-apiserver"},
		entrypoint: []string{"/sample-apiserver"},
	},
}

// testTools are programs of the distribution that tests call in their pods: the shell's own are not enough for them.
var testTools = []program{
	// The shell of busybox takes its own programs first, and drops variables whose names have dashes.
	{name: "bash", path: "bin/bash", links: []string{"sh"}},
	{name: "curl", path: "usr/bin/curl"},
	{name: "dig", path: "usr/bin/dig"},
	{name: "env", path: "usr/bin/env"}, // That of busybox does not print names with dashes.
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
		// A user whose groups are looked at.
		Entry{Path: "etc/passwd", Content: []byte("root:x:0:0:root:/root:/bin/sh\n" +
			"user-defined-in-image:x:1000:1000::/home:/bin/sh\n")},
		Entry{Path: "etc/group", Content: []byte("root:x:0:\nuser-defined-in-image:x:1000:\n" +
			"group-defined-in-image:x:50000:user-defined-in-image\n")},
		Entry{Path: "localhost.crt", Content: certificate}, Entry{Path: "localhost.key", Content: key},
		Entry{Path: "agnhost-2", Symlink: "/agnhost"},
		Entry{Path: "uploads", Mode: 0o1777, Dir: true}, temporary,
	), nil
}

// serverCertificate makes the certificate of servers in tests, which nobody checks, and its key: always the same, so that the
// image stays the same.
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
	return slices.ContainsFunc(testImages, func(i testImage) bool { return i.name == name })
}

// testRecipe returns the recipe of an image out of [E2E].
func testRecipe(i testImage, from sources) (recipe, error) {
	r := recipe{
		name: i.name, layers: [][]Entry{from.distribution, from.tools}, entrypoint: i.entrypoint, cmd: i.cmd, user: i.user,
	}
	files := slices.Clone(i.files)
	for _, name := range i.programs {
		source, err := from.program("e2e", "", name)
		if err != nil {
			return recipe{}, err
		}
		e := Entry{Path: name, Source: source}
		if name == "nnp" {
			e.Mode = 0o4755 // Runs as root, whoever starts it.
		}
		files = append(files, e)
	}
	if len(files) > 0 {
		r.layers = append(r.layers, files)
	}
	return r, nil
}
