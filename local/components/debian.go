package components

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// DebianPackage is a package that the distribution has to provide. Its presence is checked by its files and not with
// dpkg, so that a distribution with other packages but the same files will do.
type DebianPackage struct {
	Name string
	// One of these determines whether it is installed: a program on the search path, globs of which one has to match, or a
	// function.
	program string
	files   []string
	present func() bool
}

var (
	gcc        = DebianPackage{Name: "gcc", program: "gcc"}
	libc       = DebianPackage{Name: "libc6-dev", files: []string{"/usr/lib/libc.a", "/usr/lib/*/libc.a"}}
	pkgConfig  = DebianPackage{Name: "pkg-config", program: "pkg-config"}
	libseccomp = DebianPackage{Name: "libseccomp-dev", files: []string{"/usr/lib/libseccomp.a", "/usr/lib/*/libseccomp.a"}}
)

// MachinePackages are the packages with the distribution's programs in machine images.
var MachinePackages = []DebianPackage{
	{Name: "busybox-static", present: func() bool { _, err := StaticBusybox(); return err == nil }},
	{Name: "conntrack", program: "conntrack"},
	{Name: "iptables", program: "xtables-nft-multi"},
	{Name: "mount", program: "mount"},
	{Name: "nftables", program: "nft"},
}

// Systemd is the package of process 1 of hosts in tests of the node agent.
var Systemd = DebianPackage{Name: "systemd", files: []string{"/usr/lib/systemd/systemd"}}

// sbin is searched too: an unprivileged user's PATH often lacks it.
var sbin = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// TestPackages are the packages with the distribution's programs in images of Kubernetes' end-to-end tests.
var TestPackages = []DebianPackage{
	{Name: "bash", program: "bash"},
	{Name: "bind9-dnsutils", program: "dig"},
	{Name: "bind9-host", program: "host"},
	{Name: "coreutils", program: "env"},
	{Name: "curl", program: "curl"},
	{Name: "libc-bin", program: "getent"},
	{Name: "netcat-openbsd", program: "nc.openbsd"},
}

// LookProgram finds a program of the distribution and resolves links.
func LookProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range sbin {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, name))
	}
	if err != nil {
		return "", fmt.Errorf("find program %q: %w", name, err)
	}
	return filepath.EvalSymlinks(path)
}

// StaticBusybox finds a busybox that needs no libraries. The package busybox has a dynamic one, under the same name.
func StaticBusybox() (string, error) {
	path, err := LookProgram("busybox")
	if err != nil {
		return "", err
	}
	f, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	if f.Section(".interp") != nil {
		return "", fmt.Errorf("%s is not statically linked", path)
	}
	return path, nil
}

func (p DebianPackage) isPresent() bool {
	switch {
	case p.program != "":
		_, err := LookProgram(p.program)
		return err == nil
	case len(p.files) > 0:
		return slices.ContainsFunc(p.files, func(pattern string) bool {
			found, _ := filepath.Glob(pattern)
			return len(found) > 0
		})
	default:
		return p.present()
	}
}

// missingPackages returns the names of the absent packages, sorted.
func missingPackages(packages []DebianPackage) []string {
	var missing []string
	for _, p := range packages {
		if !p.isPresent() {
			missing = append(missing, p.Name)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// EnsurePackages installs missing packages with apt-get. Where that is not possible, the error names the packages that
// the user has to install.
func EnsurePackages(ctx context.Context, progress io.Writer, packages ...DebianPackage) error {
	missing := missingPackages(packages)
	if len(missing) == 0 {
		return nil
	}
	manual := fmt.Errorf("missing Debian packages, install them with: apt-get install %s", strings.Join(missing, " "))
	if os.Geteuid() != 0 {
		return manual
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return manual
	}
	fmt.Fprintf(progress, "installing Debian packages %s\n", strings.Join(missing, " "))
	if err := aptInstall(ctx, missing...); err != nil {
		return errors.Join(manual, err)
	}
	return nil
}

// aptInstall runs `apt-get install`. Package lists may be absent or too old for the mirror, so they are fetched only
// after a first failure.
func aptInstall(ctx context.Context, args ...string) error {
	install := append([]string{"install", "-y", "-q", "--no-install-recommends"}, args...)
	if runQuietly(ctx, "apt-get", install...) == nil {
		return nil
	}
	if err := runQuietly(ctx, "apt-get", "update", "-q"); err != nil {
		return err
	}
	return runQuietly(ctx, "apt-get", install...)
}

// runQuietly keeps the output for the error, where it explains the failure.
func runQuietly(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s %s: %w\n%s", name, strings.Join(args, " "), err, tail(output.String(), errorLines))
	}
	return nil
}

// errorLines is the number of lines shown of the end of a failed command's output: compilers and apt-get print the
// cause last.
const errorLines = 20

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
