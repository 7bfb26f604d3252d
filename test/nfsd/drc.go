package nfsd

import (
	"context"
	"hash/maphash"
	"net"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// dupCache remembers the replies to calls that must not be carried out twice
// (RFC 1813 section 4.7).
type dupCache struct {
	seed  maphash.Seed
	shard [dupShards]dupShard
}

const (
	dupShards = 16
	// dupSum is how much of the arguments is told apart: more than any call
	// has but WRITE and SYMLINK, whose head and first data it covers.
	dupSum = 512
)

// dupKey identifies a call. The client's port is left out: it changes with the
// connection over which the call is sent again.
type dupKey struct {
	host            string
	xid, prog, proc uint32
	sum             uint64
}

type dupShard struct {
	mu   sync.Mutex
	m    map[dupKey]*dupEntry
	ring []*dupEntry // in order of arrival; at is the oldest once it is full
	at   int
}

type dupEntry struct {
	key  dupKey
	done chan struct{}
	// The reply, once done is closed; valid is false when there is none.
	valid bool
	stat  transport.AcceptStat
	reply []byte
}

func newDupCache(limit int) *dupCache {
	d := &dupCache{seed: maphash.MakeSeed()}
	for i := range d.shard {
		d.shard[i].m = map[dupKey]*dupEntry{}
		d.shard[i].ring = make([]*dupEntry, max(limit/dupShards, 1))
	}
	return d
}

// cached reports whether a procedure's replies are remembered: those of all that
// change something.
func cached(proc uint32) bool {
	switch proc {
	case wire.ProcSetAttr, wire.ProcWrite, wire.ProcCreate, wire.ProcMkdir, wire.ProcSymlink, wire.ProcMknod,
		wire.ProcRemove, wire.ProcRmdir, wire.ProcRename, wire.ProcLink:
		return true
	}
	return false
}

// keyOf makes q's key without consuming its arguments.
func (d *dupCache) keyOf(q *transport.Request) dupKey {
	host, _, err := net.SplitHostPort(q.Peer)
	if err != nil {
		host = q.Peer
	}
	probe := *q.Args
	all := probe.Remaining()
	var h maphash.Hash
	h.SetSeed(d.seed)
	h.Write(probe.Fixed(min(all, dupSum) &^ 3))
	maphash.WriteComparable(&h, [3]uint64{uint64(all), uint64(q.Sys.UID), uint64(q.Sys.GID)})
	return dupKey{host: host, xid: q.XID, prog: q.Prog, proc: q.Proc, sum: h.Sum64()}
}

// begin enters a call. When it was entered before, found is that entry, and the
// caller waits for it; otherwise the caller carries the call out and ends
// mine.
func (d *dupCache) begin(k dupKey) (mine, found *dupEntry) {
	s := &d.shard[k.xid%dupShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.m[k]; e != nil {
		return nil, e
	}
	e := &dupEntry{key: k, done: make(chan struct{})}
	if old := s.ring[s.at]; old != nil && s.m[old.key] == old {
		delete(s.m, old.key)
	}
	s.ring[s.at] = e
	s.at = (s.at + 1) % len(s.ring)
	s.m[k] = e
	return e, nil
}

// end records the reply, which it copies. One that reports no success in RPC is
// not remembered.
func (d *dupCache) end(e *dupEntry, stat transport.AcceptStat, reply []byte) {
	if stat == transport.Success {
		e.valid, e.stat, e.reply = true, stat, append([]byte(nil), reply...)
	} else {
		s := &d.shard[e.key.xid%dupShards]
		s.mu.Lock()
		if s.m[e.key] == e {
			delete(s.m, e.key)
		}
		s.mu.Unlock()
	}
	close(e.done)
}

// replay waits for e and answers q as it was answered. ok is false when there is
// no reply to be had.
func (e *dupEntry) replay(ctx context.Context, q *transport.Request) (ok bool) {
	select {
	case <-e.done:
	case <-ctx.Done():
		return false
	}
	if e.valid {
		// A procedure's results are whole words.
		q.Reply.Fixed(e.reply)
	}
	return e.valid
}
