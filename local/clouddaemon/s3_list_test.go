package clouddaemon

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "hortus.dev/hortus/local/cloud"
)

// listSlowly defines the result of a listing: it checks every key.
func listSlowly(keys []string, prefix, delimiter string) (out []string) {
	for _, key := range keys {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		if name, _, found := strings.Cut(rest, delimiter); delimiter != "" && found {
			key = prefix + name + delimiter
		}
		if !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

func TestListPagesHaveEverythingOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, err := openStore(filepath.Join(t.TempDir(), "db"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	alphabet := []string{"a", "b", "/", "/", "\xff", "0"}
	known := map[string]bool{}
	err = s.update(func(tx *tx) error {
		for range 400 {
			key := ""
			for range 1 + random.IntN(7) {
				key += alphabet[random.IntN(len(alphabet))]
			}
			known[key] = true
			for _, bucket := range []string{"aaa", "bbb", "bbb2"} { // Other keys must not be listed.
				s.objects.put(tx, objectKey(bucket, key), object{Object: api.Object{Key: key}, Bucket: bucket})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for key := range known {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, prefix := range []string{"", "a", "a/", "/", "//", "\xff", "b0", "none"} {
		for _, delimiter := range []string{"", "/", "a", "//"} {
			for _, limit := range []int{1, 2, 7, 1000} {
				t.Run(fmt.Sprintf("prefix %q delimiter %q by %d", prefix, delimiter, limit), func(t *testing.T) {
					var got []string
					for marker, more := "", true; more; {
						page, err := listPage(s, "bbb", prefix, delimiter, marker, limit)
						if err != nil {
							t.Fatal(err)
						}
						var names []string
						for _, o := range page.Contents {
							names = append(names, o.Key)
						}
						for _, p := range page.CommonPrefixes {
							names = append(names, p.Prefix)
						}
						slices.Sort(names)
						if len(names) > limit {
							t.Fatalf("a page has %d entries", len(names))
						}
						got = append(got, names...)
						marker, more = page.NextMarker, page.IsTruncated
					}
					if diff := cmp.Diff(listSlowly(keys, prefix, delimiter), got); diff != "" {
						t.Errorf("mismatch (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}

func BenchmarkListPage(b *testing.B) {
	s, err := openStore(filepath.Join(b.TempDir(), "db"), true)
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	err = s.update(func(tx *tx) error {
		for i := range 20_000 {
			key := fmt.Sprintf("entry-%d/%06d", i%20, i)
			s.objects.put(tx, objectKey("backups", key), object{Object: api.Object{Key: key}, Bucket: "backups"})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if page, err := listPage(s, "backups", "entry-7/", "", "", 1000); err != nil || len(page.Contents) != 1000 {
			b.Fatal(len(page.Contents), err)
		}
	}
}
