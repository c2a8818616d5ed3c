package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listTar renders the headers of an archive, one line each.
func listTar(t *testing.T, raw []byte) []string {
	t.Helper()
	var lines []string
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(epoch) || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s has time %s and owner %d:%d", h.Name, h.ModTime, h.Uid, h.Gid)
		}
		lines = append(lines, fmt.Sprintf("%c %04o %d %s %s", h.Typeflag, h.Mode, h.Size, h.Name, h.Linkname))
	}
}

func TestLayerContent(t *testing.T) {
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	sorted, err := normalize([]Entry{
		{Path: "/usr/bin/z", Source: source},
		{Path: "a/alias", Hardlink: "usr/bin/z"},
		{Path: "tmp", Mode: 0o1777, Dir: true},
		{Path: "etc/text", Content: []byte("hello")},
		{Path: "bin/sh", Symlink: "/bin/busybox"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeTar(&out, sorted); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"5 0755 0 a/ ",
		"5 0755 0 bin/ ",
		"2 0777 0 bin/sh /bin/busybox",
		"5 0755 0 etc/ ",
		"0 0644 5 etc/text ",
		"5 1777 0 tmp/ ",
		"5 0755 0 usr/ ",
		"5 0755 0 usr/bin/ ",
		"0 0755 5 usr/bin/z ",
		"1 0755 0 a/alias usr/bin/z", // The link follows its target, with the target's mode.
	}
	if diff := cmp.Diff(want, listTar(t, out.Bytes())); diff != "" {
		t.Errorf("layer mismatch (-want +got):\n%s", diff)
	}
}

func TestNormalizeRefuses(t *testing.T) {
	for name, entries := range map[string][]Entry{
		"a path twice":                   {{Path: "a", Content: []byte("1")}, {Path: "/a", Content: []byte("2")}},
		"a file as a folder":             {{Path: "a", Content: []byte("1")}, {Path: "a/b", Content: []byte("2")}},
		"a hard link to nothing":         {{Path: "a", Hardlink: "b"}},
		"a hard link to a symbolic link": {{Path: "a", Hardlink: "b"}, {Path: "b", Symlink: "c"}},
		"a hard link to another one": {
			{Path: "a", Hardlink: "b"}, {Path: "b", Hardlink: "c"}, {Path: "c", Content: []byte("1")},
		},
		"a file below a link of the same": {{Path: "run", Symlink: "/r"}, {Path: "run/x", Content: []byte("1")}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := normalize(entries); err == nil {
				t.Error("normalize() accepts it")
			}
		})
	}
}

func TestEqualFilesMakeEqualLayers(t *testing.T) {
	var digests []string
	for i, modified := range []time.Time{time.Unix(1e9, 0), time.Unix(1.5e9, 0)} {
		dir := t.TempDir()
		source := filepath.Join(dir, fmt.Sprint("program-", i))
		if err := os.WriteFile(source, []byte("same"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(source, modified, modified); err != nil {
			t.Fatal(err)
		}
		entries := []Entry{{Path: "b", Source: source}, {Path: "a/c", Content: []byte("x")}}
		if i == 1 {
			entries[0], entries[1] = entries[1], entries[0]
		}
		store, err := OpenStore(filepath.Join(dir, "images"))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := store.Layer(entries)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest.String())
	}
	if digests[0] != digests[1] {
		t.Errorf("layers of the same files differ: %v", digests)
	}
}

func TestParseLdd(t *testing.T) {
	const output = `/usr/sbin/nft:
	linux-vdso.so.1 (0x00007f76e61da000)
	libnftables.so.1 => /lib/x86_64-linux-gnu/libnftables.so.1 (0x00007f76e60e7000)
	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f76e5ecb000)
	/lib64/ld-linux-x86-64.so.2 (0x00007f76e61dc000)
/usr/bin/static:
	statically linked
/usr/bin/mount:
	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fd30d00c000)
`
	got, err := parseLdd(output)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libnftables.so.1", "/lib64/ld-linux-x86-64.so.2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parseLdd() mismatch (-want +got):\n%s", diff)
	}
	if _, err := parseLdd("\tlibx.so.1 => not found\n"); err == nil {
		t.Error("parseLdd() ignores a missing library")
	}
}
