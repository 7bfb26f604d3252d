package cache

import "context"

// Lent is data of a file in a buffer of the cache's, which is registered memory
// that the server has written to. The zero value is nothing.
type Lent struct {
	i *Inode
	s *span
	b []byte
}

// ReadLent is Read without a copy in the daemon, where what was asked for stands
// in one buffer of the cache's: that is lent then, and dst is not touched. The
// bytes do not change until Release. Else the data is in dst, and lent.Bytes is
// nil.
func (f *File) ReadLent(ctx context.Context, dst []byte, off int64) (n int, lent Lent, err error) {
	n, err = f.read(ctx, dst, off, &lent)
	return n, lent, err
}

// Bytes is the data; nil if none was lent.
func (l *Lent) Bytes() []byte { return l.b }

// Release gives the buffer back, if one was lent. It may be called once.
func (l *Lent) Release() {
	if l.s == nil {
		return
	}
	l.i.mu.Lock()
	l.i.leaveSpan(l.s, len(l.b))
	l.i.mu.Unlock()
	l.i.unpin()
	*l = Lent{}
}

// take makes l n bytes of s from at on, whose user the caller is.
func (l *Lent) take(i *Inode, s *span, at, n int) {
	i.refs.Add(1)
	*l = Lent{i: i, s: s, b: s.buf.Bytes()[at : at+n : at+n]}
}

// copyOut puts what was lent into dst instead; Inode.mu is held. l may be nil.
func (l *Lent) copyOut(dst []byte) {
	if l == nil || l.s == nil {
		return
	}
	copy(dst, l.b)
	l.i.leaveSpan(l.s, len(l.b))
	l.i.refs.Add(-1) // the open file has another
	*l = Lent{}
}
