package hostile

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	wire4 "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Lie is one way to lie. Apply and Apply4 change the results of a call before they
// are sent and report whether they did. r is the liar's, for this call only.
//
// Apply gets the results of READ without their data, as a *wire.ReadRes of which only
// Status and Count are used.
type Lie struct {
	Name string
	// About describes what a client receives.
	About string
	// Seldom: Apply is called for one reply in three; otherwise for each.
	Seldom bool
	// Waits: requests may wait for as long as the lie lasts, as they would for a
	// server that is away.
	Waits bool
	// Apply is set in Lies, Apply4 in Lies4. Apply4 gets the operations of a compound, of which those that
	// Outcome says were answered have results.
	Apply  func(r *rand.Rand, proc uint32, res wire.Message) bool
	Apply4 func(r *rand.Rand, c *wire4.Compound) bool
}

// Liar serves as Handler does, until Set gives it a lie.
type Liar struct {
	transport.Handler

	mu      sync.Mutex
	rand    *rand.Rand
	lie     *Lie
	applied int           // replies changed by lie
	more    chan struct{} // closed when applied grows
}

// New puts a Liar before h. Its choices follow from seed.
func New(h transport.Handler, seed uint64) *Liar {
	return &Liar{Handler: h, rand: rand.New(rand.NewPCG(seed, 1813)), more: make(chan struct{})}
}

// Set applies lie from now on, or none if it is nil, and returns how often the
// one before was applied.
func (l *Liar) Set(lie *Lie) (applied int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	applied, l.applied = l.applied, 0
	l.lie = lie
	return applied
}

// Applied is how often the lie that is set was applied.
func (l *Liar) Applied() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.applied
}

// Await returns when the lie that is set was applied n times, or with ctx's error.
func (l *Liar) Await(ctx context.Context, n int) error {
	for {
		l.mu.Lock()
		applied, more := l.applied, l.more
		l.mu.Unlock()
		if applied >= n {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Serve passes the call to the handler, and may change the reply.
func (l *Liar) Serve(ctx context.Context, q *transport.Request) transport.AcceptStat {
	start, compound := len(q.Reply.Bytes()), asked(q)
	stat := l.Handler.Serve(ctx, q)
	if q.Prog != wire.NFSProgram || q.Proc == wire.ProcNull || stat != transport.Success {
		return stat
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lie == nil || l.lie.Seldom && l.rand.IntN(3) != 0 {
		return stat
	}
	changed := false
	switch {
	case (l.lie.Apply4 != nil) != (q.Vers == wire4.Version):
	case compound != nil:
		changed = l.compound(q, start, compound)
	case q.Vers == wire4.Version: // its data came beside it
	case q.Proc == wire.ProcRead:
		changed = l.read(q, start)
	default:
		changed = l.results(q, start)
	}
	if changed {
		l.applied++
		close(l.more)
		l.more = make(chan struct{})
	}
	return stat
}

// results lies in the results of a procedure without bulk data; l.mu is held.
func (l *Liar) results(q *transport.Request, start int) bool {
	res := emptyResults(q.Proc)
	if res == nil {
		return false
	}
	var r xdr.Reader
	r.Reset(append([]byte(nil), q.Reply.Bytes()[start:]...), nil)
	if res.Parse(&r); r.End() != nil || !l.lie.Apply(l.rand, q.Proc, res) {
		return false
	}
	q.Reply.Truncate(start)
	res.Append(q.Reply)
	return true
}

// read lies in the results of READ, whose data may stand in a payload and is
// left where it is; l.mu is held.
func (l *Liar) read(q *transport.Request, start int) bool {
	// count, eof and the length of the data are the last words before it, behind
	// a status and attributes.
	b := q.Reply.Bytes()
	count := len(b) - 12
	whole := count >= start+92
	var res wire.ReadRes
	if !l.lie.Apply(l.rand, q.Proc, &res) {
		return false
	}
	switch {
	case res.Status != 0:
		q.Reply.Truncate(start)
		res.Append(q.Reply)
	case whole:
		q.Reply.SetUint32(count, res.Count)
	}
	return res.Status != 0 || whole
}

// emptyResults is where those of a procedure are decoded; nil when they hold
// bulk data.
func emptyResults(proc uint32) wire.Message {
	switch proc {
	case wire.ProcGetAttr:
		return &wire.GetAttrRes{}
	case wire.ProcSetAttr, wire.ProcRemove, wire.ProcRmdir:
		return &wire.WccRes{}
	case wire.ProcLookup:
		return &wire.LookupRes{}
	case wire.ProcAccess:
		return &wire.AccessRes{}
	case wire.ProcWrite:
		return &wire.WriteRes{}
	case wire.ProcCreate, wire.ProcMkdir, wire.ProcSymlink, wire.ProcMknod:
		return &wire.MadeRes{}
	case wire.ProcRename:
		return &wire.RenameRes{}
	case wire.ProcLink:
		return &wire.LinkRes{}
	case wire.ProcReadDir:
		return &wire.ReadDirRes{}
	case wire.ProcReadDirPlus:
		return &wire.ReadDirRes{Plus: true}
	case wire.ProcFSStat:
		return &wire.FSStatRes{}
	case wire.ProcFSInfo:
		return &wire.FSInfoRes{}
	case wire.ProcPathConf:
		return &wire.PathConfRes{}
	case wire.ProcCommit:
		return &wire.CommitRes{}
	}
	return nil
}
