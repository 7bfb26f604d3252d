package spin

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookInterval is how old an answer of /proc/loadavg may be, pause how long
	// nothing is polled after the machine was seen to be busy.
	lookInterval = 5 * time.Millisecond
	pause        = 20 * time.Millisecond
)

// load is whether this machine has processors to spare.
type load struct {
	base time.Time
	// off and on: see RDMAFS_SPIN.
	off, on bool
	// next is when to look again, in nanoseconds since base; until then, spare is the answer.
	next  atomic.Int64
	spare atomic.Bool

	mu   sync.Mutex
	file *os.File
}

var machine = load{
	base: time.Now(),
	off:  os.Getenv("RDMAFS_SPIN") == "off" || runtime.GOMAXPROCS(0) == 1,
	on:   os.Getenv("RDMAFS_SPIN") == "on",
}

// idle reports whether there is a processor to spare.
func (l *load) idle() bool {
	if l.off || l.on {
		return l.on
	}
	now, next := int64(time.Since(l.base)), l.next.Load()
	if now >= next && l.next.CompareAndSwap(next, now+int64(lookInterval)) {
		l.look(now)
	}
	return l.spare.Load()
}

// look asks the system.
func (l *load) look(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	spare := l.running() < runtime.NumCPU()
	l.spare.Store(spare)
	if !spare {
		l.next.Store(now + int64(pause))
	}
}

// crowded notes that a goroutine that polled lost its processor.
func (l *load) crowded() {
	l.spare.Store(false)
	l.next.Store(int64(time.Since(l.base) + pause))
}

// running is the number of tasks that run or could, this one among them; what cannot be known is more than any machine has
// processors. mu is held.
func (l *load) running() int {
	const unknown = 1 << 30
	if l.file == nil {
		f, err := os.Open("/proc/loadavg")
		if err != nil {
			return unknown
		}
		l.file = f
	}
	var b [128]byte
	n, _ := l.file.ReadAt(b[:], 0) // short of the buffer: io.EOF
	return parse(b[:n], unknown)
}

// parse finds the number of running tasks in "0.20 0.18 0.12 1/80 11206".
func parse(b []byte, unknown int) int {
	f := bytes.Fields(b)
	if len(f) < 4 {
		return unknown
	}
	running, _, _ := bytes.Cut(f[3], []byte("/"))
	n, err := strconv.Atoi(string(running))
	if err != nil {
		return unknown
	}
	return n
}
