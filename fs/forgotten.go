package fs

import (
	"cmp"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// forgotten are nodes that the kernel has forgotten, so that open_by_handle_at(2) finds them by the
// numbers that name_to_handle_at(2) gave out (FUSE_EXPORT_SUPPORT: LOOKUP of "." and ".." by a
// node's number). The kernel does not say which numbers it gave out, and none can hold a handle of
// up to 64 bytes; so the last maxForgotten nodes keep their slots, by which their file has one number
// whichever way it is found again. Each costs about 150 bytes. The oldest gives way. nodes.mu guards it.
type forgotten struct {
	ring    []forgottenNode // in the order in which they were forgotten, from next on
	next    int
	byNode  map[uint32]int // places in ring, by slots
	byFile  map[nfsclient.Handle]int
	maximum int // in tests; 0: maxForgotten
}

// maxForgotten bounds the forgotten nodes that can be found again.
const maxForgotten = 65536

// forgottenNode is a slot that is kept, and its file; slot 0 is none.
type forgottenNode struct {
	slot uint32
	typ  nfsclient.FileType
	file nfsclient.Handle
}

// keep keeps a slot that has no inode any more. Slots that give way are freed.
func (f *forgotten) keep(n forgottenNode, free func(slot uint32)) {
	if f.byNode == nil {
		f.byNode, f.byFile = map[uint32]int{}, map[nfsclient.Handle]int{}
	}
	if old, ok := f.byFile[n.file]; ok { // of another type
		free(f.drop(old))
	}
	at := len(f.ring)
	if at < cmp.Or(f.maximum, maxForgotten) {
		f.ring = append(f.ring, n)
	} else {
		at = f.next
		f.next = (at + 1) % len(f.ring)
		if f.ring[at].slot != 0 {
			free(f.drop(at))
		}
		f.ring[at] = n
	}
	f.byNode[n.slot], f.byFile[n.file] = at, at
}

// take gives the slot of a file back into use. same says that the file is of the type that it was
// of; else the slot must be freed. It is 0 if none is kept.
func (f *forgotten) take(file nfsclient.Handle, typ nfsclient.FileType) (slot uint32, same bool) {
	at, ok := f.byFile[file]
	if !ok {
		return 0, false
	}
	same = f.ring[at].typ == typ
	return f.drop(at), same
}

func (f *forgotten) drop(at int) (slot uint32) {
	n := f.ring[at]
	delete(f.byNode, n.slot)
	delete(f.byFile, n.file)
	f.ring[at] = forgottenNode{}
	return n.slot
}

// kept is the handle of a forgotten node's file.
func (t *nodes) kept(id uint64) (nfsclient.Handle, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	slot := uint32(id)
	at, ok := t.forgotten.byNode[slot]
	if !ok || t.at(slot).generation != uint32(id>>32) {
		return "", false
	}
	return t.forgotten.ring[at].file, true
}

// lookupNode replies to a lookup of "." or "..", by which the kernel finds a node whose number is
// all that it has, and the parent of a directory that was found so.
func (f *FS) lookupNode(cancel <-chan struct{}, h *fuse.InHeader, parent bool, out *fuse.EntryOut) fuse.Status {
	ctx := f.begin(cancel, h)
	defer ctx.end()
	var e cache.Entry
	var err error
	i, st := f.nodes.get(h.NodeId)
	file, kept := nfsclient.Handle(""), false
	if !st.Ok() {
		if file, kept = f.nodes.kept(h.NodeId); !kept {
			return st
		}
	}
	cr := f.creds.of(h)
	switch {
	case kept:
		e, err = f.cache.ByHandle(ctx, cr, file)
	case parent:
		e, err = f.cache.Parent(ctx, cr, i)
	default:
		e, err = f.cache.ByHandle(ctx, cr, i.Handle())
	}
	if err != nil {
		return errno(err)
	}
	if kept && parent {
		dir := e.Inode
		e, err = f.cache.Parent(ctx, cr, dir)
		f.cache.Forget(dir, 1)
		if err != nil {
			return errno(err)
		}
	}
	f.setEntry(ctx, e, out)
	if !parent && out.NodeId != h.NodeId {
		// Another file has the handle now.
		f.nodes.forget(out.NodeId, 1)
		*out = fuse.EntryOut{}
		return fuse.Status(syscall.ESTALE)
	}
	return fuse.OK
}
