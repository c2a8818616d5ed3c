package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/kubecontrollermanager"
)

const (
	testKey = "service-account-key-05e770a5-e9552"
	// testReplacement is the name of the token that the account robot gets for testKey.
	testReplacement = "robot-token-81563c"
)

// testPrepared is when the rotations of these tests were prepared.
var testPrepared = metav1.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func testAccount(name string, secrets ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, CreationTimestamp: metav1.Time{Time: testPrepared.AddDate(-1, 0, 0)},
	}}
	for _, s := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: s})
	}
	return a
}

func listed(refs []corev1.ObjectReference) []string {
	var names []string
	for _, r := range refs {
		names = append(names, r.Name)
	}
	return names
}

func TestReplaceToken(t *testing.T) {
	with := func(a *corev1.ServiceAccount, change func(*corev1.ServiceAccount)) *corev1.ServiceAccount {
		change(a)
		return a
	}
	label := func(key string) func(*corev1.ServiceAccount) {
		return func(a *corev1.ServiceAccount) { a.Labels = map[string]string{labelKeyName: key} }
	}
	for name, tc := range map[string]struct {
		account  *corev1.ServiceAccount
		prepared *metav1.Time
		want     []string // Nil leaves the account alone.
	}{
		"an account that lists nothing": {account: testAccount("robot")},
		"an account with a token": {
			account: testAccount("robot", "old"), want: []string{testReplacement, "old"},
		},
		"an account with several Secrets": {
			account: testAccount("robot", "a", "b"), want: []string{testReplacement, "a", "b"},
		},
		"an account that has got its token": {account: with(testAccount("robot", testReplacement, "old"), label(testKey))},
		"an account that lists its token already, last": {
			account: testAccount("robot", "old", testReplacement), want: []string{testReplacement, "old"},
		},
		"an account of an earlier rotation": {
			account: with(testAccount("robot", "old"), label("service-account-key-1")), want: []string{testReplacement, "old"},
		},
		"an account in deletion": {
			account: with(testAccount("robot", "old"), func(a *corev1.ServiceAccount) { a.DeletionTimestamp = &testPrepared }),
		},
		"an account from before the rotation, when it is prepared": {
			account: testAccount("robot", "old"), prepared: &testPrepared, want: []string{testReplacement, "old"},
		},
		"an account that was created when the rotation was prepared": {
			account:  with(testAccount("robot", "new"), func(a *corev1.ServiceAccount) { a.CreationTimestamp = testPrepared }),
			prepared: &testPrepared,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, due := replaceToken(tc.account, testKey, tc.prepared)
			if diff := cmp.Diff(tc.want, listed(c.secrets)); diff != "" || due != (tc.want != nil) {
				t.Errorf("replaceToken() = %t, secrets (-want +got):\n%s", due, diff)
			}
			if due && (c.create != testReplacement || c.key != testKey || len(c.delete) > 0) {
				t.Errorf("replaceToken() = %+v", c)
			}
		})
	}
}

func TestRetireTokens(t *testing.T) {
	before, after := metav1.Time{Time: testPrepared.Add(-time.Hour)}, metav1.Time{Time: testPrepared.Add(time.Hour)}
	tokens := map[types.NamespacedName]tokenSecret{}
	for name, token := range map[string]tokenSecret{
		"old": {account: "robot", created: before}, "older": {account: "robot", created: before},
		"new": {account: "robot", created: after}, "at-that-time": {account: "robot", created: testPrepared},
		"foreign": {account: "other", created: before}, testReplacement: {account: "robot", created: before},
	} {
		token.name = name
		tokens[types.NamespacedName{Namespace: "default", Name: name}] = token
	}
	for name, tc := range map[string]struct {
		secrets   []string
		labelled  bool
		before    *metav1.Time
		due       bool
		kept, del []string
	}{
		"nothing is listed": {before: &testPrepared},
		"the old token": {
			secrets: []string{testReplacement, "old"}, labelled: true, before: &testPrepared,
			due: true, kept: []string{testReplacement}, del: []string{"old"},
		},
		"several old tokens": {
			secrets: []string{testReplacement, "older", "old"}, labelled: true, before: &testPrepared,
			due: true, kept: []string{testReplacement}, del: []string{"older", "old"},
		},
		"tokens from after the preparation": {
			secrets: []string{testReplacement, "new", "at-that-time"}, labelled: true, before: &testPrepared,
			due: true, kept: []string{testReplacement, "new", "at-that-time"},
		},
		"a Secret for another purpose": {
			secrets: []string{testReplacement, "registry"}, labelled: true, before: &testPrepared,
			due: true, kept: []string{testReplacement, "registry"},
		},
		"the token of another account": {
			secrets: []string{"foreign"}, before: &testPrepared, kept: []string{"foreign"},
		},
		"an old token that was listed later": {
			secrets: []string{"old"}, before: &testPrepared, due: true, del: []string{"old"},
		},
		"all is done": {secrets: []string{testReplacement}, before: &testPrepared, kept: []string{testReplacement}},
		"an unknown time": {
			secrets: []string{testReplacement, "old"}, labelled: true, due: true, kept: []string{testReplacement, "old"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := testAccount("robot", tc.secrets...)
			if tc.labelled {
				a.Labels = map[string]string{labelKeyName: testKey}
			}
			c, due := retireTokens(a, testKey, tokens, tc.before)
			var del []string
			for _, token := range c.delete {
				del = append(del, token.name)
			}
			if due != tc.due || c.create != "" || c.key != "" {
				t.Errorf("retireTokens() = %t, %+v", due, c)
			}
			if diff := cmp.Diff([][]string{tc.kept, tc.del}, [][]string{listed(c.secrets), del}); diff != "" {
				t.Errorf("kept and deleted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplacementName(t *testing.T) {
	if got := replacementName("robot", testKey); got != testReplacement {
		t.Errorf("replacementName() = %q, want %q", got, testReplacement)
	}
	if replacementName("robot", testKey) == replacementName("robot", "service-account-key-1") {
		t.Error("the tokens of two keys have the same name")
	}
	long := strings.Repeat("a", 239) + "." + strings.Repeat("b", 13)
	one, other := replacementName(long, testKey), replacementName(long[:len(long)-1]+"c", testKey)
	if len(one) > 253 || one == other || strings.Contains(one, ".-") {
		t.Errorf("the names for accounts with long names are %q and %q", one, other)
	}
}

// tokenCluster is a Shoot whose writes may fail: before decides that, after ends the process after the write.
type tokenCluster struct {
	client.Client
	before        func(n int64, o client.Object) error
	after         func(n int64) error
	writes        atomic.Int64
	running, peak atomic.Int64
}

func newTokenCluster(objects ...client.Object) *tokenCluster {
	tokenType := func(o client.Object) []string {
		if _, isToken := o.GetAnnotations()[corev1.ServiceAccountNameKey]; isToken {
			return []string{string(corev1.SecretTypeServiceAccountToken)}
		}
		return nil
	}
	c := &tokenCluster{
		before: func(int64, client.Object) error { return nil }, after: func(int64) error { return nil },
	}
	around := func(o client.Object, write func() error) error {
		c.peak.Store(max(c.peak.Load(), c.running.Add(1)))
		defer c.running.Add(-1)
		n := c.writes.Add(1)
		if err := c.before(n, o); err != nil {
			return err
		}
		return errors.Join(write(), c.after(n))
	}
	c.Client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.Secret{}, "type", tokenType).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return around(o, func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return around(o, func() error { return deleteToken(ctx, c, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return around(o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
	})
	return c
}

// deleteToken deletes a token Secret as Kubernetes does, where the controller of tokens removes it from its account.
func deleteToken(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	token := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), token); err != nil {
		return err
	}
	if err := c.Delete(ctx, o, opts...); err != nil {
		return err
	}
	account, key := &corev1.ServiceAccount{}, client.ObjectKeyFromObject(o)
	key.Name = token.Annotations[corev1.ServiceAccountNameKey]
	if err := c.Get(ctx, key, account); err != nil {
		return err
	}
	account.Secrets = slices.DeleteFunc(account.Secrets,
		func(r corev1.ObjectReference) bool { return r.Name == o.GetName() })
	return c.Update(ctx, account)
}

func testToken(name, account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.Time{Time: testPrepared.Add(-time.Hour)},
			Annotations: map[string]string{
				corev1.ServiceAccountNameKey: account, corev1.ServiceAccountUIDKey: "",
			},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
}

// rotate makes one pass.
func (c *tokenCluster) rotate(t *testing.T, completing bool) (*accountPass, error) {
	p := &accountPass{shoot: c}
	if completing {
		return p, p.retire(t.Context(), testKey, &testPrepared)
	}
	return p, p.replace(t.Context(), testKey, nil)
}

// Whichever write fails or is the last one of a process, the tokens are replaced, and later the old ones deleted.
func TestTokenRotationSurvivesStops(t *testing.T) {
	stop := errors.New("stopped")
	for name, fault := range map[string]func(*tokenCluster, int64){
		"stopped before write": func(c *tokenCluster, n int64) {
			c.before = func(at int64, _ client.Object) error {
				if at == n {
					return stop
				}
				return nil
			}
		},
		"conflict at write": func(c *tokenCluster, n int64) {
			c.before = func(at int64, _ client.Object) error {
				if at == n {
					return apierrors.NewConflict(corev1.Resource("x"), "x", stop)
				}
				return nil
			}
		},
		"stopped after write": func(c *tokenCluster, n int64) {
			c.after = func(at int64) error {
				if at == n {
					return stop
				}
				return nil
			}
		},
	} {
		for n := int64(1); n <= 6; n++ { // Without a fault there are two writes in the preparation, and three after it.
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				c := newTokenCluster(testAccount("robot", "old", "registry"), testAccount("plain"), testToken("old", "robot"),
					testToken("unlisted", "robot"),
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "registry"}})
				fault(c, n)
				for _, completing := range []bool{false, true} {
					for range 5 {
						p, err := c.rotate(t, completing)
						if err == nil && p.outcome().IsDone() {
							break
						}
						if err != nil && !errors.Is(err, stop) {
							t.Errorf("a conflict ends the pass: %v", err)
						}
					}
					a := &corev1.ServiceAccount{}
					if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "robot"}, a); err != nil {
						t.Fatal(err)
					}
					want, label, secrets := []string{testReplacement, "old", "registry"}, testKey, 4
					if completing {
						want, label, secrets = []string{testReplacement, "registry"}, "", 3
					}
					if diff := cmp.Diff(want, listed(a.Secrets)); diff != "" || a.Labels[labelKeyName] != label {
						t.Errorf("completing %t: label %q, secrets (-want +got):\n%s", completing, a.Labels[labelKeyName], diff)
					}
					all := &corev1.SecretList{}
					if err := c.List(t.Context(), all); err != nil {
						t.Fatal(err)
					}
					if len(all.Items) != secrets {
						t.Errorf("completing %t: there are %d Secrets, want %d", completing, len(all.Items), secrets)
					}
				}
			})
		}
	}
}

// A pass is bounded, however many accounts there are, and those that need nothing cost nothing.
func TestTokenRotationIsBounded(t *testing.T) {
	var objects []client.Object
	for i := range 300 {
		name := fmt.Sprintf("robot-%d", i)
		objects = append(objects, testAccount(name, name+"-old"), testToken(name+"-old", name))
	}
	c := newTokenCluster(objects...)
	for _, completing := range []bool{false, true} {
		passes := 1
		for ; passes < 10; passes++ {
			before := c.writes.Load()
			p, err := c.rotate(t, completing)
			if err != nil {
				t.Fatal(err)
			}
			if n := c.writes.Load() - before; n > accountWrites+2*parallelAccounts {
				t.Errorf("completing %t: a pass has made %d writes", completing, n)
			}
			if p.outcome().IsDone() {
				break
			}
		}
		if passes < 3 || passes == 10 {
			t.Errorf("completing %t: %d passes, want from 3 to 9", completing, passes)
		}
	}
	// Each account is written twice in the completion: the first write conflicts with that of Kubernetes.
	if n := c.writes.Load(); n != 300*5 {
		t.Errorf("there were %d writes, want 5 for each account", n)
	}
	if n := c.peak.Load(); n > parallelAccounts {
		t.Errorf("%d writes at a time, want at most %d", n, parallelAccounts)
	}
}

// Accounts whose change is refused hold up no others, and are named; those that are about to be deleted are left out.
func TestRefusedTokens(t *testing.T) {
	terminating := testAccount("robot", "old")
	terminating.Namespace = "ending"
	taken := testToken(replacementName("taken", testKey), "somebody-else")
	c := newTokenCluster(terminating, taken, testAccount("robot", "old"), testAccount("denied", "old"),
		testAccount("taken", "old"))
	c.before = func(_ int64, o client.Object) error {
		switch {
		case o.GetNamespace() == "ending":
			err := apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), errors.New("namespace is being terminated"))
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
				metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
			return err
		case strings.HasPrefix(o.GetName(), "denied"):
			return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), errors.New("exceeded quota"))
		}
		return nil
	}
	p, err := c.rotate(t, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.outcome().Reason(); !strings.Contains(got, ": default/denied, default/taken: ") {
		t.Errorf("the outcome is %q", got)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: testReplacement},
		&corev1.Secret{}); err != nil {
		t.Errorf("the other account has no new token: %v", err)
	}
}

// No token is requested as long as a controller manager could sign it with the previous key.
func TestSignsWithAnotherKey(t *testing.T) {
	const namespace = "shoot--dev--a"
	pod := func(name, key string, phase corev1.PodPhase) client.Object {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Labels: component.Selector(kubecontrollermanager.Name),
			},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "ca-client"}}},
				{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: key}}},
			}},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	for name, tc := range map[string]struct {
		pods []client.Object
		want string
	}{
		"no pod":      {},
		"the new key": {pods: []client.Object{pod("new", testKey, corev1.PodRunning)}},
		"both keys": {
			pods: []client.Object{pod("new", testKey, corev1.PodRunning), pod("old", "k", corev1.PodRunning)}, want: "old",
		},
		"an ended pod": {pods: []client.Object{pod("new", testKey, corev1.PodRunning), pod("old", "k", corev1.PodFailed)}},
	} {
		t.Run(name, func(t *testing.T) {
			seed := &SeedNamespace{
				Client:    fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tc.pods...).Build(),
				namespace: namespace,
			}
			if got, err := signsWithAnotherKey(t.Context(), seed, testKey); err != nil || got != tc.want {
				t.Errorf("signsWithAnotherKey() = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
