package chain

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kind of a backup object.
type Kind string

// The kinds.
const (
	// Full is a snapshot of the whole database.
	Full Kind = "full"
	// Delta holds every event of a range of revisions.
	Delta Kind = "delta"
)

// Object is one backup in the store.
type Object struct {
	// Epoch of the owner that wrote it, at least 1.
	Epoch int64 `json:"epoch"`
	Kind  Kind  `json:"kind"`
	// First is the first revision of a delta; 1 for a full snapshot.
	First int64 `json:"firstRevision"`
	// Last is the last revision of a delta. A full snapshot holds at least the revisions up to Last.
	Last int64 `json:"lastRevision"`
	// Created is the writer's clock when the upload began, in milliseconds. Nothing is ordered by it.
	Created time.Time `json:"created"`
	// Size in the store in bytes; not part of the name.
	Size int64 `json:"sizeBytes"`
}

// timeFormat has no characters that object stores or file systems treat specially.
const timeFormat = "20060102T150405.000Z"

// revisionDigits holds every int64, so that names sort by revision.
const revisionDigits = 19

// epochDigits holds more epochs than a Shoot can have migrations.
const epochDigits = 10

var namePattern = regexp.MustCompile(`^([0-9]{10})-([0-9]{19})-([0-9]{19})-(full|delta)-([0-9]{8}T[0-9]{6}\.[0-9]{3}Z)\.zst$`)

// Name is the object's name below the prefix. Names sort by epoch, then by first revision.
func (o Object) Name() string {
	return fmt.Sprintf("%0*d-%0*d-%0*d-%s-%s.zst", epochDigits, o.Epoch, revisionDigits, o.First, revisionDigits, o.Last,
		o.Kind, o.Created.UTC().Format(timeFormat))
}

// ParseName is the reverse of Name. It reports false for anything that is no backup object.
func ParseName(name string) (Object, bool) {
	m := namePattern.FindStringSubmatch(name)
	if m == nil {
		return Object{}, false
	}
	epoch, err1 := strconv.ParseInt(m[1], 10, 64)
	first, err2 := strconv.ParseInt(m[2], 10, 64)
	last, err3 := strconv.ParseInt(m[3], 10, 64)
	created, err4 := time.Parse(timeFormat, m[5])
	o := Object{Epoch: epoch, Kind: Kind(m[4]), First: first, Last: last, Created: created}
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || epoch < 1 || first < 1 || last < first {
		return Object{}, false
	}
	if o.Kind == Full && first != 1 {
		return Object{}, false
	}
	return o, true
}

// String names the object for people.
func (o Object) String() string {
	if o.Kind == Full {
		return fmt.Sprintf("full snapshot at revision %d of epoch %d", o.Last, o.Epoch)
	}
	return fmt.Sprintf("delta of revisions %d to %d of epoch %d", o.First, o.Last, o.Epoch)
}

// compareObjects orders by epoch, last revision, kind, first revision and name.
func compareObjects(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Last, b.Last), -cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.First, b.First), a.Created.Compare(b.Created))
}

// Claim records that an owner took over with an epoch. It is written once and never changed.
type Claim struct {
	Epoch int64 `json:"epoch"`
	// Holder names the owner, for people and for the owner to recognise its own claim.
	Holder string    `json:"holder"`
	Time   time.Time `json:"time"`
	// Revision is the last revision of older epochs that the owner continues from; 0 when there was no backup.
	// Nil when it is not known: then everything of older epochs counts until the owner has written a full snapshot.
	Revision *int64 `json:"revision,omitempty"`
	// Nonce distinguishes two attempts of one holder.
	Nonce string `json:"nonce"`
}

// claimFolder holds the claims below the prefix.
const claimFolder = "epochs/"

// ClaimName is the name of an epoch's claim below the prefix.
func ClaimName(epoch int64) string {
	return fmt.Sprintf("%s%0*d", claimFolder, epochDigits, epoch)
}

// ParseClaimName is the reverse of ClaimName.
func ParseClaimName(name string) (epoch int64, ok bool) {
	digits, ok := strings.CutPrefix(name, claimFolder)
	if !ok || len(digits) != epochDigits {
		return 0, false
	}
	epoch, err := strconv.ParseInt(digits, 10, 64)
	return epoch, err == nil && epoch > 0
}
