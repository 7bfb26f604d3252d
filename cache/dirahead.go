package cache

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// aheadPart is a part of a directory that is asked for before its reader wants it, so
// that the server and the reader work at the same time.
type aheadPart struct {
	from uint64
	done chan struct{} // closed when the rest is set

	part nfsclient.DirPart
	reading
	err error
}

// Given says that the reader was given what ends with off. Who then goes on behind it
// reads on, and the part behind the one in use is read ahead: a look at the beginning of a
// directory, or a seek, costs no call for what may never be wanted.
func (d *Dir) Given(off uint64) { d.given = off }

// readAhead asks for what follows p, if the reader is expected to want it and may be
// given it then.
func (d *Dir) readAhead(p *dirPart) {
	off := p.last()
	if p.eof || off == dotOff || off == dotdotOff || d.wasted || !p.agreed {
		return
	}
	if d.ahead != nil && d.ahead.from == off || d.held.after(off) != nil {
		return
	}
	if d.c.policy.Load().AcRegMin == 0 || d.c.listed.Load() >= maxListedAll {
		return
	}
	a := &aheadPart{from: off, done: make(chan struct{})}
	c, i, cr := d.c, d.i, d.cr
	pos := nfsclient.DirPos{Cookie: off, Verifier: d.held.verifier}
	i.refs.Add(1)
	if !c.spawn(func() { i.runReadAhead(i.detached(), cr, pos, a) }) {
		i.unpin()
		return
	}
	d.ahead = a
}

// runReadAhead reads a part ahead; Cache.Close joins it.
func (i *Inode) runReadAhead(ctx context.Context, cr nfsclient.Cred, pos nfsclient.DirPos, a *aheadPart) {
	a.part, a.reading, a.err = i.c.readPart(ctx, cr, i, pos)
	close(a.done)
	i.unpin()
}

// takeAhead returns what was read ahead behind off, for which it may have to wait, if that
// is as good as read now: it is younger than attributes must be to be believed, and the
// directory is in the state that is known of it, which we have not changed since. If
// it is not, nothing more is read ahead before the listing begins anew.
func (d *Dir) takeAhead(ctx context.Context, off uint64) (part nfsclient.DirPart, ok bool, err error) {
	a := d.ahead
	if a == nil || a.from != off {
		d.ahead = nil
		return part, false, nil
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return part, false, ctx.Err()
	}
	d.ahead = nil
	if d.wasted = a.err != nil || !a.agreed || !d.i.stands(a.at, a.change); d.wasted {
		return part, false, nil
	}
	d.last = a.reading
	return a.part, true, nil
}

// stands reports whether a listing that was asked for at st, and showed the state change, is
// as good as one that is read now.
func (i *Inode) stands(st stamp, change nfsclient.ChangeID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.node.In(st, change) && i.c.since(i.c.cfg.Now())-st.At < i.c.policy.Load().AcRegMin
}
