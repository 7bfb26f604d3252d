package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// How many NULL calls are timed, and what they may take together.
const (
	nullCalls  = 200
	nullBudget = 2 * time.Second
)

// nfsProgram has NULL in all of its versions (RFC 1813 section 3.3.0, RFC 8881 section 16.1).
const nfsProgram = 100003

// Times are what calls took, from the first bit out to the reply decoded.
type Times struct {
	Calls  int           `json:"calls"`
	Min    time.Duration `json:"min_ns"`
	Median time.Duration `json:"median_ns"`
	P99    time.Duration `json:"p99_ns"`
}

func (t *Times) String() string {
	return fmt.Sprintf("min %s, median %s, p99 %s of %d calls", micro(t.Min), micro(t.Median), micro(t.P99), t.Calls)
}

func micro(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1e3) }

// nfsVersion is the version of NFS to call over a way: where the server is to choose, 4 if it has that. A mount takes
// that of its way.
func (e *examination) nfsVersion(ctx context.Context, c *attempt) (uint32, error) {
	if e.Version != 0 {
		return e.Version, nil
	}
	version := uint32(4)
	err := c.link.Exchange(ctx, 0, &transport.Call{Prog: nfsProgram, Vers: version})
	var rpc *transport.RPCError
	if errors.As(err, &rpc) && !rpc.Denied && rpc.Code == uint32(transport.ProgMismatch) {
		version, err = 3, nil
	}
	if c.Chosen && e.version == 0 && err == nil {
		e.version = version
	}
	return version, err
}

// roundTrips times NULL calls on a link of its own.
func roundTrips(ctx context.Context, l transport.Link, version uint32) (*Times, error) {
	var took []time.Duration
	begin := time.Now()
	for xid := uint32(1); len(took) < nullCalls; xid++ {
		start := time.Now()
		err := l.Exchange(ctx, xid, &transport.Call{Prog: nfsProgram, Vers: version})
		now := time.Now()
		if err != nil {
			return nil, err
		}
		took = append(took, now.Sub(start))
		if now.Sub(begin) > nullBudget {
			break
		}
	}
	return summarize(took), nil
}

// summarize sorts took, which is not empty.
func summarize(took []time.Duration) *Times {
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(math.Ceil(q*float64(len(took))))-1] }
	return &Times{Calls: len(took), Min: took[0], Median: at(0.5), P99: at(0.99)}
}
