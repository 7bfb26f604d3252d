package rc

const (
	// windowBytes and windowStart bound what is sent or asked for and not
	// acknowledged to less than a socket holds by default, and than rxe queues. A
	// window begins so, and is never limited to less.
	windowBytes = 128 << 10
	windowStart = 64
	// windowMax is the most that a window grows to: a message of 1 MiB in the
	// largest packets, and what goes with it.
	windowMax = 320
	windowMin = 16
	// requestsMax bounds the requests under way. Small ones fill a peer's receives, and the
	// send queue, before they fill the window.
	requestsMax = 64
	// readPieces is how many READ requests fill the window, if the peer takes
	// so many: the answer to each shows what the one before has lost.
	readPieces = 4
	// regrowth is how many windows must be acknowledged for one packet more,
	// once something was lost.
	regrowth = 4
)

// window is how many packet sequence numbers may be under way: sent, or asked for by READ
// requests, and not acknowledged. What the peer's socket holds is not known, so the window
// begins small. It doubles with each window that is acknowledged, until something is lost;
// from then on it grows slowly, so that what has overflowed seldom does again.
type window struct {
	size, limit int
	// start is the size at the beginning, which limit is never below.
	start, mtu int
	// gained counts numbers acknowledged since the window last grew.
	gained int
	lossy  bool
}

func newWindow(mtu, room int) window {
	start := max(min(windowStart, windowBytes/mtu), windowMin)
	w := window{size: start, start: start, mtu: mtu}
	w.share(room)
	return w
}

// share sets the limit to what fits room bytes of a socket's buffer. Linux counts the memory
// of a packet there, which is up to twice its payload and some more.
func (w *window) share(room int) {
	w.limit = max(min(room/(2*w.mtu+1280), windowMax), w.start)
	w.size = min(w.size, w.limit)
}

// piece is how many responses one READ request may ask for.
func (w *window) piece(reads int) int {
	return max(min(w.limit/readPieces, windowBytes/w.mtu), w.limit/max(reads, 1))
}

// grow records that n numbers were acknowledged.
func (w *window) grow(n int) {
	w.gained += n
	switch {
	case w.size == w.limit:
		w.gained = 0
	case !w.lossy:
		w.size = min(w.size+w.gained, w.limit)
		w.gained = 0
	case w.gained >= w.size && (w.size < w.start || w.gained >= w.size*regrowth):
		w.size++
		w.gained = 0
	}
}

// shrink records a loss.
func (w *window) shrink() {
	w.size = max(w.size*3/4, windowMin)
	w.gained, w.lossy = 0, true
}
