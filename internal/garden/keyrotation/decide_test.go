package keyrotation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/hortus/internal/encryption"
)

// config is a configuration that lists keys for every resource, the writer first.
func config(keys ...string) encryption.Config {
	c := encryption.Config{Providers: map[string][]encryption.Provider{}, Keys: map[string]string{}}
	for _, resource := range Resources {
		for _, key := range keys {
			c.Providers[resource] = append(c.Providers[resource], encryption.Provider{Cipher: encryption.Secretbox, Key: key})
			c.Keys[key] = "secret of " + key
		}
		c.Providers[resource] = append(c.Providers[resource], encryption.Plain)
	}
	return c
}

func TestNext(t *testing.T) {
	const delay = 2 * time.Minute
	for name, tc := range map[string]struct {
		state state
		want  step
		keys  string // Configuration after the step.
	}{
		"a garden that has never rotated": {state{config: config("key1"), rolledOut: true}, begin, "key1 key2"},
		"servers that are rolling out come first": {
			state{config: config("key1")}, rollOut, "key1"},
		"the new key is not in backups yet": {
			state{config: config("key1", "key2"), rolledOut: true, keyAge: delay - 1}, wait, "key1 key2"},
		"the new key is not known to all servers": {
			state{config: config("key1", "key2"), keyAge: delay}, rollOut, "key1 key2"},
		"the new key is known and safe": {
			state{config: config("key1", "key2"), rolledOut: true, keyAge: delay}, write, "key2 key1"},
		"all servers write with it": {
			state{config: config("key2", "key1"), rolledOut: true}, rewrite, "key2 key1"},
		"some servers write with the old one": {
			state{config: config("key2", "key1")}, rollOut, "key2 key1"},
		"the first rotation has nothing to drop": {
			state{config: config("key2", "key1"), rolledOut: true, rewrittenWith: "key2"}, finish, "key2 key1"},
		"objects rewritten by an earlier run do not count": {
			state{config: config("key3", "key1", "key2"), rolledOut: true, rotatedTo: "key2"}, rewrite, "key3 key1 key2"},
		"objects rewritten with another key do not count": {
			state{config: config("key3", "key1", "key2"), rolledOut: true, rotatedTo: "key2", rewrittenWith: "key2"}, rewrite,
			"key3 key1 key2"},
		"the key before the predecessor is dropped": {
			state{
				config: config("key3", "key1", "key2"), rolledOut: true, rotatedTo: "key2", rewrittenWith: "key3",
			}, drop, "key3 key2"},
		"servers without it are rolled out before the end": {
			state{config: config("key3", "key2"), rotatedTo: "key2", rewrittenWith: "key3"}, rollOut, "key3 key2"},
		"the end is recorded": {
			state{
				config: config("key3", "key2"), rolledOut: true, rotatedTo: "key2", rewrittenWith: "key3",
			}, finish, "key3 key2"},
		"this run has completed a rotation": {
			state{config: config("key3", "key2"), rolledOut: true, rotatedTo: "key3", active: true}, done, "key3 key2"},
		"an earlier run has completed it": {
			state{config: config("key3", "key2"), rolledOut: true, rotatedTo: "key3"}, begin, "key3 key2 key4"},
		"numbers are no text": {
			state{config: config("key10", "key9"), rolledOut: true, rotatedTo: "key10"}, begin, "key10 key11 key9"},
		"a key with a foreign name": {
			state{config: config("mine"), rolledOut: true}, begin, "mine key1"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.state.backupDelay = delay
			got, err := next(tc.state)
			if err != nil || got != tc.want {
				t.Fatalf("next() = %s, %v, want %s", got, err, tc.want)
			}
			after, err := configAfter(got, tc.state.config, "new")
			if err != nil {
				t.Fatal(err)
			}
			for _, resource := range Resources {
				var keys []string
				for _, p := range after.Of(resource) {
					keys = append(keys, p.Key)
				}
				// Plain text is read, as the last provider.
				slices.Sort(keys[min(1, len(keys)) : len(keys)-1])
				want := strings.Fields(tc.keys)
				slices.Sort(want[1:])
				if got := strings.Join(keys, " "); got != strings.Join(want, " ")+" " {
					t.Errorf("%s has keys %q, want %q", resource, got, tc.keys)
				}
			}
		})
	}
}

func TestKeysWithoutAnOrderAreRefused(t *testing.T) {
	for name, c := range map[string]encryption.Config{"two names of others": config("mine", "yours"), "no key": config()} {
		if does, err := next(state{config: c, rolledOut: true}); err == nil {
			t.Errorf("%s: %s", name, does)
		}
	}
}

func TestResourcesThatAreAddedLaterAreEncrypted(t *testing.T) {
	c := config("key1")
	delete(c.Providers, Resources[0])
	c.Providers["secrets.example.com"] = c.Providers[Resources[1]]
	s := state{config: c, rolledOut: true}
	for range 10 {
		does, err := next(s)
		if err != nil {
			t.Fatal(err)
		}
		if s.config, err = configAfter(does, s.config, "new"); err != nil {
			t.Fatal(err)
		}
		if does == rewrite {
			s.rewrittenWith = "key2"
		}
		if does == finish {
			break
		}
	}
	for _, resource := range append([]string{"secrets.example.com"}, Resources...) {
		if writer := s.config.Of(resource)[0].Key; writer != "key2" {
			t.Errorf("%s is written with %q", resource, writer)
		}
	}
}

// Servers are replaced one by one, the command stops anywhere, and any server writes objects: every server reads every
// object.
func TestNoObjectIsEverUnreadable(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := state{config: config("key1")}
		servers := []encryption.Config{s.config, s.config, s.config}
		stored := map[string]encryption.Provider{}
		rotations := 0
		for i := range 300 {
			switch random.IntN(4) {
			case 0: // The command, which may be a new run.
				if random.IntN(10) == 0 {
					s.active, s.rewrittenWith = false, ""
				}
				s.rolledOut = !slices.ContainsFunc(servers, func(c encryption.Config) bool { return !c.Equal(s.config) })
				does, err := next(s)
				if err != nil {
					t.Fatal(err)
				}
				target, err := targetOf(s.config)
				if err != nil {
					t.Fatal(err)
				}
				switch does {
				case rewrite:
					s.rewrittenWith = target.Writer.Key
					for object := range stored {
						stored[object] = servers[random.IntN(len(servers))].Of(Resources[0])[0]
					}
				case finish:
					s.rotatedTo = target.Writer.Key
					rotations++
				}
				s.active = s.active || does != rollOut
				if does == done {
					s.active = false
				}
				if s.config, err = configAfter(does, s.config, fmt.Sprint("secret ", i)); err != nil {
					t.Fatal(err)
				}
			case 1, 2: // A server is replaced.
				servers[random.IntN(len(servers))] = s.config
			case 3: // A server writes.
				stored[fmt.Sprint(random.IntN(5))] = servers[random.IntN(len(servers))].Of(Resources[0])[0]
			}
			for object, by := range stored {
				for _, server := range servers {
					if !slices.Contains(server.Of(Resources[0]), by) {
						t.Fatalf("seed %d: a server with %v can't read object %s, written with %s", seed, server.Of(Resources[0]), object,
							by.Key)
					}
				}
			}
		}
		if rotations == 0 {
			t.Errorf("seed %d: no rotation was completed", seed)
		}
	}
}
