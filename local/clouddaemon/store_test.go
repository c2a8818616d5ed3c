package clouddaemon

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "hortus.dev/hortus/local/cloud"
)

func testNetwork(id, name string) network {
	return network{Network: api.Network{ID: id, Name: name, Account: "a"}}
}

func TestUpdateIsAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s, err := openStore(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.update(func(tx *tx) error { s.networks.put(tx, "n1", testNetwork("n1", "one")); return nil }); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("changed my mind")
	err = s.update(func(tx *tx) error {
		s.networks.put(tx, "n2", testNetwork("n2", "two"))
		s.networks.put(tx, "n1", testNetwork("n1", "renamed"))
		s.networks.remove(tx, "n1")
		return failure
	})
	if !errors.Is(err, failure) {
		t.Fatalf("update() = %v, want the function's error", err)
	}
	want := map[string]network{"n1": testNetwork("n1", "one")}
	if diff := cmp.Diff(want, s.networks.rows); diff != "" {
		t.Errorf("rows after a failed update mismatch (-want +got):\n%s", diff)
	}
	if _, ok := s.networks.byName("a/one"); !ok {
		t.Error("the name of the surviving record is lost")
	}
	if _, ok := s.networks.byName("a/two"); ok {
		t.Error("the name of a record that was not written is known")
	}
	revision := s.revision
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openStore(path, true); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if diff := cmp.Diff(want, s.networks.rows); diff != "" {
		t.Errorf("rows after opening again mismatch (-want +got):\n%s", diff)
	}
	if s.revision != revision {
		t.Errorf("revision after opening again = %d, want %d", s.revision, revision)
	}
}
