package tcp

import (
	"encoding/binary"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

// TestPollsOnce: a read is polled if it was told to, and the one after it is not.
func TestPollsOnce(t *testing.T) {
	ln := listen(t)
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	in := newPollingReader(conn)
	polls := 0
	in.poll = func(try func() bool) bool {
		polls++
		if _, err := peer.Write([]byte{1}); err != nil {
			t.Error(err)
		}
		for !try() {
			runtime.Gosched()
		}
		return true
	}
	for i, want := range []int{1, 1, 2} {
		in.polls = i != 1
		if !in.polls { // what it reads is there already, or comes while it waits
			go func() { _, _ = peer.Write([]byte{1}) }()
		}
		if n, err := in.Read(make([]byte, 1)); n != 1 || err != nil || polls != want {
			t.Errorf("read %d: %d bytes, %v; polled %d times by then, not %d", i, n, err, polls, want)
		}
	}
}

// TestPollsForHeads: a long reply is waited for and read without polling, however small the pieces in which it comes: who polls
// in the middle of a stream takes processor time from its sender.
func TestPollsForHeads(t *testing.T) {
	const size = 64 << 10
	received := make(chan *atomic.Uint64, 1)
	addr := scripted(t, func(conn net.Conn) {
		count := <-received
		call, err := readRecord(conn)
		if err != nil {
			return
		}
		reply := record(bulkReply(binary.BigEndian.Uint32(call), make([]byte, size), 0))
		for sent := uint64(0); len(reply) > 0; {
			n, err := conn.Write(reply[:min(len(reply), 1000)])
			if err != nil {
				return
			}
			sent += uint64(n)
			reply = reply[n:]
			for count.Load() < sent {
				runtime.Gosched()
			}
		}
		_, _ = readRecord(conn) // until the client closes
	})
	d, l := dial(t, addr, Config{})
	var polls atomic.Int32
	sock := l.(*link).sock
	sock.poll = func(func() bool) bool { polls.Add(1); return false }
	received <- &d.stats.received
	a, err := mem.NewArena(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if err := l.Exchange(t.Context(), 1, bulkCall(a, size, 0)); err != nil {
		t.Fatal(err)
	}
	if n := polls.Load(); n != 0 {
		t.Errorf("polled %d times while a long reply came", n)
	}
}
