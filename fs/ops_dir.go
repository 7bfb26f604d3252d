package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// OpenDir opens a directory for reading. The kernel always has to ask, since each user's
// rights are looked at here, and what others have changed (so no NO_OPENDIR_SUPPORT). It
// may not keep the listing either (FOPEN_CACHE_DIR): rewinddir(3) would show it again
// without a request, and stat of names in it that have expired would be a LOOKUP each.
func (f *FS) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	i, st := f.nodes.get(in.NodeId)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	d, err := f.cache.OpenDir(ctx, f.cred(&in.InHeader, i), i)
	if err != nil {
		return errno(err)
	}
	out.Fh = f.dirs.add(d)
	return fuse.OK
}

// ReadDir lists names.
func (f *FS) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(cancel, in, func(_ *opContext, _ *cache.Dir, e *cache.Dirent) bool {
		return out.AddDirEntry(dirEntry(e))
	})
}

// ReadDirPlus lists names and gives the kernel a lookup of each, except "." and
// "..". A name that the cache may not answer without a call is listed without a node,
// and the kernel looks it up when it is used: one LOOKUP per name would cost more
// than the listing. The rights are those of who has opened the directory, as of all that an open
// directory gives; what comes of a name is for who walks to it (entryTTL).
func (f *FS) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(cancel, in, func(ctx *opContext, d *cache.Dir, e *cache.Dirent) bool {
		eo := out.AddDirLookupEntry(dirEntry(e))
		if eo == nil {
			return false
		}
		if e.Name != "." && e.Name != ".." {
			if found, ok := d.Known(e.Name); ok {
				if f.cfg.judges() && opensUnasked(found.Inode.Type()) {
					f.cache.Forget(found.Inode, 1) // Lookup decides which node this user is given
					return true
				}
				if !f.expires && found.Inode.Type() == nfsclient.Directory {
					// A kernel as old as that may keep attributes from before a change in
					// that directory which completes before this reply.
					found.AttrTTL = 0
				}
				f.setEntry(ctx, found, eo)
			}
		}
		return true
	})
}

func dirEntry(e *cache.Dirent) fuse.DirEntry {
	return fuse.DirEntry{Ino: e.Ino, Name: e.Name, Off: e.Off, Mode: modeOfType(e.Type)}
}

// list passes the entries from the request's offset on to add, until that reports
// that the reply is full. It makes one READDIR call at most: a caller that seeks may
// not want what would fill the rest of the reply.
func (f *FS) list(cancel <-chan struct{}, in *fuse.ReadIn, add func(*opContext, *cache.Dir, *cache.Dirent) bool) fuse.Status {
	d, st := f.dirs.get(in.Fh)
	if !st.Ok() {
		return st
	}
	ctx := f.begin(cancel, &in.InHeader)
	defer ctx.end()
	entries, err := d.Next(ctx, in.Offset)
	if err != nil {
		return errno(err)
	}
	given := in.Offset
	defer func() { d.Given(given) }()
	for len(entries) > 0 {
		for k := range entries {
			if !add(ctx, d, &entries[k]) {
				return fuse.OK
			}
			given = entries[k].Off
		}
		entries = d.Held(given)
	}
	return fuse.OK
}

// ReleaseDir closes a directory.
func (f *FS) ReleaseDir(in *fuse.ReleaseIn) {
	f.requests.add(in.Opcode)
	if d, ok := f.dirs.remove(in.Fh); ok {
		d.Close()
	}
}

// FsyncDir has nothing to do: an NFS server makes directory changes durable
// before it answers them.
func (f *FS) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	f.requests.add(in.Opcode)
	return fuse.OK
}
