package iwarp

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/verbs"
)

// TestPollsBetweenMessages: Wait polls while it waits for a message, and not while it waits for the next FPDU of a long Write: that
// would take processor time from its sender.
func TestPollsBetweenMessages(t *testing.T) {
	const fpdus, size = 16, 512
	v := newVictim(t, Config{}, verbs.RemoteWrite)
	var polls atomic.Int32
	v.conn.rx.spinFn = func(func() bool) bool { polls.Add(1); return false }
	ctx, ended := testContext(t), make(chan error, 1)
	go func() {
		var wc [4]verbs.Completion
		_, err := v.conn.Wait(ctx, wc[:])
		ended <- err
	}()
	for i := range fpdus {
		h := header{tagged: true, op: opWrite, stag: v.key, to: v.addr + uint64(i*size), last: i == fpdus-1}
		v.write(fpdu(h, make([]byte, size)))
		for unread(t, v.conn) > 0 {
			runtime.Gosched()
		}
	}
	// One before the Write, and, as no message has followed, one after it at most.
	v.peer.Close()
	if err := <-ended; err == nil {
		t.Error("a completion of a Write")
	}
	if n := polls.Load(); n > 2 {
		t.Errorf("polled %d times", n)
	}
	v.intact(windowAt, fpdus*size)
}

// unread is how many bytes wait in the socket of c.
func unread(t *testing.T, c *conn) (n int) {
	var err error
	if cerr := c.raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return n
}
