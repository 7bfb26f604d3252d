package fs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// defaultMaxNodes is how many inodes the kernel is let know, where Config says
// nothing else.
const defaultMaxNodes = 500_000

// pruneBatch is how many inodes one notification names.
const pruneBatch = 1024

// bound has the kernel be asked to forget inodes when it knows more than limit.
// It forgets those that nobody uses; nothing else can be done about the rest, so
// that it is asked again only when a sixteenth of the limit has been added.
func (t *nodes) bound(limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit, t.mark = limit, limit
	t.over = make(chan struct{}, 1)
}

// slack is by how much the count must grow to have the kernel asked again.
func (t *nodes) slack() int { return t.limit/16 + 1 }

// added is called when the count has grown; mu is held.
func (t *nodes) added() {
	if t.limit > 0 && t.held() > t.mark {
		select {
		case t.over <- struct{}{}:
		default:
		}
	}
}

// removed is called when the count has fallen; mu is held.
func (t *nodes) removed() { t.mark = max(t.limit, min(t.mark, t.held()+t.slack())) }

// victims are the numbers of inodes that the kernel is to forget, so many that
// an eighth of the limit is free then: those that no request has named since the
// hand came by last.
func (t *nodes) victims() (ids []uint64) {
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
			ids = append(ids, s.inode.Tag)
			s.recent.Store(true) // once is enough, if somebody uses it
		}
	}
	t.mark = max(t.limit, t.held()+t.slack())
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
		for ids := f.nodes.victims(); len(ids) > 0; {
			n := min(len(ids), pruneBatch)
			if !f.server.PruneNotify(ids[:n]).Ok() || ctx.Err() != nil {
				break
			}
			ids = ids[n:]
		}
	}
}
