package nfsd

import (
	"net"
	"strconv"

	"golang.org/x/sys/unix"

	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// serveLocks answers NLM 4 (RFC 1813 appendix II) over TCP. A LOCK that would block
// is queued with Config.Callbacks, and not otherwise, as with some Linux servers for ordinary
// file systems: BLOCKED means ask again. SHARE is not served.
func (s *Server) serveLocks(q *transport.Request) transport.AcceptStat {
	if q.Transport != "tcp" {
		return transport.ProgUnavail
	}
	if q.Proc < uint32(len(s.stats.lock)) {
		s.stats.lock[q.Proc].Add(1)
	}
	switch q.Proc {
	case nlm.ProcNull:
		return transport.Success
	case nlm.ProcTest:
		return s.testLock(q)
	case nlm.ProcLock, nlm.ProcNMLock:
		return s.lock(q)
	case nlm.ProcCancel:
		return s.cancelLock(q)
	case nlm.ProcUnlock:
		return s.unlock(q)
	case nlm.ProcFreeAll:
		if _, ok := args[nlm.Notify](q); !ok {
			return transport.GarbageArgs
		}
		host, _ := peerOf(q)
		s.locks.freeAll(host)
		return transport.Success
	case nlm.ProcGrantedRes:
		return s.grantedRes(q)
	}
	return transport.ProcUnavail
}

// peerOf is the client's address, and whether its port is one that needs
// privileges.
func peerOf(q *transport.Request) (host string, reserved bool) {
	host, port, err := net.SplitHostPort(q.Peer)
	if err != nil {
		return q.Peer, false
	}
	n, err := strconv.Atoi(port)
	return host, err == nil && n < 1024
}

// lockArgs checks what all procedures are given. The status is Granted if there
// is nothing against it.
func (s *Server) lockArgs(q *transport.Request, l *nlm.Lock) (f lockedFile, o lockOwner, first, last uint64, stat nlm.Stat) {
	host, reserved := peerOf(q)
	o = lockOwner{host, l.SVID}
	if fault := s.cfg.Faults; fault != nil && fault.Lock != nil {
		if stat = fault.Lock(q.Proc); stat != nlm.Granted {
			return f, o, 0, 0, stat
		}
	}
	first, last = l.Offset, ranges.End
	if l.Length != 0 {
		last = l.Offset + l.Length - 1
	}
	// Offsets are signed 64-bit numbers to file systems.
	if max := uint64(1)<<63 - 1; first > max || l.Length != 0 && (last < first || last > max) {
		return f, o, 0, 0, nlm.TooBig
	}
	file, err := s.getAnyhow(l.Handle)
	if err != nil {
		return f, o, 0, 0, nlm.StaleHandle
	}
	defer file.put()
	var st vfs.Stat
	if err := file.e.tree.Stat(file.n, &st); err != nil {
		return f, o, 0, 0, nlm.StaleHandle
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || file.e.Secure && !reserved {
		return f, o, 0, 0, nlm.Failed
	}
	return lockedFile{file.e.ID, st.Ino}, o, first, last, nlm.Granted
}

// testLock is TEST (RFC 1813 section 6.3.1).
func (s *Server) testLock(q *transport.Request) transport.AcceptStat {
	a, ok := args[nlm.TestArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	res := nlm.TestRes{Cookie: a.Cookie}
	f, o, first, last, stat := s.lockArgs(q, &a.Lock)
	if stat == nlm.Granted {
		var other lockOwner
		var with ranges.Range
		stat, other, with = s.locks.test(f, o, ranges.Range{First: first, Last: last, Exclusive: a.Exclusive})
		res.Holder = nlm.Holder{Exclusive: with.Exclusive, SVID: other.svid, Offset: with.First}
		if with.Last != ranges.End {
			res.Holder.Length = with.Last - with.First + 1
		}
	}
	res.Stat = stat
	res.Append(q.Reply)
	return transport.Success
}

// lock is LOCK and NM_LOCK (sections 6.3.2 and 6.3.8).
func (s *Server) lock(q *transport.Request) transport.AcceptStat {
	a, ok := args[nlm.LockArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	f, o, first, last, stat := s.lockArgs(q, &a.Lock)
	if stat == nlm.Granted {
		var wait *nlm.TestArgs
		if a.Block {
			wait = &nlm.TestArgs{Cookie: a.Cookie, Exclusive: a.Exclusive, Lock: a.Lock}
		}
		stat = s.locks.lock(f, o, ranges.Range{First: first, Last: last, Exclusive: a.Exclusive}, a.Reclaim, wait)
	}
	if stat == nlm.Denied && a.Block {
		stat = nlm.Blocked
	}
	(&nlm.Res{Cookie: a.Cookie, Stat: stat}).Append(q.Reply)
	return transport.Success
}

// cancelLock is CANCEL (section 6.3.3).
func (s *Server) cancelLock(q *transport.Request) transport.AcceptStat {
	a, ok := args[nlm.CancelArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	f, o, first, last, stat := s.lockArgs(q, &a.Lock)
	if stat == nlm.Granted {
		stat = s.locks.cancel(f, o, ranges.Range{First: first, Last: last, Exclusive: a.Exclusive})
	}
	(&nlm.Res{Cookie: a.Cookie, Stat: stat}).Append(q.Reply)
	return transport.Success
}

// unlock is UNLOCK (section 6.3.4).
func (s *Server) unlock(q *transport.Request) transport.AcceptStat {
	a, ok := args[nlm.UnlockArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	f, o, first, last, stat := s.lockArgs(q, &a.Lock)
	if stat == nlm.Granted {
		stat = s.locks.unlock(f, o, first, last)
	}
	(&nlm.Res{Cookie: a.Cookie, Stat: stat}).Append(q.Reply)
	return transport.Success
}

// EndGrace ends the grace period that Config.Grace began.
func (s *Server) EndGrace() {
	s.locks.endGrace()
	if s.state != nil {
		s.state.EndGrace()
	}
}

// LocksWaiting is how many locks are waited for.
func (s *Server) LocksWaiting() int { return s.locks.waiting() }

// Locks is how many ranges are locked.
func (s *Server) Locks() int { return s.locks.count() }
