package rpcsecgss_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// destroys counts the contexts that the server has ended because it was told that they are not needed any more.
type destroys struct {
	mu    sync.Mutex
	calls map[*transport.Call]bool
	n     int
	want  int
	all   chan struct{} // closed at want
}

func (d *destroys) watch(w *wired) {
	w.call = func(c *transport.Call, msg []byte) []byte {
		const proc = 4 + 4 + 4 + 4 + 4 + 4 + 4 + 4 + 4 // behind the call's six words, flavor, length and version
		d.mu.Lock()
		defer d.mu.Unlock()
		d.calls[c] = msg[proc+3] == byte(rpcsecgss.ProcDestroy)
		return msg
	}
	w.reply = func(c *transport.Call, msg []byte) []byte {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.calls[c] {
			if d.n++; d.n == d.want {
				close(d.all)
			}
		}
		delete(d.calls, c)
		return msg
	}
}

// TestUsersGone: of many users, those who make no calls any more are dropped with their contexts, of which the server is told; not
// those who do, and not one with a call under way. One who comes back has a new context.
func TestUsersGone(t *testing.T) {
	const gone, stay, more = 200, 20, 500
	now := time.Now()
	w := newWiredAt(t, rpcsecgss.Integrity, func() time.Time { return now })
	server := w.h.(*rpcsecgss.Server)
	ask := func(from, n uint32) {
		t.Helper()
		for uid := from; uid < from+n; uid++ {
			if err := w.ask(uid, rpcsecgss.Integrity); err != nil {
				t.Fatal(err)
			}
		}
	}
	const waiting, staying, leaving, coming = 50, 100, 1000, 5000
	ask(leaving, gone)
	ask(waiting, 1)
	d := &destroys{calls: map[*transport.Call]bool{}, want: gone + 2, all: make(chan struct{})} // with the two of newWired
	d.watch(w)
	// One user's call is answered only when all is over.
	held, hold, answered := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.before = func(q *transport.Request) {
		if q.Principal == fmt.Sprint(waiting) {
			close(held)
			<-hold
		}
	}
	runHeld := func() {
		answered <- w.link.Exchange(context.Background(), 1<<20, echoCall(waiting, "some text", rpcsecgss.Integrity))
	}
	go runHeld()
	<-held
	now = now.Add(time.Hour / 2)
	ask(staying, stay)
	ask(coming, more)
	<-d.all
	if n, want := server.Contexts(), 1+stay+more; n != want {
		t.Errorf("the server has %d contexts, want %d", n, want)
	}
	w.before = nil
	close(hold)
	if err := <-answered; err != nil {
		t.Error("the call that was under way:", err)
	}
	made := w.initiators
	ask(staying, stay)
	ask(waiting, 1)
	if w.initiators != made {
		t.Errorf("%d users who were there were begun anew", w.initiators-made)
	}
	ask(leaving, gone)
	if n := server.Contexts(); n != 1+stay+more+gone {
		t.Errorf("the server has %d contexts, want %d", n, 1+stay+more+gone)
	}
	// What is common to all links is dropped when no link has had it for a while.
	if err := w.link.Close(); err != nil {
		t.Fatal(err)
	}
	made = w.initiators
	var err error
	if w.link, err = w.dialer.Dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(staying, stay)
	if w.initiators != made {
		t.Error("what was known of users did not outlast a link")
	}
	now = now.Add(time.Hour / 2)
	ask(leaving+gone, more) // and so a sweep
	ask(leaving, gone)
	if n := w.initiators - made; n != gone+more {
		t.Errorf("%d users were begun, want %d", n, gone+more)
	}
}
