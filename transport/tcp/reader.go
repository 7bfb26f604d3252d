package tcp

import (
	"fmt"
	"io"
	"time"

	"github.com/rdmafs/rdmafs/transport/oncrpc"
)

// runReader delivers replies, and hands on calls, while no caller does, until the connection ends: see await.
func (l *link) runReader() {
	defer close(l.reader)
	a := l.turn.Attendant()
	for a.Take(l.done) {
		if l.interrupted {
			l.interrupted = false
			_ = l.conn.SetReadDeadline(time.Time{}) // reading reports a closed connection
		}
		for keep := true; keep; {
			short, err := l.readRecord()
			if err != nil {
				l.broken(err)
				a.Leave()
				break
			}
			keep = a.Next(short)
		}
	}
	a.End()
}

// broken ends the link because reading failed.
func (l *link) broken(err error) {
	if err == io.EOF {
		err = errServerClosed
	}
	l.fail(err)
}

var errServerClosed = fmt.Errorf("the server closed the connection: %w", io.EOF)

// readRecord reads one record. Its error ends the connection. short: it was a reply that its caller could have received.
func (l *link) readRecord() (short bool, err error) {
	in := l.in
	if err := in.next(); err != nil {
		return false, err
	}
	head := in.head[:]
	if n, err := in.read(head); err == errRecordEnd {
		l.d.stats.badReplies.Add(1)
		return false, l.skip(in, n)
	} else if err != nil {
		return false, err
	}
	xid, reply, ok := oncrpc.PeekXID(head)
	if !ok || !reply && l.back == nil {
		l.d.stats.badReplies.Add(1)
		return false, l.skip(in, len(head))
	}
	if !reply {
		return false, l.back.read(in, head)
	}
	x := l.find(xid)
	if x == nil {
		l.d.stats.badXIDs.Add(1)
		return false, l.skip(in, len(head))
	}
	rec := getBuffer(len(head))
	copy(rec.b, head)
	if in.last && in.left >= directMin && in.left+len(head) <= x.limit && x.room > 0 {
		var done bool
		if rec, done, err = l.readDirect(in, xid, x, rec); done || err != nil {
			return false, err
		}
	}
	rec, err = in.rest(rec, x.limit)
	switch err {
	case nil:
		l.d.stats.replies.Add(1)
		short = !x.long // x is its caller's again after deliver
		l.deliver(xid, x, rec, nil)
		return short, nil
	case errTooLong:
		have := len(rec.b)
		rec.put()
		l.d.stats.badReplies.Add(1)
		l.deliver(xid, x, nil, errTooLongReply(x))
		return false, l.skip(in, have)
	}
	rec.put()
	return false, err
}

// skip drops the rest of a record of which n bytes were read.
func (l *link) skip(in *records, n int) error { return in.skip(l.d.cfg.MaxRecord - n) }
