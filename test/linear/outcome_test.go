package linear

import (
	"errors"
	"io"
	"testing"
)

func TestOutcomeOf(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   Kind
		status int
		sent   bool
		err    error
		want   Outcome
	}{
		"created":                               {Swap, 201, true, nil, Done},
		"read":                                  {Read, 200, true, nil, Done},
		"read of a missing object":              {Read, 404, true, nil, Done},
		"update of a missing object":            {Write, 404, true, nil, Refused},
		"a conflict":                            {Swap, 409, true, nil, Refused},
		"too many requests":                     {Write, 429, true, nil, Refused},
		"no connection":                         {Write, 0, false, errors.New("connection refused"), Refused},
		"a connection that ended":               {Write, 0, true, io.EOF, Unknown},
		"an incomplete response":                {Write, 200, true, io.ErrUnexpectedEOF, Unknown},
		"a server without a response from etcd": {Write, 500, true, nil, Unknown},
		"a gateway's timeout":                   {Write, 504, true, nil, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(tc.kind, tc.status, tc.sent, tc.err); got != tc.want {
				t.Errorf("outcome %d, want %d", got, tc.want)
			}
		})
	}
}
