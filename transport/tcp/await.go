package tcp

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/rdmafs/rdmafs/transport/turn"
)

// How callers wait: package turn says who of them reads the connection. A caller reads short records only, which it has in
// the buffer as a whole before it begins to handle one. So it can leave at any moment, whatever the server sends, and the
// stream stays intact. What is longer runReader reads.

// await returns when the reply to x has come, or ctx or the connection has ended.
func (q *requester) await(ctx context.Context, x *exchange) {
	w := &x.waiter
	if q.turn == nil || x.long {
		if q.turn != nil {
			q.turn.Expect()
			defer q.turn.Unexpect()
		}
		select {
		case <-w.Woke:
		case <-ctx.Done():
		case <-q.done:
		}
		return
	}
	for {
		over := q.rest(ctx, w)
		q.mu.Lock()
		q.turn.Unlist(w)
		over = over || x.rec != nil || x.err != nil
		q.mu.Unlock()
		if over {
			q.turn.Leave(w)
			return
		}
	}
}

// rest returns when something has happened for w, and true if nothing is to be waited for any more.
func (q *requester) rest(ctx context.Context, w *turn.Waiter) (over bool) {
	for leads := q.turn.Follow(w); leads; {
		select {
		case <-w.Woke:
			return false
		default:
		}
		err := q.drive(ctx, w)
		if err == errHandedOver {
			break
		}
		if err != nil {
			return true
		}
	}
	select {
	case <-w.Woke:
		return false
	case <-ctx.Done():
	case <-q.done:
	}
	return true
}

// errHandedOver: runReader has the turn now.
var errHandedOver = errors.New("handed over")

// receive is requester.drive: it handles one record, if that is short.
func (l *link) receive(ctx context.Context, w *turn.Waiter) error {
	for {
		whole, long := l.in.ready()
		if long {
			l.mu.Lock()
			l.turn.HandOver(w)
			l.mu.Unlock()
			return errHandedOver
		}
		if whole {
			_, err := l.readRecord()
			if err != nil {
				l.broken(err)
			}
			return err
		}
		l.sock.polls = l.in.r.Buffered() == 0
		err := l.in.fill()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = l.conn.SetReadDeadline(time.Time{}) // reading reports a closed connection
			if err := ctx.Err(); err != nil {
				return err
			}
		} else if err != nil {
			l.broken(err)
			return err
		}
	}
}

// interrupt makes the leader look at its context. runReader calls it.
func (l *link) interrupt() {
	l.interrupted = true
	_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection interrupts, too
}

// maxWhole is the longest record that the buffer holds as a whole.
const maxWhole = readAhead - 4

// ready reports whether the next record is in the buffer as a whole, or too long to get there.
func (s *records) ready() (whole, long bool) {
	have := s.r.Buffered()
	if have < len(s.mark) {
		return false, false
	}
	b, _ := s.r.Peek(len(s.mark))
	copy(s.mark[:], b)
	s.setMark()
	n, last := s.left, s.last
	s.left = 0
	return last && n <= have-len(s.mark), !last || n > maxWhole
}

// fill reads more into the buffer, which has room.
func (s *records) fill() error {
	_, err := s.r.Peek(s.r.Buffered() + 1)
	if err == io.EOF && s.r.Buffered() > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}
