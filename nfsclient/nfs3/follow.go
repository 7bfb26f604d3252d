package nfs3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Follower is a Client that asks mountd for the export's root again when the server does not know
// it any more (ESTALE), as after it was exported anew with another fsid, or its directory was
// replaced. The root keeps the handle that it had first for whoever uses the Follower; calls for it
// carry the handle of now. It implements nfsclient.Rerooter.
type Follower struct {
	*Client
	// moved is the root's handle of now; nil before the first change.
	moved atomic.Pointer[nfsclient.Handle]
	now   func() time.Time

	mu      sync.Mutex
	told    func(nfsclient.Attr)
	running chan struct{} // closed when the MOUNT under way has ended; nil without
	tried   time.Time     // when the last one has ended
}

var (
	_ nfsclient.Client   = (*Follower)(nil)
	_ nfsclient.ACLs     = (*Follower)(nil)
	_ nfsclient.Rerooter = (*Follower)(nil)
)

// reMountInterval is the least time between MOUNTs of a root that stays stale.
const reMountInterval = 5 * time.Second

// Follow is a Follower of c, which it takes.
func Follow(c *Client) *Follower { return &Follower{Client: c, now: time.Now} }

// WatchRoot implements nfsclient.Rerooter.
func (f *Follower) WatchRoot(told func(nfsclient.Attr)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = told
}

// live is the handle by which the server knows what the caller knows as h.
func (f *Follower) live(h nfsclient.Handle) nfsclient.Handle {
	if h == f.root {
		if m := f.moved.Load(); m != nil {
			return *m
		}
	}
	return h
}

// again reports whether a call about handles, which has failed with err, is to be made again: one of
// them is the root, and has a new handle.
func (f *Follower) again(ctx context.Context, err error, handles ...nfsclient.Handle) bool {
	s, ok := nfsclient.StatusOf(err)
	if !ok || s != nfsclient.ErrStale && s != nfsclient.ErrBadHandle {
		return false
	}
	for _, h := range handles {
		if h == f.root {
			return f.reroot(ctx)
		}
	}
	return false
}

// reroot reports whether the root has a handle that the server knows now. The first of those who
// ask at the same time asks mountd, and the others wait for it.
func (f *Follower) reroot(ctx context.Context) bool {
	for {
		f.mu.Lock()
		if wait := f.running; wait != nil {
			f.mu.Unlock()
			select {
			case <-wait:
			case <-ctx.Done():
				return false
			}
			f.mu.Lock()
		}
		if f.running != nil {
			f.mu.Unlock()
			continue
		}
		if !f.tried.IsZero() && f.now().Sub(f.tried) < reMountInterval {
			f.mu.Unlock()
			// Who waited, or was late, takes what the last one has found.
			_, err := f.Client.GetAttr(ctx, f.cf.Cred, f.live(f.root))
			return err == nil
		}
		ended := make(chan struct{})
		f.running = ended
		told := f.told
		f.mu.Unlock()
		attr, err := f.mountAgain(ctx)
		if err == nil && told != nil {
			told(attr)
		}
		f.mu.Lock()
		if ctx.Err() == nil {
			f.tried = f.now()
		}
		f.running = nil
		close(ended)
		f.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			f.cf.Log.Info(fmt.Sprintf("the export's root is stale, and mounting it anew does not help: %v", err))
		}
		return err == nil
	}
}

var errSameRoot = errors.New("mountd gives the handle that the server does not know")

// mountAgain asks mountd for the root, and takes it if it is another directory than before.
func (f *Follower) mountAgain(ctx context.Context) (nfsclient.Attr, error) {
	cf := f.cf
	if cf.askPort {
		cf.MountPort = 0
	}
	if err := cf.findMountd(ctx); err != nil {
		return nfsclient.Attr{}, err
	}
	h, err := cf.mnt(ctx)
	if err != nil {
		return nfsclient.Attr{}, err
	}
	if h == f.live(f.root) {
		return nfsclient.Attr{}, errSameRoot
	}
	a, err := f.Client.GetAttr(ctx, cf.Cred, h)
	if err != nil {
		return nfsclient.Attr{}, err
	}
	if a.Type != nfsclient.Directory {
		return nfsclient.Attr{}, errors.New("it is not a directory any more")
	}
	f.moved.Store(&h)
	return a, nil
}

// GetAttr is that of Client.
func (f *Follower) GetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.Attr, error) {
	a, err := f.Client.GetAttr(ctx, cr, f.live(h))
	if err != nil && f.again(ctx, err, h) {
		return f.Client.GetAttr(ctx, cr, f.live(h))
	}
	return a, err
}

// SetAttr is that of Client.
func (f *Follower) SetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, s nfsclient.SetAttr) (nfsclient.Wcc, error) {
	w, err := f.Client.SetAttr(ctx, cr, f.live(h), st, s)
	if err != nil && f.again(ctx, err, h) {
		return f.Client.SetAttr(ctx, cr, f.live(h), st, s)
	}
	return w, err
}

// Lookup is that of Client.
func (f *Follower) Lookup(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Found, error) {
	r, err := f.Client.Lookup(ctx, cr, f.live(dir), name)
	if err != nil && f.again(ctx, err, dir) {
		r, err = f.Client.Lookup(ctx, cr, f.live(dir), name)
	}
	if m := f.moved.Load(); m != nil && r.Handle == *m { // by ".."
		r.Handle = f.root
	}
	return r, err
}

// Access is that of Client.
func (f *Follower) Access(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, want nfsclient.AccessMask) (nfsclient.AccessMask, *nfsclient.Attr, error) {
	m, a, err := f.Client.Access(ctx, cr, f.live(h), want)
	if err != nil && f.again(ctx, err, h) {
		return f.Client.Access(ctx, cr, f.live(h), want)
	}
	return m, a, err
}

// make makes a call that makes a name in dir.
func (f *Follower) make(ctx context.Context, dir nfsclient.Handle, call func(nfsclient.Handle) (nfsclient.Made, error)) (nfsclient.Made, error) {
	m, err := call(f.live(dir))
	if err != nil && f.again(ctx, err, dir) {
		return call(f.live(dir))
	}
	return m, err
}

// Create is that of Client.
func (f *Follower) Create(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr, exclusive bool, mode nfsclient.OpenMode) (nfsclient.Made, error) {
	return f.make(ctx, dir, func(h nfsclient.Handle) (nfsclient.Made, error) {
		return f.Client.Create(ctx, cr, h, name, s, exclusive, mode)
	})
}

// Mkdir is that of Client.
func (f *Follower) Mkdir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, s nfsclient.SetAttr) (nfsclient.Made, error) {
	return f.make(ctx, dir, func(h nfsclient.Handle) (nfsclient.Made, error) { return f.Client.Mkdir(ctx, cr, h, name, s) })
}

// Symlink is that of Client.
func (f *Follower) Symlink(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name, target string, s nfsclient.SetAttr) (nfsclient.Made, error) {
	return f.make(ctx, dir, func(h nfsclient.Handle) (nfsclient.Made, error) { return f.Client.Symlink(ctx, cr, h, name, target, s) })
}

// Mknod is that of Client.
func (f *Follower) Mknod(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, kind nfsclient.FileType, dev nfsclient.Device, s nfsclient.SetAttr) (nfsclient.Made, error) {
	return f.make(ctx, dir, func(h nfsclient.Handle) (nfsclient.Made, error) {
		return f.Client.Mknod(ctx, cr, h, name, kind, dev, s)
	})
}

// Remove is that of Client.
func (f *Follower) Remove(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	w, err := f.Client.Remove(ctx, cr, f.live(dir), name)
	if err != nil && f.again(ctx, err, dir) {
		return f.Client.Remove(ctx, cr, f.live(dir), name)
	}
	return w, err
}

// Rmdir is that of Client.
func (f *Follower) Rmdir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	w, err := f.Client.Rmdir(ctx, cr, f.live(dir), name)
	if err != nil && f.again(ctx, err, dir) {
		return f.Client.Rmdir(ctx, cr, f.live(dir), name)
	}
	return w, err
}

// Rename is that of Client.
func (f *Follower) Rename(ctx context.Context, cr nfsclient.Cred, from nfsclient.Handle, fromName string, to nfsclient.Handle, toName string) (fromDir, toDir nfsclient.Wcc, err error) {
	fromDir, toDir, err = f.Client.Rename(ctx, cr, f.live(from), fromName, f.live(to), toName)
	if err != nil && f.again(ctx, err, from, to) {
		return f.Client.Rename(ctx, cr, f.live(from), fromName, f.live(to), toName)
	}
	return fromDir, toDir, err
}

// Link is that of Client.
func (f *Follower) Link(ctx context.Context, cr nfsclient.Cred, h, dir nfsclient.Handle, name string) (*nfsclient.Attr, nfsclient.Wcc, error) {
	a, w, err := f.Client.Link(ctx, cr, h, f.live(dir), name)
	if err != nil && f.again(ctx, err, dir) {
		return f.Client.Link(ctx, cr, h, f.live(dir), name)
	}
	return a, w, err
}

// ReadDir is that of Client. A listing that was begun goes on only in the same directory.
func (f *Follower) ReadDir(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, from nfsclient.DirPos, plus bool) (nfsclient.DirPart, error) {
	p, err := f.Client.ReadDir(ctx, cr, f.live(dir), from, plus)
	if err != nil && f.again(ctx, err, dir) {
		if from.Cookie != 0 {
			return p, &nfsclient.Error{Op: "READDIR", Status: nfsclient.ErrBadCookie}
		}
		return f.Client.ReadDir(ctx, cr, f.live(dir), from, plus)
	}
	return p, err
}

// StatFS is that of Client.
func (f *Follower) StatFS(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.StatFS, error) {
	s, err := f.Client.StatFS(ctx, cr, f.live(h))
	if err != nil && f.again(ctx, err, h) {
		return f.Client.StatFS(ctx, cr, f.live(h))
	}
	return s, err
}

// GetACL is that of Client.
func (f *Follower) GetACL(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, dir bool) (nfsclient.ACL, error) {
	l, err := f.Client.GetACL(ctx, cr, f.live(h), dir)
	if err != nil && f.again(ctx, err, h) {
		return f.Client.GetACL(ctx, cr, f.live(h), dir)
	}
	return l, err
}

// SetACL is that of Client.
func (f *Follower) SetACL(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, dir bool, acl nfsclient.ACL) (*nfsclient.Attr, error) {
	a, err := f.Client.SetACL(ctx, cr, f.live(h), dir, acl)
	if err != nil && f.again(ctx, err, h) {
		return f.Client.SetACL(ctx, cr, f.live(h), dir, acl)
	}
	return a, err
}
