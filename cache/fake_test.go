package cache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// fake is an NFS server in memory: it forgets unstable writes when it crashes,
// and does what its knobs say to calls and replies.
type fake struct {
	t testing.TB

	// hook runs before (done false) and after each call, with no lock held; an
	// error before makes the call fail without effect, after with its effect.
	hook func(op string, done bool) error
	// cut says how many of n bytes a read or write moves; nil: all.
	cut func(n int) int
	// noPre leaves attributes from before out of WRITE replies.
	noPre bool
	// fileSync answers every WRITE with FILE_SYNC.
	fileSync bool
	// volatile keeps no stable copy: for benchmarks.
	volatile bool
	// noPlus has READDIRPLUS give names alone.
	noPlus bool
	// dots has READDIR return "." and "..". part is its entries per call.
	dots bool
	part int
	// coarse gives that many changes the same time.
	coarse int
	// maxSize, when not 0, is how large it says files may be.
	maxSize uint64

	watcher nfsclient.Watcher

	mu       sync.Mutex
	nodes    map[nfsclient.Handle]*fnode
	nextID   uint64
	ticks    int
	verifier uint64
	calls    map[string]int
	badDirs  uint64 // ReadDir refuses cookies this many times
	// jump has ReadDir give the first cookie instead of the second.
	jump [2]uint64
}

type fnode struct {
	attr    nfsclient.Attr
	h       nfsclient.Handle
	data    []byte
	stable  []byte
	target  string
	denied  map[uint32]nfsclient.AccessMask // by uid
	entries []fentry
	cookie  uint64
	writing [][2]uint64
}

type fentry struct {
	name   string
	h      nfsclient.Handle
	cookie uint64
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, nodes: map[nfsclient.Handle]*fnode{}, calls: map[string]int{}, verifier: 1, dots: true, part: 100, coarse: 1}
	f.add(nfsclient.Directory, 0o755)
	return f
}

func (f *fake) now() time.Time {
	f.ticks++
	return time.Unix(1_000_000_000, int64(f.ticks/f.coarse)*1000)
}

func (f *fake) add(kind nfsclient.FileType, mode uint32) *fnode {
	f.nextID++
	n := &fnode{h: nfsclient.Handle(fmt.Sprintf("h%d", f.nextID))}
	now := f.now()
	n.attr = nfsclient.Attr{Type: kind, Mode: mode, Nlink: 1, FSID: 7, FileID: f.nextID + 100, Atime: now, Mtime: now, Ctime: now}
	f.nodes[n.h] = n
	return n
}

// crash loses what no COMMIT has covered.
func (f *fake) crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.verifier++
	for _, n := range f.nodes {
		if n.attr.Type == nfsclient.Regular {
			n.data = append([]byte(nil), n.stable...)
			n.attr.Size = uint64(len(n.data))
		}
	}
}

func (f *fake) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *fake) total() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.calls {
		n += k
	}
	return n
}

func fail(op string, s nfsclient.Status) error { return &nfsclient.Error{Op: op, Status: s} }

// run does one call; do runs with mu held.
func (f *fake) run(ctx context.Context, op string, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.hook != nil {
		if err := f.hook(op, false); err != nil {
			return err
		}
	}
	f.mu.Lock()
	f.calls[op]++
	err := do()
	f.mu.Unlock()
	if f.hook != nil {
		if herr := f.hook(op, true); herr != nil {
			return herr
		}
	}
	return err
}

func (f *fake) node(op string, h nfsclient.Handle) (*fnode, error) {
	if n := f.nodes[h]; n != nil {
		return n, nil
	}
	return nil, fail(op, nfsclient.ErrStale)
}

func (n *fnode) pre() nfsclient.PreChange {
	return nfsclient.PreChange{Set: true, ID: nfsclient.ChangeByTimes(n.attr.Size, n.attr.Mtime, n.attr.Ctime)}
}

func (n *fnode) post() *nfsclient.Attr {
	a := n.attr
	a.Change = n.pre().ID
	return &a
}

func (n *fnode) after() nfsclient.PostAttr { return nfsclient.PostAttr{Set: true, Attr: *n.post()} }

func (n *fnode) find(name string) int {
	for k := range n.entries {
		if n.entries[k].name == name {
			return k
		}
	}
	return -1
}

func (f *fake) Root() (nfsclient.Handle, nfsclient.Attr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return "h1", *f.nodes["h1"].post()
}

func (f *fake) Info() nfsclient.Info {
	most := f.maxSize
	if most == 0 {
		most = 1 << 62
	}
	return nfsclient.Info{Version: "3", ReadMax: 1 << 20, WriteMax: 1 << 20, ReadDirMax: 1 << 20, MaxFileSize: most}
}

func (f *fake) GetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (a nfsclient.Attr, err error) {
	err = f.run(ctx, "GETATTR", func() error {
		n, err := f.node("GETATTR", h)
		if err == nil {
			a = *n.post()
		}
		return err
	})
	return a, err
}

func (f *fake) SetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, s nfsclient.SetAttr) (w nfsclient.Wcc, err error) {
	err = f.run(ctx, "SETATTR", func() error {
		n, err := f.node("SETATTR", h)
		if err != nil {
			return err
		}
		w.Before = n.pre()
		n.attr.Ctime = f.now()
		if s.Size != nil {
			n.attr.Mtime = n.attr.Ctime
			n.data = resize(n.data, *s.Size)
			n.stable = resize(n.stable, *s.Size)
			n.attr.Size = *s.Size
		}
		if s.Mode != nil {
			n.attr.Mode = *s.Mode
		}
		if s.SetMtime == nfsclient.TimeClient {
			n.attr.Mtime = s.Mtime
		}
		w.After = n.after()
		return nil
	})
	return w, err
}

func resize(b []byte, n uint64) []byte {
	out := make([]byte, n)
	copy(out, b)
	return out
}

func (f *fake) Lookup(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (r nfsclient.Found, err error) {
	err = f.run(ctx, "LOOKUP", func() error {
		d, err := f.node("LOOKUP", dir)
		if err != nil {
			return err
		}
		r.Dir = d.post()
		if d.denied[cr.UID]&nfsclient.AccessLookup != 0 {
			return fail("LOOKUP", nfsclient.ErrAccess)
		}
		k := d.find(name)
		if k < 0 {
			return fail("LOOKUP", nfsclient.ErrNoEnt)
		}
		r.Handle = d.entries[k].h
		r.Attr = f.nodes[r.Handle].post()
		return nil
	})
	return r, err
}

func (f *fake) Access(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, want nfsclient.AccessMask) (got nfsclient.AccessMask, a *nfsclient.Attr, err error) {
	err = f.run(ctx, "ACCESS", func() error {
		n, err := f.node("ACCESS", h)
		if err == nil {
			got, a = want&^n.denied[cr.UID], n.post()
		}
		return err
	})
	return got, a, err
}

func (f *fake) Readlink(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (s string, a *nfsclient.Attr, err error) {
	err = f.run(ctx, "READLINK", func() error {
		n, err := f.node("READLINK", h)
		if err == nil {
			s, a = n.target, n.post()
		}
		return err
	})
	return s, a, err
}

func (f *fake) Watch(w nfsclient.Watcher) { f.watcher = w }

func (f *fake) OpenFile(context.Context, nfsclient.Cred, nfsclient.Handle, nfsclient.OpenMode) (nfsclient.Opened, error) {
	return nfsclient.Opened{}, nil
}

func (f *fake) CloseFile(context.Context, nfsclient.Cred, nfsclient.Handle, nfsclient.OpenState) error {
	f.t.Error("CLOSE of what was not opened")
	return nil
}

func (f *fake) Read(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, to mem.Vec) (r nfsclient.ReadResult, err error) {
	err = f.run(ctx, "READ", func() error {
		n, err := f.node("READ", h)
		if err != nil {
			return err
		}
		r.Attr = n.after()
		have := uint64(len(n.data))
		if off >= have {
			r.EOF = true
			return nil
		}
		k := int(min(uint64(to.Len()), have-off))
		if f.cut != nil {
			k = f.cut(k)
		}
		r.N = to.CopyIn(0, n.data[off:off+uint64(k)])
		r.EOF = off+uint64(k) == have
		f.calls["READ bytes"] += r.N
		return nil
	})
	return r, err
}

func (f *fake) Write(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, off uint64, from mem.Vec, how nfsclient.Stable) (r nfsclient.WriteResult, err error) {
	end := off + uint64(from.Len())
	mine := [2]uint64{off, end}
	f.mu.Lock()
	n := f.nodes[h]
	if n != nil {
		for _, w := range n.writing {
			if w[0] < end && off < w[1] {
				f.t.Errorf("WRITE [%d,%d) while [%d,%d) is under way", off, end, w[0], w[1])
			}
		}
		n.writing = append(n.writing, mine)
	}
	f.mu.Unlock()
	err = f.run(ctx, "WRITE", func() error {
		n, err := f.node("WRITE", h)
		if err != nil {
			return err
		}
		if !f.noPre {
			r.Wcc.Before = n.pre()
		}
		k := from.Len()
		if f.cut != nil {
			k = f.cut(k)
		}
		to := off + uint64(k)
		if to > uint64(len(n.data)) {
			n.data = append(n.data, make([]byte, to-uint64(len(n.data)))...)
		}
		from.CopyOut(0, n.data[off:to])
		if how != nfsclient.Unstable || f.fileSync {
			how = nfsclient.FileSync
			if !f.volatile {
				if to > uint64(len(n.stable)) {
					n.stable = resize(n.stable, to)
				}
				copy(n.stable[off:to], n.data[off:to])
			}
			f.calls["WRITE sync"]++
		}
		n.attr.Size = uint64(len(n.data))
		n.attr.Mtime = f.now()
		n.attr.Ctime = n.attr.Mtime
		r.N, r.Committed, r.Wcc.After = k, how, n.after()
		r.Verifier[0], r.Verifier[1] = byte(f.verifier), byte(f.verifier>>8)
		return nil
	})
	f.mu.Lock()
	if n != nil {
		for k := range n.writing {
			if n.writing[k] == mine {
				n.writing = append(n.writing[:k], n.writing[k+1:]...)
				break
			}
		}
	}
	f.mu.Unlock()
	if err != nil {
		r = nfsclient.WriteResult{}
	}
	return r, err
}

func (f *fake) Commit(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, off uint64, count uint32) (v nfsclient.Verifier, w nfsclient.Wcc, err error) {
	err = f.run(ctx, "COMMIT", func() error {
		n, err := f.node("COMMIT", h)
		if err != nil {
			return err
		}
		if !f.volatile {
			n.stable = append([]byte(nil), n.data...)
		}
		w.Before, w.After = n.pre(), n.after()
		v[0], v[1] = byte(f.verifier), byte(f.verifier>>8)
		return nil
	})
	return v, w, err
}

func (f *fake) StatFS(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.StatFS, error) {
	return nfsclient.StatFS{TotalBytes: 1 << 40, NameMax: 255}, f.run(ctx, "FSSTAT", func() error { return nil })
}

func (f *fake) Register(a *mem.Arena) error     { return nil }
func (f *fake) Unregister(a *mem.Arena) error   { return nil }
func (f *fake) Close(ctx context.Context) error { return nil }

// foreign changes name's data as another client would.
func (f *fake) foreign(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.nodes["h1"]
	k := d.find(name)
	if k < 0 {
		d.link(name, f.add(nfsclient.Regular, 0o644).h)
		f.touchDir(d)
		k = d.find(name)
	}
	n := f.nodes[d.entries[k].h]
	n.data = append([]byte(nil), data...)
	n.stable = append([]byte(nil), data...)
	n.attr.Size = uint64(len(data))
	n.attr.Mtime = f.now()
	n.attr.Ctime = n.attr.Mtime
}

// content is what the server would have of name after a crash.
func (f *fake) content(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.nodes["h1"]
	return append([]byte(nil), f.nodes[d.entries[d.find(name)].h].stable...)
}

// jitter delays calls and replies at random, so that they overtake each other.
func jitter(r *rand.Rand) func(string, bool) error {
	var mu sync.Mutex
	return func(string, bool) error {
		mu.Lock()
		d := time.Duration(max(0, r.IntN(300)-200)) * time.Microsecond
		mu.Unlock()
		if d > 0 {
			time.Sleep(d)
		}
		return nil
	}
}
