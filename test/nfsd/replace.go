package nfsd

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
)

// latest is the export that stands in the place of e, which is e as long as its directory
// has not been replaced.
func (e *export) latest() *export {
	for n := e.next.Load(); n != nil; n = e.next.Load() {
		e = n
	}
	return e
}

// all calls f with e and all that have replaced it.
func (e *export) all(f func(*export)) {
	for ; e != nil; e = e.next.Load() {
		f(e)
	}
}

// Reexport exports what is at a path with another id, as exportfs with another fsid does:
// no handle from before is valid any more, and the fsid of its files is another.
func (s *Server) Reexport(path string, id uint32) error {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	if s.byID[id] != nil || s.again[id] != nil {
		return fmt.Errorf("nfsd: there is, or was, an export with the id %#x", id)
	}
	for _, e := range s.exports {
		if e.Path != path {
			continue
		}
		e = e.latest()
		x := e.Export
		x.ID = id
		n, err := s.open(x)
		if err != nil {
			return fmt.Errorf("nfsd: %w", err)
		}
		s.again[id] = n
		e.next.Store(n)
		return nil
	}
	return fmt.Errorf("nfsd: nothing is exported as %s", path)
}

// mounted is the export that a client mounts in the place of e: the directory that now has
// e's name. Handles of the one before are not valid any more, while calls under way end
// with it.
func (s *Server) mounted(e *export) *export {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	e = e.latest()
	var was vfs.Stat
	var now unix.Stat_t
	err := e.tree.Stat(e.tree.Root(), &was)
	if unix.Stat(e.Dir, &now) != nil {
		return e
	}
	if err == nil && was.Ino == now.Ino && unix.Mkdev(was.Dev_major, was.Dev_minor) == now.Dev {
		return e
	}
	n, err := s.open(e.Export)
	if err != nil {
		s.cfg.Log.Error("an export's directory was replaced, and cannot be opened: " + err.Error())
		return e
	}
	s.cfg.Log.Info("the directory of export " + e.Path + " was replaced")
	e.next.Store(n)
	return n
}
