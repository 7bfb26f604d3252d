package knfsd

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/rdmafs/rdmafs/test/knfsd/guest/ctl"
)

// fakeAgent is the guest's end of a controller's stream, played by the test.
type fakeAgent struct {
	t *testing.T
	f *os.File
}

func newFakeAgent(t *testing.T) (*controller, *fakeAgent) {
	t.Helper()
	ours, theirs, err := stream("test")
	if err != nil {
		t.Fatal(err)
	}
	c := newController(ours)
	t.Cleanup(func() {
		if err := errors.Join(c.close(), theirs.Close()); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return c, &fakeAgent{t, theirs}
}

func (a *fakeAgent) send(f ctl.Frame) {
	a.t.Helper()
	b, err := ctl.Append(nil, f)
	if err == nil {
		_, err = a.f.Write(b)
	}
	if err != nil {
		a.t.Error(err)
	}
}

func (a *fakeAgent) receive(want ctl.Kind) ctl.Frame {
	a.t.Helper()
	f, err := ctl.Read(a.f)
	if err != nil || f.Kind != want {
		a.t.Errorf("received %+v, %v; want kind %d", f, err, want)
	}
	return f
}

type ran struct {
	output string
	code   int
	err    error
}

func runInBackground(ctx context.Context, c *controller, command string) <-chan ran {
	result := make(chan ran, 1)
	go func() {
		var r ran
		r.output, r.code, r.err = c.run(ctx, command)
		result <- r
	}()
	return result
}

func TestCommandsInterleave(t *testing.T) {
	c, a := newFakeAgent(t)
	a.send(ctl.Frame{Kind: ctl.Hello})
	<-c.ready
	first := runInBackground(t.Context(), c, "first")
	one := a.receive(ctl.Start)
	second := runInBackground(t.Context(), c, "second")
	two := a.receive(ctl.Start)
	if string(one.Body) != "first" || string(two.Body) != "second" || one.ID == two.ID {
		t.Errorf("started %+v and %+v", one, two)
	}
	a.send(ctl.Frame{Kind: ctl.Output, ID: one.ID, Body: []byte("1a")})
	a.send(ctl.Frame{Kind: ctl.Output, ID: two.ID, Body: []byte("2a")})
	a.send(ctl.Frame{Kind: ctl.Exit, ID: two.ID, Body: ctl.AppendCode(nil, 7)})
	if r := <-second; r != (ran{"2a", 7, nil}) {
		t.Errorf("second: %+v", r)
	}
	a.send(ctl.Frame{Kind: ctl.Output, ID: one.ID, Body: []byte("1b")})
	a.send(ctl.Frame{Kind: ctl.Exit, ID: one.ID, Body: ctl.AppendCode(nil, 0)})
	if r := <-first; r != (ran{"1a1b", 0, nil}) {
		t.Errorf("first: %+v", r)
	}
	third := runInBackground(t.Context(), c, "third")
	a.send(ctl.Frame{Kind: ctl.Failed, ID: a.receive(ctl.Start).ID, Body: []byte("no shell")})
	if r := <-third; r.err == nil || r.code != -1 {
		t.Errorf("failed command: %+v", r)
	}
}

func TestCancelKillsAndForgets(t *testing.T) {
	c, a := newFakeAgent(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := runInBackground(ctx, c, "cancelled")
	start := a.receive(ctl.Start)
	cancel()
	if r := <-cancelled; !errors.Is(r.err, context.Canceled) {
		t.Errorf("cancelled: %+v", r)
	}
	if kill := a.receive(ctl.Kill); kill.ID != start.ID {
		t.Errorf("killed %d, not %d", kill.ID, start.ID)
	}
	// What it still says does no harm to the next command.
	a.send(ctl.Frame{Kind: ctl.Output, ID: start.ID, Body: []byte("late")})
	a.send(ctl.Frame{Kind: ctl.Exit, ID: start.ID, Body: ctl.AppendCode(nil, 137)})
	next := runInBackground(t.Context(), c, "next")
	a.send(ctl.Frame{Kind: ctl.Exit, ID: a.receive(ctl.Start).ID, Body: ctl.AppendCode(nil, 0)})
	if r := <-next; r != (ran{}) {
		t.Errorf("next: %+v", r)
	}
}

// TestBadAgent has the stream end in every improper way: the command that
// waits, and every later one, learn of it.
func TestBadAgent(t *testing.T) {
	for name, misbehave := range map[string]func(a *fakeAgent, id uint32){
		"end of stream": func(a *fakeAgent, _ uint32) { a.f.Close() },
		"unknown id":    func(a *fakeAgent, id uint32) { a.send(ctl.Frame{Kind: ctl.Output, ID: id + 1}) },
		"second hello": func(a *fakeAgent, _ uint32) {
			a.send(ctl.Frame{Kind: ctl.Hello})
			a.send(ctl.Frame{Kind: ctl.Hello})
		},
		"frame to the guest": func(a *fakeAgent, id uint32) { a.send(ctl.Frame{Kind: ctl.Start, ID: id}) },
		"bad exit code":      func(a *fakeAgent, id uint32) { a.send(ctl.Frame{Kind: ctl.Exit, ID: id, Body: []byte{1}}) },
	} {
		t.Run(name, func(t *testing.T) {
			c, a := newFakeAgent(t)
			waiting := runInBackground(t.Context(), c, "waiting")
			misbehave(a, a.receive(ctl.Start).ID)
			if r := <-waiting; !errors.Is(r.err, ErrGone) {
				t.Errorf("waiting: %+v", r)
			}
			if _, _, err := c.run(t.Context(), "later"); !errors.Is(err, ErrGone) {
				t.Errorf("later: %v", err)
			}
		})
	}
}

func TestOutputIsBounded(t *testing.T) {
	c, a := newFakeAgent(t)
	result := runInBackground(t.Context(), c, "yes")
	id := a.receive(ctl.Start).ID
	piece := make([]byte, ctl.MaxBody)
	for sent := 0; sent <= maxOutput; sent += len(piece) {
		a.send(ctl.Frame{Kind: ctl.Output, ID: id, Body: piece})
	}
	a.send(ctl.Frame{Kind: ctl.Exit, ID: id, Body: ctl.AppendCode(nil, 0)})
	if r := <-result; !errors.Is(r.err, ErrOutput) || len(r.output) != maxOutput {
		t.Errorf("%d bytes, %v", len(r.output), r.err)
	}
}
