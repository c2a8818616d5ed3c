// Package fence decides whether an etcd may run. Each Shoot has one owner, proven by an epoch. Two witnesses know the
// newest epoch: the bucket of the backups and the garden. An owner's etcd runs as long as one of them confirms its
// epoch.
//
// [Decide] is pure. [Guard] records the confirmations of witnesses, by a monotonic clock.
package fence

import (
	"fmt"
	"time"
)

// Witness knows the newest epoch.
type Witness string

// The witnesses.
const (
	// Bucket of the backups, which holds the claims of epochs.
	Bucket Witness = "bucket"
	// Garden is the garden, whose epoch the gardenlet reads and reports to this process.
	Garden Witness = "garden"
)

// Owner of a control plane.
type Owner struct {
	Epoch  int64  `json:"epoch"`
	Holder string `json:"holder,omitempty"`
}

// Successor is an owner that has taken over.
type Successor struct {
	Owner
	// Witness that has shown it.
	Witness Witness `json:"witness"`
	// Time when it was seen, for people.
	Time time.Time `json:"time"`
}

// Supersedes reports whether the successor takes over from an owner. The holder of an epoch that the garden has
// confirmed is not known.
func (s Successor) Supersedes(o Owner) bool {
	return s.Epoch > o.Epoch || s.Epoch == o.Epoch && s.Holder != "" && s.Holder != o.Holder
}

// Facts are the input of Decide. Times are read from a monotonic clock with an arbitrary start.
type Facts struct {
	Owner Owner
	// FenceTime is how long a confirmation lasts.
	FenceTime time.Duration
	// Alone says that there is no bucket, so that no other seed could have restored this etcd: it runs without
	// confirmations.
	Alone bool
	// Now is the current time; Since the time from which the first confirmation was awaited.
	Now, Since time.Duration
	// Confirmed holds the times at which witnesses last confirmed the epoch: when the request was sent, not when it was
	// answered.
	Confirmed map[Witness]time.Duration
	// Successor that was seen, nil if none.
	Successor *Successor
}

// Verdict says whether etcd may run.
type Verdict string

// The verdicts.
const (
	// Run etcd.
	Run Verdict = "Run"
	// Wait for the first confirmation.
	Wait Verdict = "Wait"
	// Fenced means that no witness has confirmed the epoch for the fence time. Etcd may run again when one does.
	Fenced Verdict = "Fenced"
	// Superseded means that there is a newer owner. It is final.
	Superseded Verdict = "Superseded"
)

// Decision is a verdict, its reason, and the time until which it holds without further confirmations.
type Decision struct {
	Verdict Verdict
	Reason  string
	// Until is the time at which a verdict Run ends; 0 if it does not.
	Until time.Duration
}

// Decide decides whether etcd may run.
func Decide(f Facts) Decision {
	if s := f.Successor; s != nil && s.Supersedes(f.Owner) {
		holder := "another seed"
		if s.Holder != "" {
			holder = fmt.Sprintf("%q", s.Holder)
		}
		return Decision{Verdict: Superseded,
			Reason: fmt.Sprintf("epoch %d is superseded: the %s shows that %s owns epoch %d since %s or before",
				f.Owner.Epoch, s.Witness, holder, s.Epoch, s.Time.UTC().Format("2006-01-02 15:04:05 MST"))}
	}
	if f.Alone {
		return Decision{Verdict: Run}
	}
	last, any := time.Duration(0), false
	for _, at := range f.Confirmed {
		if !any || at > last {
			last, any = at, true
		}
	}
	switch {
	case any && f.Now < last+f.FenceTime:
		return Decision{Verdict: Run, Until: last + f.FenceTime}
	case !any && f.Now < f.Since+f.FenceTime:
		return Decision{
			Verdict: Wait, Reason: fmt.Sprintf("waiting until the bucket or the garden confirms epoch %d", f.Owner.Epoch),
		}
	case !any:
		return Decision{Verdict: Wait, Reason: fmt.Sprintf("neither the bucket nor the garden has confirmed epoch %d for %s",
			f.Owner.Epoch, (f.Now - f.Since).Round(time.Second))}
	}
	return Decision{Verdict: Fenced, Reason: fmt.Sprintf(
		"neither the bucket nor the garden has confirmed epoch %d for %s (at most %s). Etcd starts again when one of them does",
		f.Owner.Epoch, (f.Now - last).Round(time.Second), f.FenceTime)}
}
