package boundedlist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// firstPage is the number of objects of the first page: 50 ordinary definitions of resources have 2.5 MiB.
	firstPage = 50
	// maxPage is the largest number of objects of a page; more save no time.
	maxPage = 500
	// maxRequests bounds the requests of one Read: 500,000 objects in pages that are not full of bytes. An API server that
	// is not the cluster's own may announce one empty page after the other.
	maxRequests = 2000
	// maxDuration bounds one Read together with its visits: a server that is deliberately slow must not occupy the caller
	// for hours.
	maxDuration = 5 * time.Minute
)

// Limits of one Read.
type Limits struct {
	// Bytes of all responses, those that were cut off included; a multiple of 1 MiB. 0 means no limit.
	Bytes int64
	// Objects of all pages; 0 means no limit.
	Objects int
}

// TooMuchError says that there is more than may be read. What had been read before has been visited.
type TooMuchError struct{ reason string }

func (e *TooMuchError) Error() string { return e.reason }

// Read lists objects page by page and hands each page to visit, until visit returns false or an error. Pages are lists
// like the given one, which is not changed. The error is a *TooMuchError if the limits do not suffice, or one object
// has more than MaxResponse. Bytes are only counted on connections prepared by Bound.
func Read[L client.ObjectList](
	ctx context.Context, reader client.Reader, limits Limits, like L, visit func(page L) (bool, error),
	opts ...client.ListOption,
) error {
	budget := &budget{limit: limits.Bytes}
	ctx, cancel := context.WithTimeout(withBudget(ctx, budget), maxDuration)
	defer cancel()
	objects, limit, next := 0, firstPage, ""
	for range maxRequests {
		page, before := like.DeepCopyObject().(L), budget.read
		err := reader.List(ctx, page, append(slices.Clone(opts), client.Limit(limit), client.Continue(next))...)
		switch {
		case errors.As(err, &budgetError{}):
			return &TooMuchError{fmt.Sprintf("more than %s", size(limits.Bytes))}
		case tooLarge(err, budget) && limit > 1:
			limit /= 2
			continue
		case tooLarge(err, budget):
			return &TooMuchError{fmt.Sprintf("one of more than %s", size(MaxResponse))}
		case err != nil:
			return err
		}
		if objects += meta.LenList(page); limits.Objects > 0 && objects > limits.Objects {
			return &TooMuchError{fmt.Sprintf("more than %d", limits.Objects)}
		}
		if more, err := visit(page); err != nil || !more {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
		limit = nextLimit(limit, budget.read-before)
	}
	return &TooMuchError{fmt.Sprintf("more than fit in %d pages", maxRequests)}
}

// tooLarge reports whether it was a page of the Read with the budget that was cut off, and not another response that it
// has needed.
func tooLarge(err error, b *budget) bool {
	var cut responseError
	return errors.As(err, &cut) && cut.budget == b
}

// nextLimit is the number of objects to request after a page of the given size in bytes: more if that is far from what
// a response may have.
func nextLimit(limit int, bytes int64) int {
	if bytes > MaxResponse/4 {
		return limit
	}
	return min(2*limit, maxPage)
}
