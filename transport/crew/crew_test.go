package crew

import (
	"sync"
	"testing"
	"time"
)

// rig is a crew whose members count as they start.
func rig(t *testing.T) (c *Crew, started chan struct{}) {
	c, started = New(), make(chan struct{}, 16)
	c.Start = func() { started <- struct{}{} }
	return c, started
}

// TestMemberStays has one member carry out many short calls: nobody relieves it.
func TestMemberStays(t *testing.T) {
	c, started := rig(t)
	stays := 0
	for range 100 {
		if turn := c.Begin(); c.Here(turn) && c.End(turn) {
			stays++
		} else {
			c.state.Store(c.state.Load() &^ 1) // the machine was busy for longer than a tick
		}
	}
	if stays+len(started) < 100 || stays == 0 {
		t.Errorf("stayed %d times, %d started", stays, len(started))
	}
}

// TestRelieve has a member be relieved when somebody says so, once.
func TestRelieve(t *testing.T) {
	c, started := rig(t)
	c.Relieve()
	if len(started) != 0 {
		t.Fatal("a receiving member was relieved")
	}
	turn := c.Begin()
	c.Relieve()
	c.Relieve()
	if len(started) != 1 || c.Here(turn) || c.End(turn) {
		t.Errorf("%d started", len(started))
	}
	// The new one receives; the end of the old one's call has changed nothing.
	next := c.Begin()
	if c.Here(turn) || next.n != turn.n+2 {
		t.Errorf("turn %d after %d", next.n, turn.n)
	}
}

// TestLongCall has a call that takes long be noticed, also a second one after a pause.
func TestLongCall(t *testing.T) {
	c, started := rig(t)
	for range 3 {
		turn := c.Begin()
		<-started
		if c.End(turn) {
			t.Fatal("nobody was relieved")
		}
	}
}

// TestLongCalls has the crew relieve members at once when calls have taken long, and no more when they are short again.
func TestLongCalls(t *testing.T) {
	c, started := rig(t)
	c.took.Store(int64(2 * long))
	turn := c.Begin()
	if len(started) != 1 {
		t.Fatal("not relieved at once")
	}
	for range 100 {
		c.End(turn)
		if turn = c.Begin(); c.Here(turn) {
			return
		}
		turn.start = time.Now() // a busy machine makes no call long
	}
	t.Error("always relieved")
}

// TestStandBy has a member that was relieved relieve the next one.
func TestStandBy(t *testing.T) {
	c, started := rig(t)
	done := make(chan struct{})
	var wg sync.WaitGroup
	woken := make(chan bool, 1)
	wg.Go(func() { woken <- c.StandBy(done) })
	for relieved := false; !relieved; {
		turn := c.Begin()
		c.Relieve()
		c.End(turn)
		select {
		case relieved = <-woken:
		case <-started: // it was not standing by yet
		}
	}
	wg.Go(func() { woken <- c.StandBy(done) })
	close(done)
	if <-woken {
		t.Error("woken after the end")
	}
	wg.Wait()
}
