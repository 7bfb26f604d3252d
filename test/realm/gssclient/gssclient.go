// Package gssclient is an RPC client with RPCSEC_GSS (RFC 2203) over TCP for tests, whose
// tokens are made and checked by MIT's libgssapi: nothing of what it sends or checks comes
// from the code under test, but for XDR's words.
//
// It makes one call at a time, and lets a test choose sequence numbers, handles and bytes.
// It starts no goroutine.
package gssclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/realm"
	"github.com/rdmafs/rdmafs/test/realm/gsspeer"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Services of RFC 2203 section 5.1.
const (
	None      = 1
	Integrity = 2
	Privacy   = 3
)

// Client is one context, over one connection. A test may change its fields between calls.
type Client struct {
	Conn net.Conn
	// Handle, Window and Major are what the server has said of the context.
	Handle []byte
	Window uint32
	Major  uint32
	// Seq is the next sequence number.
	Seq uint32
	// Alter, if not nil, changes a call before it is sent.
	Alter func(record []byte)
	// Prog and Vers are called.
	Prog, Vers uint32

	peer *gsspeer.Peer
	xid  uint32
}

// Denied is a reply MSG_DENIED with AUTH_ERROR.
type Denied uint32

func (d Denied) Error() string { return fmt.Sprintf("denied: auth_stat %d", uint32(d)) }

// NotExecuted is an accepted reply other than SUCCESS.
type NotExecuted uint32

func (n NotExecuted) Error() string { return fmt.Sprintf("accept_stat %d", uint32(n)) }

// replyTimeout bounds the wait for one reply.
const replyTimeout = 30 * time.Second

// Dial connects to addr and makes a context of the ticket in a cache for service, like
// nfs@localhost. A server that closes the connection without an answer, as Linux does
// when its daemon is slow, is asked again.
func Dial(t testing.TB, r *realm.Realm, addr string, cache, service string, prog, vers uint32) (*Client, error) {
	t.Helper()
	p, token := gsspeer.Initiator(t, r, cache, service)
	c := &Client{Prog: prog, Vers: vers, peer: p, Seq: 1, xid: 0x5000}
	t.Cleanup(func() {
		if c.Conn != nil {
			_ = c.Conn.Close()
		}
	})
	for try := 0; ; try++ {
		if err := c.Redial(addr); err != nil {
			return nil, err
		}
		err := c.create(token)
		if errors.Is(err, io.EOF) && try < 5 {
			continue
		}
		return c, err
	}
}

// Redial connects again; the context stays.
func (c *Client) Redial(addr string) error {
	if c.Conn != nil {
		_ = c.Conn.Close()
	}
	var err error
	c.Conn, err = net.Dial("tcp", addr)
	return err
}

// header begins a call: up to the credential's end.
func (c *Client) header(w *xdr.Writer, gssProc, seq, service, proc uint32) {
	c.xid++
	for _, v := range []uint32{c.xid, 0, 2, c.Prog, c.Vers, proc, 6} {
		w.Uint32(v)
	}
	var cred xdr.Writer
	for _, v := range []uint32{1, gssProc, seq, service} {
		cred.Uint32(v)
	}
	cred.Opaque(c.Handle)
	w.Opaque(cred.Bytes())
}

// create makes the context.
func (c *Client) create(token []byte) error {
	var w xdr.Writer
	c.header(&w, 1, 0, Integrity, 0)
	w.Uint32(0)
	w.Uint32(0)
	w.Opaque(token)
	verf, r, err := c.exchange(w.Bytes())
	if err != nil {
		return err
	}
	c.Handle = append([]byte(nil), r.Opaque(400)...)
	c.Major = r.Uint32()
	minor := r.Uint32()
	c.Window = r.Uint32()
	reply := r.Opaque(64 << 10)
	if err := r.End(); err != nil {
		return err
	}
	if c.Major != 0 {
		return fmt.Errorf("major status %#x, minor %d", c.Major, minor)
	}
	if err := c.peer.Finish(reply); err != nil {
		return err
	}
	return c.peer.Verify(binary.BigEndian.AppendUint32(nil, c.Window), verf)
}

// Call makes a call with the next sequence number and returns the results.
func (c *Client) Call(service, proc uint32, args []byte) (*xdr.Reader, error) {
	seq := c.Seq
	c.Seq++
	return c.call(0, seq, service, proc, args)
}

// CallWith makes a call with that sequence number.
func (c *Client) CallWith(seq, service, proc uint32, args []byte) (*xdr.Reader, error) {
	return c.call(0, seq, service, proc, args)
}

// Destroy ends the context at the server.
func (c *Client) Destroy() error {
	c.Seq++
	_, err := c.call(3, c.Seq-1, None, 0, nil)
	return err
}

func (c *Client) call(gssProc, seq, service, proc uint32, args []byte) (*xdr.Reader, error) {
	var w xdr.Writer
	c.header(&w, gssProc, seq, service, proc)
	mic, err := c.peer.MIC(w.Bytes())
	if err != nil {
		return nil, err
	}
	w.Uint32(6)
	w.Opaque(mic)
	body := append(binary.BigEndian.AppendUint32(nil, seq), args...)
	switch service {
	case None:
		w.Fixed(args)
	case Integrity:
		if mic, err = c.peer.MIC(body); err != nil {
			return nil, err
		}
		w.Opaque(body)
		w.Opaque(mic)
	case Privacy:
		sealed, err := c.peer.Wrap(body)
		if err != nil {
			return nil, err
		}
		w.Opaque(sealed)
	}
	verf, r, err := c.exchange(w.Bytes())
	var not NotExecuted
	if err != nil && !errors.As(err, &not) {
		return nil, err
	}
	if verr := c.peer.Verify(binary.BigEndian.AppendUint32(nil, seq), verf); verr != nil {
		return nil, fmt.Errorf("verifier of the reply: %w", verr)
	}
	if err != nil || service == None {
		return r, err
	}
	data := r.Opaque(16 << 20)
	if service == Integrity {
		mic := r.Opaque(400)
		if err := r.End(); err != nil {
			return nil, err
		}
		if err := c.peer.Verify(data, mic); err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
	} else {
		if err := r.End(); err != nil {
			return nil, err
		}
		if data, err = c.peer.Unwrap(data); err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
	}
	r.Reset(data, nil)
	if got := r.Uint32(); got != seq {
		return nil, fmt.Errorf("results of transmission %d, want %d", got, seq)
	}
	return r, nil
}

// Unsecured makes one call with AUTH_SYS as root over a connection of its own, as clients
// make those of MOUNT.
func Unsecured(addr string, prog, vers, proc uint32, args []byte) (*xdr.Reader, error) {
	c := &Client{xid: 0x4000}
	if err := c.Redial(addr); err != nil {
		return nil, err
	}
	defer c.Conn.Close()
	var w xdr.Writer
	for _, v := range []uint32{c.xid, 0, 2, prog, vers, proc, 1, 20, 0, 0, 0, 0, 0, 0, 0} {
		w.Uint32(v)
	}
	w.Fixed(args)
	_, r, err := c.exchange(w.Bytes())
	return r, err
}

// exchange sends a call and returns verifier and results of the reply.
func (c *Client) exchange(call []byte) (verf []byte, r *xdr.Reader, err error) {
	record := append(binary.BigEndian.AppendUint32(nil, uint32(len(call))|1<<31), call...)
	if c.Alter != nil {
		c.Alter(record)
	}
	if err := c.Conn.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, nil, err
	}
	if _, err := c.Conn.Write(record); err != nil {
		return nil, nil, err
	}
	var reply []byte
	for last := false; !last; {
		var head [4]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return nil, nil, err
		}
		n := binary.BigEndian.Uint32(head[:])
		last = n>>31 == 1
		if n &^= 1 << 31; n > 16<<20 {
			return nil, nil, fmt.Errorf("fragment of %d bytes", n)
		}
		part := make([]byte, n)
		if _, err := io.ReadFull(c.Conn, part); err != nil {
			return nil, nil, err
		}
		reply = append(reply, part...)
	}
	r = new(xdr.Reader)
	r.Reset(reply, nil)
	if xid, kind := r.Uint32(), r.Uint32(); xid != c.xid || kind != 1 {
		return nil, nil, fmt.Errorf("message %#x of type %d, want a reply to %#x", xid, kind, c.xid)
	}
	if r.Uint32() == 1 {
		if r.Uint32() == 1 {
			return nil, nil, Denied(r.Uint32())
		}
		return nil, nil, errors.New("RPC version denied")
	}
	r.Uint32()
	verf = r.Opaque(400)
	if stat := r.Uint32(); stat != 0 {
		return verf, r, NotExecuted(stat)
	}
	return verf, r, r.Err()
}
