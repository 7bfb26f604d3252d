package cache

import (
	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/cache/writeback"
)

// written is for files that this mount writes or cuts; Inode.mu guards it.
type written struct {
	wb     writeback.File
	queued bool // in Cache.queue
	listed bool // in Cache.dirty
}

// wbOwner is an inode as the owner of its write-back, whose events it is told of.
type wbOwner Inode

// Release ends the loan of buf. Inode.mu is held.
func (o *wbOwner) Release(buf bufpool.Lease) { o.c.giveBack(buf) }

// Departed has later reads not share what earlier ones have brought of the range.
// Inode.mu is held.
func (o *wbOwner) Departed(off, end int64) { (*Inode)(o).detachSpans(off, end) }

// pump does what the write-back asks for after an event: it wakes waiters and
// sends what is to be sent. mu is held, and a reference of the caller's keeps i
// alive.
func (i *Inode) pump() {
	i.list()
	if i.wb.Woken() {
		i.wakeAll()
	}
	i.start()
}

// list keeps Cache.dirty up to date; mu is held, and a reference of the
// caller's keeps i alive.
func (i *Inode) list() {
	if i.listed == !i.wb.Empty() {
		return
	}
	i.listed = !i.listed
	c := i.c
	c.mu.Lock()
	if i.listed {
		c.dirty[i] = struct{}{}
		i.refs.Add(1)
	} else {
		delete(c.dirty, i)
	}
	c.mu.Unlock()
	if !i.listed {
		i.unpin()
	}
}
