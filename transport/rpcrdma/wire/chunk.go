package wire

// Segment names Length bytes of a peer's memory (RFC 8166 section 3.4.2).
type Segment struct {
	Handle uint32 // the rkey
	Length uint32
	Offset uint64 // the remote address
}

// ReadSegment is one entry of a read list. Entries with the same Position form
// one read chunk.
type ReadSegment struct {
	Position uint32
	Segment
}

// Chunk is a write chunk or a reply chunk: a counted array of segments.
type Chunk []Segment

// Len is the number of bytes that c names.
func (c Chunk) Len() int {
	n := 0
	for _, s := range c {
		n += int(s.Length)
	}
	return n
}

// Fill makes the lengths of c tell that n bytes were placed in it, the segments filled in order (RFC 8166 section
// 3.4.6).
func (c Chunk) Fill(n int) {
	for i := range c {
		k := min(n, int(c[i].Length))
		c[i].Length = uint32(k)
		n -= k
	}
}

func (c Chunk) has(handle uint32) bool {
	for _, s := range c {
		if s.Handle == handle {
			return true
		}
	}
	return false
}

// Lists is the chunk lists of one message.
type Lists struct {
	Read  []ReadSegment
	Write []Chunk
	// Reply is nil when there is no reply chunk, and not nil but empty when
	// there is one of no segments.
	Reply Chunk

	// store backs the chunks of a parsed header, to be used again.
	store []Segment
}

// Empty reports whether no list has an entry.
func (l *Lists) Empty() bool { return len(l.Read) == 0 && len(l.Write) == 0 && l.Reply == nil }

// Bounds of what is taken from a peer. They are above what any known peer
// sends (Linux: one chunk a list, 17 segments at most) and keep the memory that
// one header can cost at a few tens of KiB.
const (
	MaxReadSegments  = 256
	MaxWriteChunks   = 16
	MaxChunkSegments = 256
)

// Keys appends the distinct handles in l to dst.
func (l *Lists) Keys(dst []uint32) []uint32 {
	start := len(dst)
	add := func(k uint32) {
		for _, have := range dst[start:] {
			if have == k {
				return
			}
		}
		dst = append(dst, k)
	}
	for _, s := range l.Read {
		add(s.Handle)
	}
	for _, c := range l.Write {
		for _, s := range c {
			add(s.Handle)
		}
	}
	for _, s := range l.Reply {
		add(s.Handle)
	}
	return dst
}

// has reports whether a segment of l has the handle.
func (l *Lists) has(handle uint32) bool {
	for _, s := range l.Read {
		if s.Handle == handle {
			return true
		}
	}
	for _, c := range l.Write {
		if c.has(handle) {
			return true
		}
	}
	return l.Reply.has(handle)
}
