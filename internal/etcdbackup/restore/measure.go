package restore

import (
	"context"
	"errors"
)

// measure finds out the revision of a data directory with its log applied.
func measure(context.Context, Options) (int64, error) { return 0, errors.New("not implemented") }
