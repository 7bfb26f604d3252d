package plan

import (
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// LayOut makes room in dst, which may be src's own memory, for what of the
// payloads goes into the stream src: their padding, and with whole the
// payloads too. It returns the new length. Reduced payloads, which travel in
// chunks of their own, leave nothing.
func LayOut(dst, src []byte, marks []xdr.Mark, payloads []mem.Vec, reduced Set, whole bool) int {
	room := func(i int) int {
		n := marks[i].Len
		switch {
		case n == 0 || reduced.Has(i):
			return 0
		case whole:
			return n + xdr.Pad(n)
		}
		return xdr.Pad(n)
	}
	end := len(src)
	for i := range marks {
		end += room(i)
	}
	total, from := end, len(src)
	for i := len(marks) - 1; i >= 0; i-- {
		n := room(i)
		if n == 0 {
			continue
		}
		m := marks[i]
		tail := from - m.Off
		copy(dst[end-tail:end], src[m.Off:from])
		end, from = end-tail-n, m.Off
		if whole {
			payloads[m.Index].CopyOut(0, dst[end:end+m.Len])
		}
		clear(dst[end+n-xdr.Pad(m.Len) : end+n])
	}
	copy(dst[:end], src[:from])
	return total
}
