package netns

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Recorder writes what passes a host's card to a file, in the format of pcap.
type Recorder struct {
	fd   int
	out  *os.File
	w    *bufio.Writer
	stop atomic.Bool
	done chan error
}

// maxRecord is the most of a frame that is written: all of it, though a card that cuts segments
// is given frames with 64 KiB of IP.
const maxRecord = 1 << 17

// Record begins to record at a host. Stop must end it.
func Record(t testing.TB, h Host, path string) *Recorder {
	t.Helper()
	return RecordCard(t, h.NS, Link, path)
}

// RecordCard begins to record at a card of a namespace. Stop must end it.
func RecordCard(t testing.TB, n *NS, card, path string) *Recorder {
	t.Helper()
	r := &Recorder{done: make(chan error, 1)}
	err := n.Do(func() (err error) {
		r.fd, err = packetSocket(card, 0, []sockopt{{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256 << 20}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// How long a read waits before it checks whether to stop.
	look := unix.NsecToTimeval(int64(20 * time.Millisecond))
	if err := unix.SetsockoptTimeval(r.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &look); err != nil {
		t.Fatal(err)
	}
	if r.out, err = os.Create(path); err != nil {
		t.Fatal(err)
	}
	r.w = bufio.NewWriter(r.out)
	// Nanoseconds, version 2.4, no zone, Ethernet.
	if err := r.words(0xa1b23c4d, 4<<16|2, 0, 0, maxRecord, 1); err != nil {
		t.Fatal(err)
	}
	go r.runRecord()
	return r
}

func (r *Recorder) words(words ...uint32) error {
	for _, v := range words {
		if _, err := r.w.Write(binary.NativeEndian.AppendUint32(nil, v)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recorder) runRecord() { r.done <- r.record() }

func (r *Recorder) record() error {
	b := make([]byte, maxRecord)
	for {
		n, err := unix.Read(r.fd, b)
		switch err {
		case nil:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			if r.stop.Load() {
				return r.whole()
			}
			continue
		default:
			return err
		}
		now := time.Now()
		if err := r.words(uint32(now.Unix()), uint32(now.Nanosecond()), uint32(n), uint32(n)); err != nil {
			return err
		}
		if _, err := r.w.Write(b[:n]); err != nil {
			return err
		}
	}
}

// whole checks that the kernel dropped nothing.
func (r *Recorder) whole() error {
	st, err := unix.GetsockoptTpacketStats(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err == nil && st.Drops > 0 {
		err = fmt.Errorf("the recording misses %d frames", st.Drops)
	}
	return err
}

// Stop ends the recording when all that has passed is written.
func (r *Recorder) Stop(t testing.TB) {
	t.Helper()
	r.stop.Store(true)
	for _, err := range []error{<-r.done, unix.Close(r.fd), r.w.Flush(), r.out.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}
