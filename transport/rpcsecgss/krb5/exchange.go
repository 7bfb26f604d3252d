package krb5

import (
	"context"
	"fmt"
	"time"
)

// exchanged is what an exchange with a KDC has ended with.
type exchanged struct {
	t   *ticket
	err error
}

// exchange asks a KDC for a ticket on a goroutine, as gokrb5's exchanges cannot be given
// up: when ctx ends first, the exchange goes on, and its ticket is there for the next who
// needs one. The caller holds the token in u.busy, which is given back when the exchange
// has ended.
func (u *User) exchange(ctx context.Context, now time.Time, ask func() (*ticket, error)) (*ticket, error) {
	done := make(chan exchanged, 1)
	u.c.running.Add(1)
	go u.runExchange(now, ask, done)
	select {
	case e := <-done:
		return e.t, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// runExchange asks a KDC, and keeps the ticket. Without an answer the ticket of before is as
// good as long as it lasts: a KDC may be away.
func (u *User) runExchange(now time.Time, ask func() (*ticket, error), done chan<- exchanged) {
	defer u.c.running.Done()
	t, err := guarded(ask)
	switch {
	case err == nil:
		u.keep(t, now)
	case u.have != nil && now.Before(u.have.end):
		t, err = u.have, nil
	}
	<-u.busy
	done <- exchanged{t, err}
}

// guarded returns a panic of ask as an error. gokrb5 takes it for granted that a KDC's answer
// is complete: it takes the first element of an empty ETYPE-INFO2, for instance, of an
// error that nothing authenticates.
func guarded(ask func() (*ticket, error)) (t *ticket, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("the answer of the KDC is malformed: %v", p)
		}
	}()
	return ask()
}

// Wait waits until no exchange with a KDC is under way. No ticket may be asked for meanwhile.
func (c *Client) Wait() { c.running.Wait() }
