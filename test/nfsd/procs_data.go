package nfsd

import (
	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// lease borrows memory for a payload of at most n bytes. A transport that has
// none to lend now may have later.
func lease(q *transport.Request, n int) (transport.Payload, []byte, error) {
	seg, err := q.Lease(n)
	if err != nil {
		return nil, nil, unix.ENOMEM
	}
	return transport.Payload{seg}, seg.Bytes(), nil
}

// marked makes the first n bytes of v a payload of the reply.
func marked(q *transport.Request, v transport.Payload, n int) wire.Bulk {
	v[0] = v[0].Slice(0, n)
	return wire.Marked(q.AddPayload(v))
}

// read is READ (RFC 1813 section 3.3.6).
func (s *Server) read(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.ReadArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.ReadRes
	var st vfs.Stat
	f, err := s.get(q, a.Handle)
	if err == nil {
		defer f.put()
		err = s.readInto(q, f, &a, &res, &st)
		f.e.post(&res.Attr, &st)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

func (s *Server) readInto(q *transport.Request, f file, a *wire.ReadArgs, res *wire.ReadRes, st *vfs.Stat) error {
	v, b, err := lease(q, int(min(a.Count, uint32(s.cfg.MaxIO))))
	if err != nil {
		return err
	}
	if err := s.recall(f, state.Read); err != nil {
		return err
	}
	cr := f.e.cred(q)
	n, eof, err := f.e.tree.Read(&cr, f.n, a.Offset, b, st)
	if err != nil {
		return err
	}
	s.stats.bytesRead.Add(uint64(n))
	res.Count, res.EOF, res.Data = uint32(n), eof, marked(q, v, n)
	return nil
}

// write is WRITE (section 3.3.7).
func (s *Server) write(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.WriteArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.WriteRes
	var ch vfs.Change
	f, err := s.get(q, a.Handle)
	if err == nil {
		defer f.put()
		err = s.writeFrom(q, f, &a, &res, &ch)
		f.e.wcc(&res.Wcc, &ch)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

func (s *Server) writeFrom(q *transport.Request, f file, a *wire.WriteArgs, res *wire.WriteRes, ch *vfs.Change) error {
	if int64(a.Count) != int64(a.Data.Len) {
		return unix.EINVAL
	}
	if err := s.recall(f, state.Write); err != nil {
		return err
	}
	if s.lossy {
		s.crashMu.RLock()
		defer s.crashMu.RUnlock()
	}
	// The verifier of before: should the write be lost from now on, COMMIT
	// will show another.
	res.Verifier = *s.verf.Load()
	cr := f.e.cred(q)
	data := a.Data.Data[:min(a.Data.Len, s.cfg.MaxIO)]
	n, how, err := f.e.tree.Write(&cr, f.n, a.Offset, data, vfs.Stable(a.Stable), ch)
	if err != nil {
		return err
	}
	s.stats.bytesWritten.Add(uint64(n))
	res.Count, res.Committed = uint32(n), nfsclient.Stable(how)
	return nil
}

// commit is COMMIT (section 3.3.21), of the whole file whatever the range.
func (s *Server) commit(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.CommitArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.CommitRes
	var ch vfs.Change
	f, err := s.get(q, a.Handle)
	if err == nil {
		defer f.put()
		if s.lossy {
			s.crashMu.RLock()
			defer s.crashMu.RUnlock()
		}
		if err = f.e.tree.Commit(f.n, &ch); err == nil {
			// The verifier of after: it shows whether anything was lost before.
			res.Verifier = *s.verf.Load()
		}
		f.e.wcc(&res.Wcc, &ch)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

// readlink is READLINK (section 3.3.5).
func (s *Server) readlink(q *transport.Request) transport.AcceptStat {
	a, ok := args[wire.HandleArgs](q)
	if !ok {
		return transport.GarbageArgs
	}
	var res wire.ReadLinkRes
	f, err := s.get(q, a.Handle)
	if err == nil {
		defer f.put()
		err = f.readlink(q, &res)
	}
	res.Status = statusOf(err)
	res.Append(q.Reply)
	return transport.Success
}

func (f file) readlink(q *transport.Request, res *wire.ReadLinkRes) error {
	var st vfs.Stat
	if err := f.e.tree.Stat(f.n, &st); err != nil {
		return err
	}
	f.e.post(&res.Attr, &st)
	if !f.n.IsSymlink() {
		return unix.EINVAL
	}
	// A symbolic link says how long its target is, but for those of /proc.
	want := wire.MaxPath
	if st.Size > 0 && st.Size < wire.MaxPath {
		want = int(st.Size)
	}
	v, b, err := lease(q, want)
	if err != nil {
		return err
	}
	n, err := f.e.tree.Readlink(f.n, b)
	if err == nil {
		res.Target = marked(q, v, n)
	}
	return err
}
