package encryption

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	cbc1 = Provider{AESCBC, "key1"}
	cbc2 = Provider{AESCBC, "key2"}
	box1 = Provider{Secretbox, "key1"}
	keys = map[string]string{"key1": "MQ==", "key2": "Mg=="}
)

func target(writer Provider, resources ...string) Target {
	return Target{Resources: resources, Writer: writer, Keys: keys}
}

func config(providers map[string][]Provider) Config {
	return Config{Providers: providers, Keys: keys}.withUsedKeys()
}

func TestNext(t *testing.T) {
	rolledOut, rewritten := State{RolledOut: true}, State{RolledOut: true, Rewritten: true}
	kept := target(cbc2, "secrets")
	kept.Keep = []Provider{cbc1}
	for name, tc := range map[string]struct {
		inUse  []Provider // Providers of secrets.
		target Target
		state  State
		want   []Provider
		phase  Phase
	}{
		"nothing to do": {
			[]Provider{cbc1, Plain}, target(cbc1, "secrets"), State{}, []Provider{cbc1, Plain}, Settled,
		},
		"a new key is read first": {
			[]Provider{cbc1, Plain}, target(cbc2, "secrets"), State{}, []Provider{cbc1, cbc2, Plain}, Learning,
		},
		"it does not write before all servers can read": {
			[]Provider{cbc1, cbc2, Plain}, target(cbc2, "secrets"), State{}, []Provider{cbc1, cbc2, Plain}, Switching,
		},
		"then it writes": {
			[]Provider{cbc1, cbc2, Plain}, target(cbc2, "secrets"), rolledOut, []Provider{cbc2, cbc1, Plain}, Switching,
		},
		"the old one stays until everything is rewritten": {
			[]Provider{cbc2, cbc1, Plain}, target(cbc2, "secrets"), rolledOut, []Provider{cbc2, cbc1, Plain}, Rewriting,
		},
		"and goes then": {
			[]Provider{cbc2, cbc1, Plain}, target(cbc2, "secrets"), rewritten, []Provider{cbc2, Plain}, Rewriting,
		},
		"a proof without a roll-out does not count": {
			[]Provider{cbc2, cbc1, Plain}, target(cbc2, "secrets"), State{Rewritten: true}, []Provider{
				cbc2, cbc1, Plain,
			}, Rewriting,
		},
		"a kept one stays": {
			[]Provider{cbc2, cbc1, Plain}, kept, rewritten, []Provider{cbc2, cbc1, Plain}, Settled,
		},
		"a new cipher is read first": {
			[]Provider{cbc1, Plain}, target(box1, "secrets"), rewritten, []Provider{cbc1, box1, Plain}, Learning,
		},
		"a resource that is added is read first": {nil, target(cbc1, "secrets"), rewritten, []Provider{
			Plain, cbc1,
		}, Learning},
		"a resource that is removed becomes plain": {
			[]Provider{cbc1, Plain}, target(cbc1), rolledOut, []Provider{Plain, cbc1}, Switching,
		},
		"and is read until everything is plain": {
			[]Provider{Plain, cbc1}, target(cbc1), rolledOut, []Provider{Plain, cbc1}, Rewriting,
		},
		"and is no longer listed then": {[]Provider{Plain, cbc1}, target(cbc1), rewritten, nil, Rewriting},
		"a change that is reverted in between": {
			[]Provider{box1, cbc1, Plain}, target(cbc1, "secrets"), rolledOut, []Provider{cbc1, box1, Plain}, Switching,
		},
		"a change that is reverted before it wrote": {
			[]Provider{cbc1, box1, Plain}, target(cbc1, "secrets"), rewritten, []Provider{cbc1, Plain}, Rewriting,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inUse := config(map[string][]Provider{"secrets": tc.inUse})
			if tc.inUse == nil {
				inUse = Config{}
			}
			got := Next(inUse, tc.target, tc.state)
			if diff := cmp.Diff(tc.want, got.Providers["secrets"]); diff != "" {
				t.Errorf("Next() mismatch (-want +got):\n%s", diff)
			}
			if phase := PhaseOf(inUse, tc.target); phase != tc.phase {
				t.Errorf("PhaseOf() = %s, want %s", phase, tc.phase)
			}
		})
	}
}

func TestConfigIsReadAsWritten(t *testing.T) {
	for _, c := range []Config{
		{Providers: map[string][]Provider{}, Keys: map[string]string{}},
		config(map[string][]Provider{"secrets": {cbc1, Plain}, "configmaps": {cbc1, Plain}}),
		config(map[string][]Provider{"secrets": {cbc2, cbc1, box1, Plain}, "configmaps": {Plain, box1}}),
	} {
		got, err := Parse(c.Render())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("Parse(Render()) mismatch (-want +got):\n%s", diff)
		}
	}
}

func TestParseShowsNoKeys(t *testing.T) {
	_, err := Parse([]byte("resources: [{providers: [{aescbc: {keys: [{name: a, secret: geheim}]}]"))
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("Parse() = %v, want an error without the key", err)
	}
}

func TestStoragePrefix(t *testing.T) {
	for resource, want := range map[string]string{
		"secrets": "/registry/secrets/", "services": "/registry/services/specs/",
		"deployments.apps": "/registry/deployments/",
		"foos.example.com": "/registry/example.com/foos/", "leases.coordination.k8s.io": "/registry/leases/",
		"customresourcedefinitions.apiextensions.k8s.io": "/registry/apiextensions.k8s.io/customresourcedefinitions/",
	} {
		if got := StoragePrefix(resource); got != want {
			t.Errorf("StoragePrefix(%q) = %q, want %q", resource, got, want)
		}
	}
}

// world is a control plane with several API servers, each with the Config that it started with.
type world struct {
	inUse   Config
	servers []Config
	stored  map[string]Provider // By "resource/object": the provider that has written it.
}

func (w *world) rolledOut() bool {
	return !slices.ContainsFunc(w.servers, func(s Config) bool { return !s.Equal(w.inUse) })
}

func (w *world) rewritten() bool {
	for object, p := range w.stored {
		resource, _, _ := strings.Cut(object, "/")
		if w.inUse.Of(resource)[0] != p {
			return false
		}
	}
	return true
}

// With all targets and interruptions, every server can always read every object.
func TestEveryServerReadsEveryObject(t *testing.T) {
	const seeds, steps = 200, 100
	all := []string{"secrets", "configmaps", "foos.example.com"}
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 0))
		pick := func() Target {
			out := target(Provider{ciphers[random.IntN(3)], fmt.Sprintf("key%d", 1+random.IntN(2))}, "secrets")
			for _, r := range all[1:] {
				if random.IntN(2) == 0 {
					out.Resources = append(out.Resources, r)
				}
			}
			if random.IntN(3) == 0 {
				out.Keep = []Provider{{ciphers[random.IntN(3)], "key1"}}
			}
			return out
		}
		goal := pick()
		w := &world{inUse: goal.Config(), stored: map[string]Provider{}}
		w.servers = []Config{w.inUse, w.inUse}
		act := func(choice int) {
			switch choice {
			case 0: // The user changes the target.
				goal = pick()
			case 1: // The gardenlet makes a pass.
				w.inUse = Next(w.inUse, goal, State{RolledOut: w.rolledOut(), Rewritten: w.rolledOut() && w.rewritten()})
			case 2, 3: // A server is replaced.
				w.servers[random.IntN(len(w.servers))] = w.inUse
			case 4, 5: // A server writes.
				resource := all[random.IntN(len(all))]
				server := w.servers[random.IntN(len(w.servers))]
				w.stored[fmt.Sprintf("%s/%d", resource, random.IntN(5))] = server.Of(resource)[0]
			case 6: // Everything is rewritten.
				for object := range w.stored {
					resource, _, _ := strings.Cut(object, "/")
					w.stored[object] = w.servers[random.IntN(len(w.servers))].Of(resource)[0]
				}
			case 7: // Everything except etcd is lost.
				if random.IntN(20) == 0 {
					w.inUse = goal.Recover(w.inUse, AnyCipher(all, keys))
					w.servers = []Config{w.inUse, w.inUse}
				}
			}
			for object, p := range w.stored {
				resource, _, _ := strings.Cut(object, "/")
				for _, server := range w.servers {
					if !slices.Contains(server.Of(resource), p) {
						t.Fatalf("seed %d: a server with %v can't read %s, which %v has written", seed, server.Providers, object, p)
					}
				}
			}
		}
		for range steps {
			act(random.IntN(8))
		}
		// Without further changes the configuration settles.
		for range 20 {
			for _, choice := range []int{2, 3, 6, 1} {
				act(choice)
			}
			w.servers = []Config{w.inUse, w.inUse}
		}
		if phase := PhaseOf(w.inUse, goal); phase != Settled || !w.inUse.Equal(goal.Config()) {
			t.Fatalf("seed %d: phase %s with %v, want the target %v", seed, phase, w.inUse.Providers, goal.Config().Providers)
		}
	}
}
