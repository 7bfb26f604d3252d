package reconnect

import (
	"sync/atomic"
	"testing"
)

// TestKeep: a link that is lost while no call wants one is replaced if it is to be kept, and none is made before the
// first call.
func TestKeep(t *testing.T) {
	var keep atomic.Bool
	keep.Store(true)
	r := newRig(t, Config{Keep: keep.Load})
	res := r.call(t.Context())
	r.dial(nil)
	s := <-r.d.sent
	s.answer <- nil
	if err := <-res; err != nil {
		t.Fatal(err)
	}
	s.link.lose(errLost)
	r.dial(errLost) // though no call wants one
	r.rest()
	r.dial(nil)
	keep.Store(false)
	res = r.call(t.Context())
	s = <-r.d.sent
	s.answer <- nil
	if err := <-res; err != nil {
		t.Fatal(err)
	}
	s.link.lose(errLost)
	res = r.call(t.Context())
	r.dial(nil)
	(<-r.d.sent).answer <- nil
	if err := <-res; err != nil {
		t.Fatal(err)
	}
}
