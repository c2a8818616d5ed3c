package steps

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hortus.dev/hortus/internal/flow"
)

// waitKinds reads the kinds of waits from the source: the constants of type flow.Kind by their names, and the first
// arguments of all calls that make a wait.
func waitKinds(t *testing.T) (constants map[string]flow.Kind, used map[string]ast.Expr) {
	t.Helper()
	constants, used = map[string]flow.Kind{}, map[string]ast.Expr{}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, entry.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if of, ok := n.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Kind" && len(n.Values) == 1 {
					text, err := strconv.Unquote(n.Values[0].(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					constants[n.Names[0].Name] = flow.Kind(text)
				}
			case *ast.CallExpr:
				name, argument := "", 0
				switch f := n.Fun.(type) {
				case *ast.SelectorExpr:
					name = f.Sel.Name
				case *ast.Ident:
					name = f.Name
				}
				switch name {
				case "WaitingUpTo":
					argument = 1
				case "Waiting", "WaitingWithCodes", "waitingOr", "waitForPods":
				default:
					return true
				}
				used[files.Position(n.Pos()).String()] = n.Args[argument]
			}
			return true
		})
	}
	return constants, used
}

// TestEveryWaitSaysWhatHappenedLast: for each kind of thing that a step waits for it is known which events are about
// it, or why there are none.
func TestEveryWaitSaysWhatHappenedLast(t *testing.T) {
	constants, used := waitKinds(t)
	if len(constants) < 20 || len(used) < 50 {
		t.Fatalf("found %d kinds of waits and %d waits in the source, want all", len(constants), len(used))
	}
	kinds := map[flow.Kind]bool{}
	for _, kind := range constants {
		kinds[kind] = true
	}
	for _, kind := range extensionKinds() {
		kinds[kind] = true
	}
	for kind := range kinds {
		source, ok := eventSourceOf(kind)
		if !ok || (source.none == "") == (len(source.named)+len(source.all) == 0) {
			t.Errorf("waits for %s: eventSources has %+v, want kinds of objects, or why there are no events", kind, source)
		}
	}
	for kind := range eventSources {
		if !kinds[kind] {
			t.Errorf("eventSources has %q, which no step waits for", kind)
		}
	}
	for at, kind := range used {
		switch kind := kind.(type) {
		case *ast.Ident:
			if constants[kind.Name] == "" && kind.Name != "kind" { // A parameter of the functions in question.
				t.Errorf("%s: %s is not a kind of waits (constants in waits.go)", at, kind.Name)
			}
		case *ast.CallExpr: // Of an extension object.
			if f, ok := kind.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Kind" {
				t.Errorf("%s: the kind is not a constant of waits.go", at)
			}
		default:
			t.Errorf("%s: the kind is not a constant of waits.go", at)
		}
	}
}

func TestLastEvent(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	event := func(name, kind, object, reason string, ago time.Duration) corev1.Event {
		return corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Kind: kind, Name: object},
			Reason: reason, Message: "message of\n" + name + ".", LastTimestamp: metav1.NewTime(now.Add(-ago)),
		}
	}
	series := event("g", "Pod", "etcd-main-0", "BackOff", 0)
	series.LastTimestamp, series.EventTime = metav1.Time{}, metav1.NewMicroTime(now.Add(-4*time.Minute))
	series.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(now.Add(-2 * time.Second))}
	long := event("h", "Infrastructure", "a", "Slow", time.Minute)
	long.Message = strings.Repeat("ä", 201)
	warning := event("a1", "ReplicaSet", "kube-scheduler-1", "FailedCreate", time.Minute)
	warning.Type = corev1.EventTypeWarning
	events := []corev1.Event{
		event("a", "Pod", "kube-apiserver-1-x", "FailedScheduling", 3*time.Minute),
		event("b", "Pod", "kube-apiserver-1-x", "Pulling", time.Minute),
		event("c", "Deployment", "kube-apiserver", "ScalingReplicaSet", 4*time.Minute),
		event("d", "Pod", "kube-apiserver-1-x", "Old", time.Hour),
		event("e", "Pod", "kube-apiserverproxy", "Other", time.Second),
		event("f", "Machine", "m1", "Unhealthy", 10*time.Second), series, long,
		warning, event("a2", "Pod", "kube-scheduler-1-x", "Created", time.Minute),
	}
	for name, tc := range map[string]struct {
		wait flow.Wait
		want string
		ago  time.Duration
	}{
		"of the Deployment that is waited for": {
			wait: flow.Wait{Kind: waitDeployment, Object: "kube-apiserver"}, ago: time.Minute,
			want: "Pulling of Pod kube-apiserver-1-x: message of b.",
		},
		"of any workload": {
			wait: flow.Wait{Kind: waitAPIServer}, ago: time.Second, want: "Other of Pod kube-apiserverproxy: message of e.",
		},
		"of a Worker's machines": {
			wait: flow.Wait{Kind: "Worker", Object: "a"}, ago: 10 * time.Second, want: "Unhealthy of Machine m1: message of f.",
		},
		"a repeated event": {
			wait: flow.Wait{Kind: waitStatefulSet, Object: "etcd-main"}, ago: 2 * time.Second,
			want: "BackOff of Pod etcd-main-0: message of g.",
		},
		"a long message": {
			wait: flow.Wait{Kind: "Infrastructure", Object: "a"}, ago: time.Minute,
			want: "Slow of Infrastructure a: " + strings.Repeat("ä", 200) + "...",
		},
		"a warning rather than another event at the same time": {
			wait: flow.Wait{Kind: waitDeployment, Object: "kube-scheduler"}, ago: time.Minute,
			want: "FailedCreate of ReplicaSet kube-scheduler-1: message of a1.",
		},
		"another object of the kind":  {wait: flow.Wait{Kind: "Infrastructure", Object: "b"}},
		"a kind without events":       {wait: flow.Wait{Kind: waitNode}},
		"a wait that is retried only": {wait: flow.Wait{Kind: "Retry"}},
	} {
		tc.wait.For = 5 * time.Minute
		want := flow.Event{Text: tc.want}
		if tc.want != "" {
			want.At = now.Add(-tc.ago)
		}
		if got := lastEvent(events, tc.wait, now); got != want {
			t.Errorf("%s: lastEvent() = %+v, want %+v", name, got, want)
		}
	}
}
