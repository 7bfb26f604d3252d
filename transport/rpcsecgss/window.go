package rpcsecgss

import "sync"

// windowSize is that of the Linux server.
const windowSize = 128

// window is the sequence window of a context (RFC 2203 section 5.3.3.1): which numbers
// may still come. The zero window has seen none. mu is a leaf.
type window struct {
	mu   sync.Mutex
	last uint32 // the highest number seen
	any  bool
	// seen has a bit for each of the windowSize numbers up to last, at the number
	// modulo windowSize.
	seen [windowSize / 64]uint64
}

// take reports whether seq may be used, which it may once. Numbers below the window
// may not.
func (w *window) take(seq uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.any || seq > w.last:
		w.moveTo(seq)
	case w.last-seq >= windowSize:
		return false
	}
	word, bit := &w.seen[seq%windowSize/64], uint64(1)<<(seq%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// moveTo makes seq, which is above all others, the last. mu is held.
func (w *window) moveTo(seq uint32) {
	if !w.any || seq-w.last >= windowSize {
		w.seen = [windowSize / 64]uint64{}
	} else {
		for n := w.last + 1; n <= seq; n++ {
			w.seen[n%windowSize/64] &^= 1 << (n % 64)
		}
	}
	w.last, w.any = seq, true
}
