package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// A long reply to a call with a single Recv payload nearly always ends with that
// payload. Its data is then read from the socket directly into the payload. Where it
// begins is a guess: the first position in the record's head that is preceded by a
// length which reaches to the end of the record. The decoder detects a wrong guess;
// the record is then reassembled and decoded again.
const (
	directMin  = 8 << 10 // shorter replies are better copied
	directHead = 512     // how much of the record the guess looks at
)

// locate guesses where in a record of total bytes, which begins with head, the
// payload begins, and how long it is; at is 0 if there is no such position.
func locate(head []byte, total, room int) (at, n int) {
	for at := oncrpc.ReplyHeader + 4; at <= len(head); at += 4 {
		v := binary.BigEndian.Uint32(head[at-4:])
		if uint64(v) > uint64(room) {
			continue
		}
		if n := int(v); at+n+xdr.Pad(n) == total {
			return at, n
		}
	}
	return 0, 0
}

// readDirect reads the rest of the record into x's payload and delivers the reply,
// if locate finds the payload. Otherwise done is false, and the buffer returned
// holds the record's head. It takes rec. An error ends the connection.
func (l *link) readDirect(in *records, xid uint32, x *exchange, rec *buffer) (_ *buffer, done bool, err error) {
	have, total := len(rec.b), len(rec.b)+in.left
	rec = rec.grow(have + directHead)
	if _, err := in.read(rec.b[have:]); err != nil {
		rec.put()
		return nil, false, err
	}
	at, n := locate(rec.b, total, x.room)
	if at == 0 || !l.startFilling(xid, x) {
		return rec, false, nil
	}
	early := rec.b[at:min(len(rec.b), at+n)]
	x.recv[0].CopyIn(0, early)
	err = fill(in, x.recv[0], len(early), n)
	rec.b = rec.b[:at+xdr.Pad(n)] // no padding, if the guess is wrong
	if err == nil {
		_, err = in.read(rec.b[at:])
	}
	if l.endFilling(xid, x, rec, at, n, err) {
		return nil, true, err
	}
	rec.put()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil // it was moved to stop fill
	}
	if err == nil {
		err = in.skip(total)
	}
	return nil, true, err
}

// startFilling reserves x's payload for the reader, unless its caller has returned.
func (q *requester) startFilling(xid uint32, x *exchange) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	x.filling = q.pending[xid] == x
	return x.filling
}

// endFilling returns x's payload to its caller, as part of the reply unless the
// caller has abandoned it or there was an error. It returns false if it has not
// taken rec.
func (q *requester) endFilling(xid uint32, x *exchange, rec *buffer, at, n int, err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	x.filling = false
	if x.abandoned {
		_ = q.conn.SetReadDeadline(time.Time{}) // reading reports a closed connection
		q.wake(x)
		return false
	}
	if err != nil {
		return false
	}
	q.stats.replies.Add(1)
	delete(q.pending, xid)
	x.rec, x.placed = rec, placed{at: at, n: n}
	q.wake(x)
	return true
}

// fill reads bytes off to n of v from the record.
func fill(in *records, v mem.Vec, off, n int) error {
	start := 0
	for _, s := range v {
		from, to := max(off-start, 0), min(n-start, s.Len)
		if from < to {
			if _, err := in.read(s.Bytes()[from:to]); err != nil {
				return err
			}
		}
		start += s.Len
	}
	return nil
}

// stopFilling makes the reader stop accessing x's payload, and put a token into
// ready when it has. mu is held.
func (q *requester) stopFilling(x *exchange) {
	x.abandoned = true
	_ = q.conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection stops it too
}

// decode decodes the reply to c; it takes rec.
func (x *exchange) decode(rec *buffer, xid uint32, c *transport.Call) error {
	if x.placed.at == 0 {
		x.r.Reset(rec.b, c.Recv)
		err := oncrpc.DecodeReply(&x.r, xid, c)
		rec.put()
		return err
	}
	at, n := x.placed.at, x.placed.n
	x.r.Reset(rec.b[:at], c.Recv)
	x.r.SetLayout(&x.placed)
	err := oncrpc.DecodeReply(&x.r, xid, c)
	if errors.Is(err, transport.ErrProtocol) {
		var end [4]byte
		pad := copy(end[:], rec.b[at:])
		rec = rec.grow(at + n + pad)
		c.Recv[0].CopyOut(0, rec.b[at:at+n])
		copy(rec.b[at+n:], end[:pad])
		x.r.Reset(rec.b, c.Recv)
		err = oncrpc.DecodeReply(&x.r, xid, c)
	}
	rec.put()
	return err
}

// placed implements xdr.Layout for a reply whose only payload the reader has filled: with n
// bytes from offset at, as locate has guessed.
type placed struct {
	at, n int
	taken bool
}

// Item implements xdr.Layout: data anywhere else means that the guess was wrong.
func (p *placed) Item(i, off, n int) (data []byte, moved bool, err error) {
	switch {
	case i < 0:
		return nil, false, nil
	case off != p.at:
		return nil, false, fmt.Errorf("item that was moved out from byte %d", p.at)
	case n != p.n:
		return nil, false, fmt.Errorf("item of %d bytes, but %d were placed", n, p.n)
	}
	p.taken = true
	return nil, true, nil
}

// Before implements xdr.Layout.
func (p *placed) Before(int, int) int { return 0 }

// End implements xdr.Layout.
func (p *placed) End() error {
	if !p.taken {
		return fmt.Errorf("%d bytes were placed that belong to no item", p.n)
	}
	return nil
}
