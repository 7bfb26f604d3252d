// Package stream has what protocols over TCP need to go on soon after an outage
// of the network. TCP itself waits longer and longer, up to two minutes, before
// it sends again what got no answer, a SYN too: it may notice only as long after
// the network's return as the outage took.
//
// It owns no connection, starts no goroutine and holds no state.
package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// synTime is how long a SYN and its first repetitions may wait for an answer.
// The kernel sends them at 0, 1 and (from Linux 6.5 on) 2 seconds.
const synTime = 3 * time.Second

// Dial connects as d does, and starts anew whenever there is no answer for
// a while, until the deadline that ctx has.
func Dial(ctx context.Context, d net.Dialer, to string) (net.Conn, error) {
	if _, ok := ctx.Deadline(); ok {
		d.Timeout = synTime
	}
	for {
		conn, err := d.DialContext(ctx, "tcp", to)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || d.Timeout == 0 {
			return conn, err
		}
	}
}

// stalledAfter is how long retransmissions go unacknowledged on a stalled
// connection. With an ordinary round-trip time it takes three of them, the next
// would come 1.6 seconds after the third.
const stalledAfter = 1200 * time.Millisecond

// Stalled returns an error when nothing of what was sent is acknowledged any
// more. It says nothing of a peer that acknowledges and takes no data, nor of a
// connection on which nothing is outstanding.
func Stalled(raw syscall.RawConn) error {
	var info *unix.TCPInfo
	var opt error
	err := raw.Control(func(fd uintptr) {
		info, opt = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil || opt != nil {
		return nil // closed, which its owner knows
	}
	if info.Unacked == 0 || info.Retransmits == 0 {
		return nil
	}
	// The timeout has doubled with each: those that have passed make, together
	// with the first, the next one.
	next := time.Duration(info.Rto) * time.Microsecond
	silent := next - next>>info.Backoff
	if silent < stalledAfter {
		return nil
	}
	return fmt.Errorf("%d retransmissions in %.1f s were not acknowledged", info.Retransmits, silent.Seconds())
}
