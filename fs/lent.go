package fs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
)

// lentResult is the answer to a READ that stands in a buffer of the cache's,
// which is registered memory. go-fuse writes it to the kernel from there
// (Slices), and then calls Done, once and always: it is never empty, and comes
// with no error.
type lentResult struct {
	lent cache.Lent
	data [1][]byte
}

var lentResults = sync.Pool{New: func() any { return new(lentResult) }}

func newLentResult(l cache.Lent) *lentResult {
	r := lentResults.Get().(*lentResult)
	r.lent, r.data[0] = l, l.Bytes()
	return r
}

var _ fuse.ReadResult = (*lentResult)(nil)

func (r *lentResult) Size() int                          { return len(r.data[0]) }
func (r *lentResult) Slices() ([][]byte, fuse.Status)    { return r.data[:], fuse.OK }
func (r *lentResult) Bytes([]byte) ([]byte, fuse.Status) { return r.data[0], fuse.OK }

func (r *lentResult) Done() {
	r.lent.Release()
	r.data[0] = nil
	lentResults.Put(r)
}
