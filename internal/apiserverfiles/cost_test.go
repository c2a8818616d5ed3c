package apiserverfiles

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/lru"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

// rules is a file with n claim validation rules; "@" in the expression is the number of the rule, so that all differ.
func rules(n int, expression string) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "  - expression: \"%s\"\n", strings.Replace(expression, "@", fmt.Sprint(i), 1))
	}
	return *authenticationFile(issuer + "  claimValidationRules:\n" + list.String())
}

// full is a file with the maximum number of rules with the expression.
func full(expression string) string {
	return rules(min(maxExpressions, maxExpressionsSize/(len(expression)+1)), expression)
}

// filled returns a file of the maximum size.
func filled(content, element, end string) string {
	return content + strings.Repeat(element, (maxSize-len(content)-len(end))/len(element)) + end
}

// slowest are files within the limits that take long to check, accepted or not, by their contents.
func slowest() map[string]string {
	repeat := strings.Repeat
	half := maxBrackets / 2
	return map[string]string{
		"short expressions":  full("claims.a==@"),
		"nested lists":       full(repeat("[", maxBrackets-1) + repeat("]", maxBrackets-1) + "==[@]"),
		"nested maps":        full(repeat("{1:", maxBrackets-1) + "@" + repeat("}", maxBrackets-1) + "=={}"),
		"nested optionals":   full(repeat("optional.of(", maxBrackets) + "@" + repeat(")", maxBrackets) + "==1"),
		"macros in a row":    full("[@]" + repeat(".map(x,[x])", half-1) + "==[]"),
		"nested macros":      full(repeat("[1].all(x,", half) + "@==1" + repeat(")", half)),
		"a field of a field": full("claims" + repeat(".a", 240) + "==@"),
		"ors":                full("claims.a==@" + repeat("||claims.a==1", 77)),
		"sums":               full("@" + repeat("+1", 90) + "==1"),
		"a list":             full("claims.a in [" + repeat("1,", 490) + "@]"),
		"unknown names":      full("x" + repeat("||x", 330) + "||y@"),
		"no rules at all":    filled(*authenticationFile("jwt: ["), "{},", "{}]"),
		"equal audiences": filled(
			*authenticationFile("jwt:\n- issuer: {url: 'https://idp.example.org', audiences: ["), "'',", "'']}"),
		"rules without expressions, after nested maps": filled(
			full(repeat("{1:", maxBrackets-1)+"@"+repeat("}", maxBrackets-1)+"=={}"), "  - {}\n", ""),
		"an unknown field": filled(*authenticationFile(issuer + "x: "), "[", ""),
	}
}

// TestCostsAreLimited has a file at each limit and one above it.
func TestCostsAreLimited(t *testing.T) {
	file := Changed(shootWith(authenticated("b")), nil)[0]
	webhooks := Changed(shootWith(authorized("c", "w")), nil)[0]
	brackets := func(n int) string { return "claims.a" + strings.Repeat("[('a')]", n/2) + "==@" }
	sized := func(n int) string { return "claims.a=='" + strings.Repeat("a", n-len("claims.a=='@'")) + "@'" }
	nested := "expression: \"" + brackets(maxBrackets+2) + "\""
	extra := "prefix: ''}, extra: [{key: a.b/c, valueE" + nested[1:] + "}]"
	condition := strings.Replace(conditions(1), "request.user", brackets(maxBrackets+2), 1)
	ordinary := "has(claims.hd) && claims.hd in ['dev', 'ops'] || string(claims.sub).endsWith('@')"
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		file    File
		content string
		refused bool
	}{
		"an ordinary file":    {file, rules(10, ordinary), false},
		"as many as may be":   {file, rules(maxExpressions, "claims.a==@"), false},
		"too many":            {file, rules(maxExpressions+1, "claims.a==@"), true},
		"as long as may be":   {file, rules(1, sized(maxExpressionSize)), false},
		"too long":            {file, rules(1, sized(maxExpressionSize+1)), true},
		"too long together":   {file, rules(5, sized(maxExpressionSize)), true},
		"as nested as may be": {file, rules(1, brackets(maxBrackets)), false},
		"too nested":          {file, rules(1, brackets(maxBrackets+2)), true},
		"a username": {
			file, strings.Replace(*authenticationFile(issuer), "claim: sub, prefix: ''", nested, 1), true,
		},
		"other claims": {file, strings.Replace(*authenticationFile(issuer), "prefix: ''}", extra, 1), true},
		"the user": {
			file, *authenticationFile(issuer + "  userValidationRules: [{" + nested + "}]\n"), true,
		},
		"a match condition":         {webhooks, *authorizationFile(condition), true},
		"more problems than listed": {file, rules(maxProblems+3, "x@"), true},
		"a long problem":            {file, rules(1, "x"+strings.Repeat("||x", 300)), true},
		"as large as may be":        {file, filled(*authenticationFile(issuer), "#", ""), false},
		"too large":                 {file, filled(*authenticationFile(issuer), "#", "") + "#", true},
	} {
		errs := tc.file.Validate(map[string]string{keyConfig: tc.content})
		if tc.refused != (len(errs) > 0) {
			t.Errorf("%s: %v", name, errs)
		}
		for _, err := range errs {
			if len(err.Error()) > maxProblemSize+300 {
				t.Errorf("%s: an error has %d bytes", name, len(err.Error()))
			}
		}
		messages[name] = errs.ToAggregate()
	}
	golden.Messages(t, messages)
}

// A file is compiled once for all Shoots with the same settings.
func TestFilesAreCheckedOnce(t *testing.T) {
	known, count := &results{known: lru.New(2)}, 0
	check := func(content []byte) []error {
		count++
		return auditPolicy(36)(content)
	}
	good, wrong := []byte(*policyFile("rules: [{level: None}]")), []byte(*policyFile("rules: []"))
	for _, tc := range []struct {
		name, rules string
		content     []byte
		checks      int
		problems    int
	}{
		{"the first time", "AuditPolicy 36", good, 1, 0},
		{"the same again", "AuditPolicy 36", good, 1, 0},
		{"another content", "AuditPolicy 36", wrong, 2, 1},
		{"problems are cached, too", "AuditPolicy 36", wrong, 2, 1},
		{"another version of Kubernetes", "AuditPolicy 35", good, 3, 0},
		{"the least recently used result is evicted", "AuditPolicy 36", good, 4, 0},
	} {
		if problems := known.of(tc.rules, tc.content, check); len(problems) != tc.problems || count != tc.checks {
			t.Errorf("%s: %d problems, %d checks, want %d and %d", tc.name, len(problems), count, tc.problems, tc.checks)
		}
	}
}

// Shoots that begin to refer to a file at the same time wait for one check.
func TestConcurrentChecksAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known, count := &results{known: lru.New(2)}, 0
		begun := make(chan struct{})
		check := func([]byte) []error {
			count++
			<-begun
			return []error{errors.New("wrong")}
		}
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if problems := known.of("rules", []byte("content"), check); len(problems) != 1 {
					t.Errorf("%d problems, want 1", len(problems))
				}
			})
		}
		synctest.Wait() // All requests are sent.
		close(begun)
		group.Wait()
		if count != 1 {
			t.Errorf("%d checks, want 1", count)
		}
	})
}

func TestRulesNameWhatTheCheckDependsOn(t *testing.T) {
	of := func(version string, workers bool, change func(*corev1beta1.KubeAPIServerConfig)) string {
		shoot := shootWith(change)
		shoot.Spec.Kubernetes.Version = version
		if workers {
			shoot.Spec.Provider.Workers = append(shoot.Spec.Provider.Workers, corev1beta1.Worker{})
		}
		return Changed(shoot, nil)[0].rules
	}
	all := []string{
		of("1.36.3", false, audit("a")), of("1.35.4", false, audit("a")), of("1.36.3", false, authenticated("a")),
		of("1.36.3", true, authenticated("a")), of("1.36.3", false, authenticated("a", "https://a")),
		of("1.36.3", false, authenticated("a", "https://b")),
		of("1.36.3", false, authorized("a", "v")), of("1.36.3", false, authorized("a", "w")),
	}
	if slices.Sort(all); len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("two are equal: %q", all)
	}
	if of("1.36.3", false, audit("a")) != of("1.36.1", false, audit("b")) {
		t.Error("neither the patch version nor the name of the ConfigMap matters")
	}
}

// processorTime is the CPU time of this process, which depends little on the load of the machine.
func processorTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestNoFileTakesLong: no file takes longer than 100 ms (BenchmarkSlowestFiles), here with a reserve for slow
// processors.
func TestNoFileTakesLong(t *testing.T) {
	const most = time.Second
	file := Changed(shootWith(authenticated("b")), nil)[0]
	for name, content := range slowest() {
		before := processorTime(t)
		file.check([]byte(content))
		if took := processorTime(t) - before; took > most {
			t.Errorf("a file full of %s takes %s of processor time, more than %s", name, took, most)
		}
	}
}

// BenchmarkSlowestFiles measures the slowest files.
func BenchmarkSlowestFiles(b *testing.B) {
	file := Changed(shootWith(authenticated("b")), nil)[0]
	for name, content := range slowest() {
		b.Run(name, func(b *testing.B) {
			if len(content) > maxSize {
				b.Fatalf("the file has %d bytes", len(content))
			}
			before := processorTime(b)
			for b.Loop() {
				file.check([]byte(content))
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}
