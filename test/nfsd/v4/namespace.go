package v4

import (
	"encoding/binary"
	"hash/fnv"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// dir is a directory of the pseudo file system.
type dir struct {
	name     string
	path     string
	parent   *dir // itself at the root
	children []*dir
	fileid   uint64
	// export is the index of the export that stands here, -1 if there is none.
	export int
}

// namespace is the pseudo file system. It is not changed once it is made.
type namespace struct {
	exports Exports
	root    *dir
	byID    map[uint64]*dir
	byPath  map[string]*dir
	// made is when the namespace was: it may be another after a restart.
	made time.Time
}

func newNamespace(exports Exports) *namespace {
	ns := &namespace{exports: exports, byID: map[uint64]*dir{}, byPath: map[string]*dir{}, made: time.Now()}
	ns.root = &dir{path: "/", export: -1}
	ns.root.parent = ns.root
	ns.enter(ns.root)
	for i, p := range exports.Paths() {
		at := ns.root
		for name := range strings.SplitSeq(p, "/") {
			if name != "" {
				at = ns.child(at, name)
			}
		}
		at.export = i
	}
	return ns
}

// child is the directory of a name, made if there is none.
func (ns *namespace) child(at *dir, name string) *dir {
	for _, d := range at.children {
		if d.name == name {
			return d
		}
	}
	d := &dir{name: name, path: strings.TrimSuffix(at.path, "/") + "/" + name, parent: at, export: -1}
	at.children = append(at.children, d)
	ns.enter(d)
	return d
}

// enter gives d its number, which is made of its path so that handles outlive the server.
func (ns *namespace) enter(d *dir) {
	h := fnv.New64a()
	h.Write([]byte(d.path))
	for d.fileid = h.Sum64(); d.fileid == 0 || ns.byID[d.fileid] != nil; d.fileid++ {
	}
	ns.byID[d.fileid], ns.byPath[d.path] = d, d
}

// The handle of a pseudo directory: a magic word that no tree's handle begins with, and its number.
const (
	dirMagic     = 0xd4726f6f
	dirHandleLen = 4 + 8
)

func (d *dir) handle() nfsclient.Handle {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, dirHandleLen), dirMagic)
	return nfsclient.Handle(binary.BigEndian.AppendUint64(b, d.fileid))
}

// of is the directory of a handle; ours says whether it is the handle of one at all.
func (ns *namespace) of(h nfsclient.Handle) (d *dir, ours bool) {
	if len(h) != dirHandleLen || binary.BigEndian.Uint32([]byte(h)) != dirMagic {
		return nil, false
	}
	return ns.byID[binary.BigEndian.Uint64([]byte(h[4:]))], true
}

// object is a file or directory: node in ex, or dir of the pseudo file system.
type object struct {
	ex   *Export
	node *vfs.Node
	dir  *dir
	// gone is the handle of a file that is no more, but of which there is state.
	gone nfsclient.Handle
}

func (o object) set() bool { return o.node != nil || o.dir != nil || o.gone != "" }

func (o object) handle() nfsclient.Handle {
	switch {
	case o.dir != nil:
		return o.dir.handle()
	case o.node != nil:
		return nfsclient.Handle(o.node.Handle())
	}
	return o.gone
}

// isRoot reports whether o is the root of an export.
func (o object) isRoot() bool { return o.node != nil && o.node == o.ex.Tree.Root() }

// place is the directory of the pseudo file system that o is, or in whose place it stands; nil for
// other files.
func (ns *namespace) place(o object) *dir {
	switch {
	case o.dir != nil:
		return o.dir
	case o.isRoot():
		return ns.byPath[o.ex.Path]
	}
	return nil
}

// at is what a client finds where d is: an export, if one stands there. An export's root needs no
// reference: it is the tree's own.
func (ns *namespace) at(d *dir) object {
	if d.export < 0 {
		return object{dir: d}
	}
	ex := ns.exports.Enter(d.export)
	return object{ex: ex, node: ex.Tree.Root()}
}

// crossed is the export that stands in the place of a directory of another export, by its handle, if
// there is one. Directories may come and go, so it is looked up each time; few servers have such exports.
func (ns *namespace) crossed(ex *Export, handle string) (o object, ok bool) {
	d := ns.byPath[ex.Path]
	if d == nil || len(d.children) == 0 {
		return object{}, false
	}
	ns.under(ex, ex.Tree.Root(), d, func(sub *dir, h string, _ *vfs.Stat) bool {
		if h == handle {
			o, ok = ns.at(sub), true
		}
		return !ok
	})
	return o, ok
}

// under calls f with the exports below d, and the directories of ex, in which n is d, in whose place they
// stand, until it returns false. It looks as the server itself.
func (ns *namespace) under(ex *Export, n *vfs.Node, d *dir, f func(sub *dir, h string, st *vfs.Stat) bool) bool {
	var self vfs.Cred
	for _, sub := range d.children {
		var st vfs.Stat
		found, err := ex.Tree.Lookup(&self, n, sub.name, &st)
		if err != nil {
			continue
		}
		more := true
		if sub.export >= 0 {
			more = f(sub, found.Handle(), &st)
		} else {
			more = ns.under(ex, found, sub, f)
		}
		ex.Tree.Put(found)
		if !more {
			return false
		}
	}
	return true
}

// mountedOn is the number of the directory in whose place the export at d stands: one of the export
// around it, or one of the pseudo file system.
func (ns *namespace) mountedOn(d *dir) uint64 {
	outer := d.parent
	for outer.export < 0 && outer != ns.root {
		outer = outer.parent
	}
	if outer.export < 0 {
		return d.fileid
	}
	ino := d.fileid
	o := ns.at(outer)
	ns.under(o.ex, o.node, outer, func(sub *dir, _ string, st *vfs.Stat) bool {
		if sub == d {
			ino = st.Ino
		}
		return sub != d
	})
	return ino
}
