package ownership

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const minute = time.Minute

func TestClaimChanges(t *testing.T) {
	settled := Claim{Holder: "a", Epoch: 3, Settled: true, FenceTime: minute}
	called := Claim{Holder: "a", Epoch: 3, Settled: true, Called: "b", FenceTime: minute}
	prepared := Claim{Holder: "a", Epoch: 3, Settled: true, Called: "b", Prepared: "b", FenceTime: minute}
	now, rounded := time.Date(2026, 1, 31, 12, 0, 0, 1, time.UTC), time.Date(2026, 1, 31, 12, 0, 1, 0, time.UTC)
	taken := Claim{
		Holder: "b", Epoch: 4, FenceTime: minute, TakenOver: TakenOver{From: "a", Wait: metav1.Duration{Duration: minute}},
	}
	restored := taken
	restored.TakenOver = TakenOver{
		From: "a", Wait: metav1.Duration{Duration: minute}, Unconfirmed: rounded, Revision: 7, Stored: rounded,
	}
	for name, tc := range map[string]struct{ got, want Claim }{
		"the first holder":                  {Claim{}.Take("a", minute), Claim{Holder: "a", Epoch: 1, FenceTime: minute}},
		"the holder keeps its epoch":        {settled.Take("a", minute), settled},
		"another holder begins a new epoch": {prepared.Take("b", minute), Claim{Holder: "b", Epoch: 4, FenceTime: minute}},
		"a destination is called":           {settled.Call("b"), called},
		"a second call changes nothing":     {prepared.Call("b"), prepared},
		"a call of another seed starts over": {
			prepared.Call("c"), Claim{Holder: "a", Epoch: 3, Settled: true, Called: "c", FenceTime: minute},
		},
		"the destination answers":      {called.Answer("b"), prepared},
		"an answer without a call":     {settled.Answer("b"), settled},
		"an answer to an earlier call": {called.Answer("c"), called},
		"the garden has lost the Lease": {
			Claim{}.Take("a", minute).AtLeast(3), Claim{Holder: "a", Epoch: 3, FenceTime: minute},
		},
		"etcd has an older epoch": {settled.AtLeast(2), settled},
		"cancelled":               {prepared.CalledOff(), settled},
		"only the holder settles": {
			Claim{Holder: "a", Epoch: 2}.Settle("b", minute), Claim{Holder: "a", Epoch: 2},
		},
		"the holder has all it needs": {
			Claim{Holder: "a", Epoch: 2}.Settle("a", minute), Claim{Holder: "a", Epoch: 2, Settled: true, FenceTime: minute},
		},
		"not settled after a take-over": {settled.Take("b", minute), Claim{Holder: "b", Epoch: 4, FenceTime: minute}},
		"another fence time counts when it is longer": {settled.Take("a", time.Hour),
			Claim{Holder: "a", Epoch: 3, Settled: true, FenceTime: time.Hour}},
		"another fence time counts when it is settled": {settled.Settle("a", time.Second),
			Claim{Holder: "a", Epoch: 3, Settled: true, FenceTime: time.Second}},
		"taken from a lost seed": {prepared.TakeFrom("a", "b", time.Second),
			Claim{
				Holder: "b", Epoch: 4, FenceTime: time.Second,
				TakenOver: TakenOver{From: "a", Wait: metav1.Duration{Duration: minute}},
			}},
		"taken once": {taken.TakeFrom("a", "b", time.Hour), taken},
		"taken from an unknown fence time": {Claim{Holder: "a", Epoch: 1}.TakeFrom("a", "b", minute),
			Claim{
				Holder: "b", Epoch: 2, FenceTime: minute,
				TakenOver: TakenOver{From: "a", Wait: metav1.Duration{Duration: DefaultFenceTime}},
			}},
		"restored":                   {taken.Restored("b", now, 7, now), restored},
		"restored once":              {restored.Restored("b", now.Add(time.Hour), 8, now), restored},
		"restored after a hand-over": {settled.Restored("a", now, 7, now), settled},
		"settled during hibernation": {
			taken.Settle("b", minute).Forget(),
			Claim{Holder: "b", Epoch: 4, Settled: true, FenceTime: minute, TakenOver: taken.TakenOver},
		},
		"settled after a take-over": {
			restored.Settle("b", minute).Forget(), Claim{Holder: "b", Epoch: 4, Settled: true, FenceTime: minute},
		},
		"a move back is a change of the holder": {
			settled.Take("b", minute).Take("a", minute), Claim{Holder: "a", Epoch: 5, FenceTime: minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %+v, want %+v", tc.got, tc.want)
			}
		})
	}
}

func TestSuperseded(t *testing.T) {
	for name, tc := range map[string]struct {
		claim Claim
		epoch int64
		want  bool
	}{
		"nobody has taken it":         {Claim{}, 0, false},
		"the holder":                  {Claim{Holder: "a", Epoch: 1}, 1, false},
		"another seed":                {Claim{Holder: "b", Epoch: 2}, 1, true},
		"another seed, etcd is gone":  {Claim{Holder: "b", Epoch: 2}, 0, true},
		"called to take over":         {Claim{Holder: "b", Epoch: 2, Called: "a"}, 1, false},
		"another one is called":       {Claim{Holder: "b", Epoch: 2, Called: "c"}, 1, true},
		"the holder itself is called": {Claim{Holder: "a", Epoch: 2, Called: "c"}, 2, false},
		"the garden is older":         {Claim{Holder: "b", Epoch: 1}, 2, false},
	} {
		if got := tc.claim.Superseded("a", tc.epoch); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
		if got, want := tc.claim.OlderThan("a", tc.epoch), name == "the garden is older"; got != want {
			t.Errorf("%s: OlderThan() = %v, want %v", name, got, want)
		}
	}
}

func TestClaimsAreStored(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, want := range []Claim{
		{Holder: "a", Epoch: 1, ChangedAt: now},
		{Holder: "a", Epoch: 2, Settled: true, FenceTime: minute, Called: "b", Prepared: "b", ChangedAt: now},
		{Holder: "a", Epoch: 3, FenceTime: minute, Called: "b", Progress: "waiting", ChangedAt: now,
			TakenOver: TakenOver{
				From: "c", Wait: metav1.Duration{Duration: time.Hour}, Unconfirmed: now, Revision: 5, Stored: now,
			}},
	} {
		l := &coordinationv1.Lease{}
		if err := want.writeTo(l, now); err != nil {
			t.Fatal(err)
		}
		if got, err := claimOf(l); err != nil || got != want {
			t.Errorf("stored %+v, read %+v, %v", want, got, err)
		}
	}
	broken := &coordinationv1.Lease{}
	for _, key := range []string{annotationFenceTime, annotationTakenOver} {
		broken.Annotations = map[string]string{key: "x"}
		if _, err := claimOf(broken); err == nil {
			t.Errorf("%s with an invalid value is accepted", key)
		}
	}
}

// TestDecisionsAboutTheOwnerAreLoggedOnce: a pass repeats every change, and reports the progress of a move.
func TestDecisionsAboutTheOwnerAreLoggedOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(coordinationv1.AddToScheme(scheme), corev1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	garden := fake.NewClientBuilder().WithScheme(scheme).Build()
	shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "demo", UID: "u"}}
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	line := func(changes string) []string {
		return []string{`"level"=0 "msg"="Changed the ownership of the control plane" ` +
			`"Lease"={"name"="control-plane-u" "namespace"="garden-dev"} "changes"="` + changes + `"`}
	}
	for _, step := range []struct {
		name   string
		change func(Claim) Claim
		want   []string
	}{
		{"taken", func(c Claim) Claim { return c.Take("a", 0) }, line(`holder from \"\" to \"a\", epoch from 0 to 1`)},
		{"taken again", func(c Claim) Claim { return c.Take("a", 0) }, nil},
		{"called", func(c Claim) Claim { return c.Call("b") }, line(`called from \"\" to \"b\"`)},
		{"waits", func(c Claim) Claim { return c.Report("b", "a network is created") }, nil},
		{"prepared", func(c Claim) Claim { return c.Answer("b") }, line(`prepared from \"\" to \"b\"`)},
		{"handed over", func(c Claim) Claim { return c.Take("b", 0) },
			line(`holder from \"a\" to \"b\", epoch from 1 to 2, called from \"b\" to \"\", prepared from \"b\" to \"\"`)},
	} {
		lines = nil
		if _, err := Change(ctx, garden, shoot, time.Unix(1e9, 0), step.change); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, lines); diff != "" {
			t.Errorf("%s: lines mismatch (-want +got):\n%s", step.name, diff)
		}
	}
}
