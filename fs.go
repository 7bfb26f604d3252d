package rdmafs

import (
	"context"
	"io/fs"
	"sync"
	"syscall"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// FS is an open export. [Open] makes one; WithContext and WithUser return others
// that share its connections and caches.
type FS struct {
	x    *export
	ctx  context.Context
	cred nfsclient.Cred
}

// What package io/fs looks for.
var (
	_ fs.FS         = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.ReadFileFS = (*FS)(nil)
	_ fs.ReadLinkFS = (*FS)(nil)
)

// export is what all views of an FS share.
type export struct {
	cache    *cache.Cache
	readOnly bool
	// end writes what is not written yet and disconnects; an error means that
	// data was lost.
	end    func(context.Context) error
	status func() Status

	calls gate
	idle  chan struct{} // closed when calls is shut and empty
	// life bounds every call. Close cancels it when it has waited long enough.
	life   context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	open map[*file]struct{}
}

// newFS is an FS over a cache. end closes the cache and what it stands on.
func newFS(c *cache.Cache, cred nfsclient.Cred, readOnly bool, end func(context.Context) error) *FS {
	x := &export{cache: c, readOnly: readOnly, end: end, idle: make(chan struct{}), open: map[*file]struct{}{}}
	x.life, x.cancel = context.WithCancel(context.Background())
	return &FS{x: x, ctx: context.Background(), cred: cred}
}

// WithContext returns a view of the file system whose methods, and those of the
// files that it opens, end when ctx does.
func (f *FS) WithContext(ctx context.Context) *FS {
	if ctx == nil {
		panic("rdmafs: nil context")
	}
	v := *f
	v.ctx = ctx
	return &v
}

// WithUser returns a view of the file system for another user.
func (f *FS) WithUser(u User) *FS {
	v := *f
	v.cred = u.cred()
	return &v
}

// Sync returns when everything that was written to any file before is on the
// server's stable storage. Its error says what was lost that no method has
// reported.
func (f *FS) Sync() error {
	ctx, end, err := f.x.begin(f.ctx)
	if err == nil {
		err = f.x.cache.Sync(ctx)
		end()
	}
	return f.x.pathError("sync", ".", err)
}

// Status says how the export is reached, also after Close.
func (f *FS) Status() Status { return f.x.status() }

// Close ends the use of the file system and of every view of it: it waits for
// calls in progress, writes what is not written yet, closes the files that are
// open, and disconnects. Its error says what data was lost that no method has
// reported. When ctx ends, Close gives up what the server has not taken.
func (f *FS) Close(ctx context.Context) error {
	x := f.x
	if !x.calls.enter() {
		return x.pathError("close", ".", fs.ErrClosed)
	}
	first := x.calls.close()
	x.leave()
	if !first {
		return x.pathError("close", ".", fs.ErrClosed)
	}
	select {
	case <-x.idle:
	case <-ctx.Done():
		x.cancel()
		<-x.idle
	}
	for o := range x.open {
		o.release()
	}
	clear(x.open)
	err := x.end(ctx)
	x.cancel()
	if err != nil {
		return &fs.PathError{Op: "close", Path: ".", Err: &failure{nfsclient.Errno(err), err}}
	}
	return nil
}

// begin starts a call that ctx bounds. end must follow if it succeeds.
func (x *export) begin(ctx context.Context) (_ context.Context, end func(), _ error) {
	if !x.calls.enter() {
		return nil, nil, fs.ErrClosed
	}
	if ctx.Done() == nil {
		return x.life, x.leave, nil
	}
	if err := ctx.Err(); err != nil {
		x.leave()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(x.life, cancel)
	return ctx, func() {
		stop()
		cancel()
		x.leave()
	}, nil
}

func (x *export) leave() {
	if x.calls.leave() {
		close(x.idle)
	}
}

// maxStale bounds how often an operation is begun anew because a file that it
// came across is gone from the server: what was cached of the path is then
// asked for again.
const maxStale = 2

// do carries out an operation on names.
func (f *FS) do(call func(ctx context.Context) error) error {
	ctx, end, err := f.x.begin(f.ctx)
	if err != nil {
		return err
	}
	defer end()
	for range maxStale {
		if err = call(ctx); !stale(err) {
			return err
		}
	}
	return call(ctx)
}

func stale(err error) bool { return nfsclient.Errno(err) == syscall.ESTALE }

// change is do for what a file system that is read-only refuses.
func (f *FS) change(call func(ctx context.Context) error) error {
	if f.x.readOnly {
		return syscall.EROFS
	}
	return f.do(call)
}
