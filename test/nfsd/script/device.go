package script

import (
	"context"
	"encoding/binary"
	"net/netip"

	"github.com/rdmafs/rdmafs/verbs"
)

// Device wraps a server's device, so that messages can be changed on their way
// out: XID, version and credits are the first words of each (RFC 8166 section
// 4.2).
func (s *Script) Device(d verbs.Device) verbs.Device { return device{d, s} }

type device struct {
	verbs.Device
	s *Script
}

func (d device) Listen(at netip.AddrPort, o verbs.ListenOptions) (verbs.Listener, error) {
	l, err := d.Device.Listen(at, o)
	if err != nil {
		return nil, err
	}
	return listener{l, d.s}, nil
}

type listener struct {
	verbs.Listener
	s *Script
}

func (l listener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return request{r, l.s}, nil
}

type request struct {
	verbs.Request
	s *Script
}

func (r request) Accept(ctx context.Context, o verbs.ConnOptions) (verbs.Conn, error) {
	// What Prepare posts are receives.
	c, err := r.Request.Accept(ctx, o)
	if err != nil {
		return nil, err
	}
	return &conn{c, r.s}, nil
}

type conn struct {
	verbs.Conn
	s *Script
}

func (c *conn) PostSend(wr []verbs.SendWR) (int, error) {
	n, err := c.Conn.PostSend(c.tamper(wr))
	return min(n, len(wr)), err
}

func (c *conn) PostAndReap(wr []verbs.SendWR, wc []verbs.Completion) (posted, reaped int, err error) {
	posted, reaped, err = c.Conn.PostAndReap(c.tamper(wr), wc)
	return min(posted, len(wr)), reaped, err
}

// tamper changes messages in place, and returns what is to be posted.
func (c *conn) tamper(wr []verbs.SendWR) []verbs.SendWR {
	c.s.mu.Lock()
	r := c.s.r
	c.s.mu.Unlock()
	if r.credits == 0 && r.foreign == 0 && r.double == 0 {
		return wr
	}
	all := make([]verbs.SendWR, 0, len(wr)+1)
	for _, w := range wr {
		if w.Op != verbs.OpSend && w.Op != verbs.OpSendInvalidate || len(w.Local) == 0 || w.Local[0].Len < 16 {
			all = append(all, w)
			continue
		}
		b := w.Local[0].Bytes()
		if r.credits > 0 {
			binary.BigEndian.PutUint32(b[8:], r.credits)
			c.s.mu.Lock()
			c.s.struck++
			c.s.mu.Unlock()
		}
		if c.s.hit(func(r *rules) int { return r.foreign }) {
			binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)^1<<30)
		}
		// The copy goes first: the memory is reused once w has completed. A window
		// can be invalidated only once.
		if w.Op == verbs.OpSend && c.s.hit(func(r *rules) int { return r.double }) {
			all = append(all, verbs.SendWR{ID: w.ID, Op: verbs.OpSend, Local: w.Local})
		}
		all = append(all, w)
	}
	return all
}
