package fs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// defaultMaxNodes is how many inodes the kernel may know if Config does not say.
const defaultMaxNodes = 500_000

// pruneBatch is how many inodes one notification names.
const pruneBatch = 1024

// setLimit makes runPrune ask the kernel to forget inodes when it knows more than
// limit. The kernel forgets those that are not in use; nothing can be done about the
// rest, so that it is asked again only when a sixteenth of the limit was added.
func (t *nodes) setLimit(limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit, t.threshold = limit, limit
	t.over = make(chan struct{}, 1)
}

// slack is by how much the count must grow before the kernel is asked again.
func (t *nodes) slack() int { return t.limit/16 + 1 }

// added is called when the count has grown; mu is held.
func (t *nodes) added() {
	if t.limit > 0 && t.held() > t.threshold {
		select {
		case t.over <- struct{}{}:
		default:
		}
	}
}

// removed is called when the count has fallen; mu is held.
func (t *nodes) removed() { t.threshold = max(t.limit, min(t.threshold, t.held()+t.slack())) }

// candidates are the numbers of inodes that the kernel should forget, so many that
// an eighth of the limit becomes free: those that no request has named since the
// hand passed last.
func (t *nodes) candidates() (ids []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := t.held() - t.limit + t.limit/8
	for range 2 * t.used {
		if len(ids) >= want {
			break
		}
		t.hand++
		if t.hand >= t.used {
			t.hand = fuse.FUSE_ROOT_ID + 1
		}
		if t.hand >= t.used {
			break
		}
		s := t.at(uint32(t.hand))
		if s.inode != nil && !s.recent.Swap(false) {
			ids = append(ids, uint64(s.generation)<<32|uint64(t.hand))
			s.recent.Store(true) // not again at once, if it is in use
		}
	}
	t.threshold = max(t.limit, t.held()+t.slack())
	return ids
}

// runPrune asks the kernel to forget inodes whenever it knows too many. It ends
// with ctx.
func (f *FS) runPrune(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.nodes.over:
		}
		for ids := f.nodes.candidates(); len(ids) > 0; {
			n := min(len(ids), pruneBatch)
			if !f.server.PruneNotify(ids[:n]).Ok() || ctx.Err() != nil {
				break
			}
			ids = ids[n:]
		}
	}
}
