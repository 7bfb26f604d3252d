// Package readahead decides what to read of a file before it is asked for (Window),
// and which reads share a READ and for how long its bytes are kept (Spans). It has no
// locks, goroutines or clock: the caller serializes all calls on a value, hands in
// each read, and makes the READs.
package readahead

const (
	// firstWindow is the window of a stream that was just seen.
	firstWindow = 128 << 10
	// largeRead is what only a stream asks for: one is enough to see it.
	largeRead = 32 << 10
	// smallFile is read as a whole when its first bytes are asked for.
	smallFile = 128 << 10
)

// State is what the reads of an open file look like.
type State uint8

const (
	// Unread: there was none.
	Unread State = iota
	// Alone: the last read does not belong to a stream.
	Alone
	// Streaming: reads follow each other, and what comes next is read ahead.
	Streaming
	// Striding: reads of one length are equally far apart, or go backward, and the
	// next ones are made ahead.
	Striding
)

// Window is how an open file is being read. The zero value is Unread.
type Window struct {
	end   int64 // of the stream, or of the last read
	state State
	size  int    // of the window
	next  int64  // what was read ahead ends here
	by    stride // how reads follow each other, if not as a stream
}

// State is what the reads look like.
func (w *Window) State() State { return w.state }

// Read notes a read of n bytes at off and returns the stretch to read ahead
// now, of which Piece says the parts; it is empty unless the file is streaming.
// most bounds the window. The kernel's own read-ahead sends large reads side by
// side, so that those may come out of order; small ones are a stream only if each
// begins where the last one ended. When the file is Striding, Record says what to read
// ahead.
func (w *Window) Read(off int64, n, most int) (from, to int64) {
	end := off + int64(n)
	switch again := w.by.note(off, n); {
	case again && w.state == Striding:
		w.by.deepen(most)
		w.end = end
		return 0, 0
	case again:
		w.end, w.state, w.size, w.next = end, Striding, 0, 0
		w.by.start(most)
		return 0, 0
	case w.state == Striding:
		w.state = Alone
	}
	large := n >= largeRead
	near := off == w.end
	if large {
		slack := 2 * int64(n)
		near = off <= w.end+slack && end+slack >= w.end
	}
	switch {
	case !near:
		*w = Window{end: end, state: Alone, by: w.by}
		return 0, 0
	case w.state == Unread && !large:
		w.end, w.state = end, Alone
		return 0, 0
	}
	w.end, w.state = max(w.end, end), Streaming
	switch {
	case w.size == 0:
		w.size = max(firstWindow, 2*n)
	case w.next-w.end <= int64(w.size)/2:
		w.size *= 2
	}
	w.size = min(w.size, most)
	return max(w.next, w.end), w.end + int64(w.size)
}

// Whole is how many bytes the READ for the first read of a file, of n bytes at off,
// is to ask for: all of a small file, whose size is size, or 0 for just what was asked
// for. most bounds it. Read must follow.
func (w *Window) Whole(off int64, n int, size int64, most int) int {
	if w.state != Unread || off != 0 || size <= int64(n) || size > int64(min(smallFile, most)) {
		return 0
	}
	w.next = size
	return int(size)
}

// Piece is the next READ of the stretch [from, to): of so many bytes at from. READs
// end at multiples of rsize, or where the file, which is size long, does. It is 0
// when the rest of the stretch should wait until it makes a larger READ.
func (w *Window) Piece(from, to, size, rsize int64) (n int) {
	to = min(to, size)
	if from >= to {
		return 0
	}
	stop := min(from-from%rsize+rsize, to)
	if stop < size && stop%rsize != 0 && stop-from < int64(w.size)/2 {
		return 0
	}
	return int(stop - from)
}

// Started says that everything up to end is being read.
func (w *Window) Started(end int64) { w.next = end }
