package iwarp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/provider"
	"github.com/rdmafs/rdmafs/verbs/stream"
)

// errRevision1 asks for another try with MPA revision 1.
var errRevision1 = errors.New("peer speaks MPA revision 1 only")

// Dial implements verbs.Device. A responder that answers revision 2 with a
// rejection in revision 1 is tried again with that (RFC 6581 section 9).
func (d *device) Dial(ctx context.Context, to netip.AddrPort, o verbs.ConnOptions) (verbs.Conn, error) {
	if err := provider.CheckOptions(&o, &d.caps); err != nil {
		return nil, err
	}
	c, err := d.dial(ctx, to, &o, 2)
	if err == errRevision1 {
		c, err = d.dial(ctx, to, &o, 1)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d *device) dial(ctx context.Context, to netip.AddrPort, o *verbs.ConnOptions, revision uint8) (*conn, error) {
	var nd net.Dialer
	if o.LocalAddr.IsValid() {
		nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(o.LocalAddr, 0))
	}
	s, err := stream.Dial(ctx, nd, to.String())
	if err != nil {
		return nil, dialError(ctx, to, err)
	}
	sock := s.(*net.TCPConn)
	// Close must not flush, and neither may the kernel afterwards: a message that
	// arrives after it was abandoned and sent again on another connection would
	// undo what happened in between.
	_ = sock.SetLinger(0)
	c, err := d.newConn(sock, o)
	if err != nil {
		sock.Close()
		return nil, dialError(ctx, to, err)
	}
	if err := c.initiate(ctx, o, revision); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func dialError(ctx context.Context, to netip.AddrPort, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &verbs.ConnError{Op: "dial", Remote: to, Err: err}
}

// initiate exchanges MPA frames as the side that dialed.
func (c *conn) initiate(ctx context.Context, o *verbs.ConnOptions, revision uint8) error {
	if o.Prepare != nil {
		if err := o.Prepare(c); err != nil {
			return err
		}
	}
	req := mpaFrame{crc: c.dev.config.CRC, revision: revision, private: o.PrivateData}
	if revision >= 2 {
		req.enhanced = true
		// Linux' NFS server refuses a client that takes no Reads.
		c.readsIn = max(1, o.ReadsIn)
		req.ird, req.ord = uint16(c.readsIn), uint16(o.ReadsOut)
	}
	var rep mpaFrame
	err := c.setUp(ctx, func() (err error) {
		if _, err = c.sock.Write(appendMPA(nil, &req)); err != nil {
			return err
		}
		rep, err = readMPA(c.sock, true)
		return err
	})
	if err != nil {
		return dialError(ctx, c.remote, err)
	}
	c.private = rep.private
	if err := c.acceptReply(&req, &rep); err != nil {
		return err
	}
	c.start(true)
	return nil
}

// acceptReply checks the peer's reply and takes over the negotiated values.
func (c *conn) acceptReply(req, rep *mpaFrame) error {
	refuse := func(code termCode, format string, args ...any) error {
		// The peer learns of its mistake before the close.
		c.sock.SetWriteDeadline(time.Now().Add(time.Second))
		c.sock.Write(appendTerminate(nil, code, false))
		return c.lost("dial", violate(code, format, args...))
	}
	switch {
	case rep.reject && rep.revision == 1 && req.revision > 1:
		return errRevision1
	case rep.reject:
		return &verbs.RejectError{Remote: c.remote, Private: rep.private, Reason: "MPA reply with the reject bit"}
	case rep.markers:
		return refuse(mpaBadFrame, "peer insists on markers")
	case rep.revision != req.revision || rep.enhanced != req.enhanced:
		return refuse(mpaBadFrame, "peer answered revision %d with revision %d", req.revision, rep.revision)
	}
	c.crc = req.crc || rep.crc
	if !rep.enhanced {
		return nil
	}
	if rep.ord != depthAny && int(rep.ord) > c.readsIn {
		return refuse(mpaReadDepth, "peer wants to have %d Reads outstanding, %d were offered", rep.ord, c.readsIn)
	}
	if rep.ird != depthAny {
		c.readsOut = min(c.readsOut, int(rep.ird))
	}
	return nil
}

// setUp runs a part of the set-up that ends with ctx and with the device's
// time limit.
func (c *conn) setUp(ctx context.Context, f func() error) error {
	return bounded(ctx, c.sock, c.dev.config.SetupTimeout, f)
}

func bounded(ctx context.Context, s *net.TCPConn, limit time.Duration, f func() error) error {
	s.SetDeadline(time.Now().Add(limit))
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		s.SetDeadline(past)
		close(fired)
	})
	err := f()
	if !stop() {
		<-fired
		if err == nil {
			err = ctx.Err()
		}
	}
	s.SetDeadline(noDeadline)
	return err
}

// readMPA reads a frame and not a byte more.
func readMPA(s io.Reader, reply bool) (mpaFrame, error) {
	var b [mpaHeader + mpaMaxPrivate]byte
	if _, err := io.ReadFull(s, b[:mpaHeader]); err != nil {
		return mpaFrame{}, err
	}
	f, rest, err := parseMPAHeader(b[:mpaHeader], reply)
	if err != nil {
		return f, err
	}
	if _, err := io.ReadFull(s, b[mpaHeader:mpaHeader+rest]); err != nil {
		return f, err
	}
	f.parseMPAPrivate(b[mpaHeader : mpaHeader+rest])
	return f, nil
}
