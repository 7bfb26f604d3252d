package tcp

import (
	"fmt"
	"io"

	"github.com/rdmafs/rdmafs/transport/oncrpc"
)

// runReader delivers replies, and hands on calls, until the connection ends.
func (l *link) runReader() {
	defer close(l.reader)
	in := newRecords(&countingReader{r: l.conn, n: &l.d.stats.received})
	for {
		if err := l.readRecord(in); err != nil {
			if err == io.EOF {
				err = errServerClosed
			}
			l.fail(err)
			return
		}
	}
}

var errServerClosed = fmt.Errorf("the server closed the connection: %w", io.EOF)

// readRecord reads one record. Its error ends the connection.
func (l *link) readRecord(in *records) error {
	if err := in.next(); err != nil {
		return err
	}
	head := in.head[:]
	if n, err := in.read(head); err == errRecordEnd {
		l.d.stats.badReplies.Add(1)
		return l.skip(in, n)
	} else if err != nil {
		return err
	}
	xid, reply, ok := oncrpc.PeekXID(head)
	if !ok || !reply && l.back == nil {
		l.d.stats.badReplies.Add(1)
		return l.skip(in, len(head))
	}
	if !reply {
		return l.back.read(in, head)
	}
	x := l.find(xid)
	if x == nil {
		l.d.stats.badXIDs.Add(1)
		return l.skip(in, len(head))
	}
	var err error
	rec := getBuffer(len(head))
	copy(rec.b, head)
	if in.last && in.left >= directMin && in.left+len(head) <= x.limit && x.room > 0 {
		var done bool
		if rec, done, err = l.readDirect(in, xid, x, rec); done || err != nil {
			return err
		}
	}
	rec, err = in.rest(rec, x.limit)
	switch err {
	case nil:
		l.d.stats.replies.Add(1)
		l.deliver(xid, x, rec, nil)
		return nil
	case errTooLong:
		have := len(rec.b)
		rec.put()
		l.d.stats.badReplies.Add(1)
		l.deliver(xid, x, nil, errTooLongReply(x))
		return l.skip(in, have)
	}
	rec.put()
	return err
}

// skip drops the rest of a record of which n bytes were read.
func (l *link) skip(in *records, n int) error { return in.skip(l.d.cfg.MaxRecord - n) }
