// Package mark has access times by which a client knows a file again that it has made itself.
package mark

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Marks gives each file that must not exist before an access time of its own: should the
// call be resent to a server that has forgotten the first transmission, the time shows
// whose file it finds, as the verifier of an exclusive CREATE does. Unlike that, the mark
// need not be replaced by another call: it is within markSpread of what the server's clock
// shows.
//
// Only who owns a file may set its times, which on some file systems is not who makes it,
// and some keep no nanoseconds. A user therefore gets marks when a file of his has kept one
// that an exclusive CREATE's SETATTR gave it. Its methods may be called at the same time.
type Marks struct {
	clock   serverClock
	refused atomic.Bool // a server would not take one, or did not keep it

	mu   sync.Mutex
	kept map[uint32]struct{} // by uid
}

const (
	// markSpread in nanoseconds is how many marks there are at any moment.
	markSpread = 1 << 27
	// maxMarkUsers bounds Marks.kept.
	maxMarkUsers = 1 << 10
)

// Candidate is a mark to try; ok is false if there is none.
func (m *Marks) Candidate() (mark time.Time, ok bool) {
	if m.refused.Load() {
		return mark, false
	}
	now, ok := m.clock.now()
	return now.Add(-time.Duration(rand.Int64N(markSpread))), ok
}

// Next is a mark for a file of a user who has kept one.
func (m *Marks) Next(uid uint32) (mark time.Time, ok bool) {
	m.mu.Lock()
	_, ok = m.kept[uid]
	m.mu.Unlock()
	if !ok {
		return mark, false
	}
	return m.Candidate()
}

// Tried takes note of a user's file that was given a mark, and of the access time that it has.
func (m *Marks) Tried(uid uint32, mark, atime time.Time) {
	if !atime.Equal(mark) {
		m.refused.Store(true)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil || len(m.kept) >= maxMarkUsers {
		m.kept = make(map[uint32]struct{})
	}
	m.kept[uid] = struct{}{}
}

// Refuse ends all marks: the server does not take them.
func (m *Marks) Refuse() { m.refused.Store(true) }

// Made takes the server's time from the ctime of a file that a call has made, which was sent at a time here, once.
func (m *Marks) Made(sent, ctime time.Time) { m.clock.made(sent, ctime) }

// serverClock is what is known of a server's clock, from the ctime of files that it has
// just made.
type serverClock struct{ last atomic.Pointer[clockReading] }

// clockReading is what the clock showed at a moment here.
type clockReading struct{ here, there time.Time }

const (
	renewReading  = time.Minute
	maxReadingAge = 10 * time.Minute
	// maxReadingCall is how long the call may have taken whose reply tells the time.
	maxReadingCall = time.Second
)

// made takes the time from a file that a call sent at sent has made.
func (k *serverClock) made(sent time.Time, ctime time.Time) {
	now := time.Now()
	if ctime.Unix() <= 0 || now.Sub(sent) > maxReadingCall {
		return
	}
	if r := k.last.Load(); r != nil && now.Sub(r.here) < renewReading {
		return
	}
	k.last.Store(&clockReading{now, ctime})
}

// now is what the clock shows, late by as much as the call took. After a suspend, which
// Go's monotonic clock does not count, and when this host's clock was set, that is not
// known.
func (k *serverClock) now() (t time.Time, ok bool) {
	r := k.last.Load()
	if r == nil {
		return t, false
	}
	now := time.Now()
	age := now.Sub(r.here)
	wall := now.Round(0).Sub(r.here.Round(0))
	if age > maxReadingAge || (age-wall).Abs() > time.Second {
		return t, false
	}
	return r.there.Add(age), true
}
