package keyrotation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/hortus/internal/encryption"
)

// step is the next step of a rotation.
type step string

const (
	rollOut step = "RollOut" // Wait until all running servers use the configuration.
	begin   step = "Begin"   // Add a new key.
	wait    step = "Wait"    // Wait until backups contain the new key.
	write   step = "Write"   // Encrypt with the newest key.
	rewrite step = "Rewrite" // Write all objects again.
	drop    step = "Drop"    // Remove the keys before the predecessor.
	finish  step = "Finish"  // Record that the rotation is complete.
	done    step = "Done"
)

// state is the input of the decision about the next step.
type state struct {
	config encryption.Config
	// rotatedTo is the key of the last completed rotation; "" if there was none.
	rotatedTo string
	// rolledOut is true if every server that runs, or may still write, uses the configuration.
	rolledOut bool
	// rewrittenWith is the key with which this run of the command has written all objects again. An earlier run does not
	// count, because etcd may have been restored since.
	rewrittenWith string
	// active is true if this run has started or continued a rotation.
	active bool
	// keyAge is the age of the newest key, backupDelay its minimum age before it is used to encrypt.
	keyAge, backupDelay time.Duration
}

// next returns the next step. An interrupted rotation is continued; otherwise a new one begins.
func next(s state) (step, error) {
	target, err := targetOf(s.config)
	if err != nil {
		return "", err
	}
	rotated := len(target.Keep) == 0 || s.rotatedTo == target.Writer.Key
	switch {
	case !s.rolledOut:
		return rollOut, nil
	case rotated && s.active:
		return done, nil
	case rotated:
		return begin, nil
	case !writes(s.config, target) && s.keyAge < s.backupDelay:
		return wait, nil
	case !writes(s.config, target):
		return write, nil
	case s.rewrittenWith != target.Writer.Key:
		return rewrite, nil
	case !s.config.Equal(target.Config()):
		return drop, nil
	}
	return finish, nil
}

// configAfter returns the configuration after a step. It is called when the servers are rolled out; key is the new key
// of step begin, base64 of 32 bytes.
func configAfter(does step, c encryption.Config, key string) (encryption.Config, error) {
	target, err := targetOf(c)
	if err != nil {
		return encryption.Config{}, err
	}
	switch does {
	case begin:
		name := keyName(1 + number(target.Writer.Key))
		target.Keep = []encryption.Provider{target.Writer}
		target.Writer = encryption.Provider{Cipher: encryption.Secretbox, Key: name}
		target.Keys[name] = key
		return encryption.Next(c, target, encryption.State{}), nil
	case write:
		return encryption.Next(c, target, encryption.State{RolledOut: true}), nil
	case drop:
		return encryption.Next(c, target, encryption.State{RolledOut: true, Rewritten: true}), nil
	}
	return c, nil
}

// targetOf returns the target of the rotation that a configuration is part of: the newest key encrypts, and its
// predecessor is still used to decrypt.
func targetOf(c encryption.Config) (encryption.Target, error) {
	keys, err := newestFirst(c)
	if err != nil {
		return encryption.Target{}, err
	}
	t := encryption.Target{
		Resources: slices.Clone(Resources), Writer: keys[0], Keep: keys[1:min(2, len(keys))], Keys: map[string]string{},
	}
	for resource := range c.Providers {
		t.Resources = append(t.Resources, resource)
	}
	slices.Sort(t.Resources)
	t.Resources = slices.Compact(t.Resources)
	for name, key := range c.Keys {
		t.Keys[name] = key
	}
	return t, nil
}

// writes reports whether all resources are encrypted with the target's key.
func writes(c encryption.Config, t encryption.Target) bool {
	return !slices.ContainsFunc(t.Resources, func(resource string) bool { return c.Of(resource)[0] != t.Writer })
}

// newestFirst returns the keys of a configuration, sorted by descending number.
func newestFirst(c encryption.Config) ([]encryption.Provider, error) {
	var keys []encryption.Provider
	for _, list := range c.Providers {
		keys = append(keys, list...)
	}
	keys = slices.DeleteFunc(keys, func(p encryption.Provider) bool { return p == encryption.Plain })
	slices.SortFunc(keys, func(a, b encryption.Provider) int {
		return cmp.Or(cmp.Compare(number(b.Key), number(a.Key)), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Cipher, b.Cipher))
	})
	keys = slices.Compact(keys)
	if len(keys) == 0 {
		return nil, fmt.Errorf("the encryption configuration has no key")
	}
	for i := range keys[1:] {
		if number(keys[i].Key) == number(keys[i+1].Key) {
			const text = "the encryption configuration has keys %s %q and %s %q: which one is newer is unknown (names: key1, key2, ...)"
			return nil, fmt.Errorf(text,
				keys[i+1].Cipher, keys[i+1].Key, keys[i].Cipher, keys[i].Key)
		}
	}
	return keys, nil
}

func keyName(number int) string { return "key" + strconv.Itoa(number) }

// number returns the number of a key; 0 if the name is not ours.
func number(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "key"))
	if err != nil || n < 0 || keyName(n) != name {
		return 0
	}
	return n
}
