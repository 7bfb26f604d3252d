package session

import "math/bits"

// slot is one slot of the session's fore channel.
type slot struct {
	// seq is the sequence ID of the next request.
	seq uint32
	// busy: a request is outstanding, or may be carried out yet.
	busy bool
}

// slots is the client's side of a slot table (RFC 8881 section 2.10.6.1). Its user holds the
// lock.
type slots struct {
	all  []slot
	free []uint64 // a bit for each slot that is not busy
	used int      // slots that are busy
	// target is the number of slots, from 0, that new requests may use.
	target int
}

func newSlots(n int) *slots {
	t := &slots{target: n}
	t.grow(n)
	return t
}

// grow makes it n slots.
func (t *slots) grow(n int) {
	for i := len(t.all); i < n; i++ {
		t.all = append(t.all, slot{seq: 1})
		if i%64 == 0 {
			t.free = append(t.free, 0)
		}
		t.free[i/64] |= 1 << (i % 64)
	}
}

// take gives out the lowest slot that is free, from one on; ok is false if there is none.
func (t *slots) take(from int) (n int, ok bool) {
	for w := from / 64; w < len(t.free); w++ {
		b := t.free[w]
		if w == from/64 {
			b &^= 1<<(from%64) - 1
		}
		if b == 0 {
			continue
		}
		n = w*64 + bits.TrailingZeros64(b)
		if n >= t.target {
			return 0, false
		}
		t.free[w] &^= 1 << (n % 64)
		t.all[n].busy = true
		t.used++
		return n, true
	}
	return 0, false
}

// give takes a slot back; consumed: the server has carried out a request under its sequence ID.
func (t *slots) give(n int, consumed bool) {
	if consumed {
		t.all[n].seq++
	}
	t.all[n].busy = false
	t.free[n/64] |= 1 << (n % 64)
	t.used--
}

// highest is the highest slot that is busy.
func (t *slots) highest() int {
	for w := len(t.free) - 1; w >= 0; w-- {
		busy := ^t.free[w]
		if rest := len(t.all) - w*64; rest < 64 {
			busy &= 1<<rest - 1
		}
		if busy != 0 {
			return w*64 + 63 - bits.LeadingZeros64(busy)
		}
	}
	return 0
}

// limit obeys sr_highest_slotid and sr_target_highest_slotid: new requests go on slots up to
// the lower of the two, of which there are most at most. Slots above keep their sequence
// IDs: a server that takes slots back and gives them again goes on counting (Linux 6.14 does).
func (t *slots) limit(highest, target uint32, most int) {
	t.target = int(min(uint64(min(highest, target))+1, uint64(most)))
	t.grow(t.target)
}
