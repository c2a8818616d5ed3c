package apiserverfiles

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"
)

// maxChecked bounds the results that are kept. A seed has a few hundred Shoots, with up to three files each; a result
// has a few bytes if nothing is wrong, and 10 KiB (maxProblems, maxProblemSize) at most.
const maxChecked = 1000

// results are what checks of files have found, by what they depend on. A file is checked whenever a Shoot begins to
// refer to it and in every reconciliation, and compiling its expressions is by far the most of that.
type results struct {
	known   *lru.Cache
	running singleflight.Group // Of checks that are not known yet.
}

// checked are the results of this process.
var checked = &results{known: lru.New(maxChecked)}

// of returns what is wrong with the content by the rules; check finds it out on the first call, once for all
// concurrent calls. The rules name everything that the check depends on besides the content.
func (r *results) of(rules string, content []byte, check func([]byte) []error) []error {
	hash := sha256.New()
	fmt.Fprintf(hash, "%d %s", len(rules), rules) // The length keeps rules and content apart.
	hash.Write(content)
	key := string(hash.Sum(nil))
	if known, ok := r.known.Get(key); ok {
		return known.([]error)
	}
	problems, _, _ := r.running.Do(key, func() (any, error) {
		if known, ok := r.known.Get(key); ok { // Another request may have added the result since the first look-up.
			return known, nil
		}
		problems := shortened(check(content))
		r.known.Add(key, problems)
		return problems, nil
	})
	return problems.([]error)
}

// shortened bounds what a file can make a server store and answer.
func shortened(problems []error) []error {
	var out []error
	for i, problem := range problems {
		if i == maxProblems {
			return append(out, fmt.Errorf("and %d more problems", len(problems)-i))
		}
		text := problem.Error()
		if len(text) > maxProblemSize {
			text = strings.ToValidUTF8(text[:maxProblemSize], "") + " [...]"
		}
		out = append(out, errors.New(text))
	}
	return out
}
