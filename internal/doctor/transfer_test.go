package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// fakeExport is an export of which only what the doctor calls is there.
type fakeExport struct {
	nfsclient.Client
	attr   nfsclient.Attr
	rights nfsclient.AccessMask
	// create is how CREATE ends, moved how READ and WRITE do; owner is whose what
	// is made becomes.
	create, moved error
	owner         uint32
	garbled       bool
	later         int // WRITEs that are to be tried later
	there         []nfsclient.Dirent
	locked        string // a file that may not be read
	// lock is how LOCK and TEST end; held are the files that are locked, tested those
	// that were only asked for.
	lock   error
	held   map[nfsclient.Handle]bool
	tested []nfsclient.Handle
	opens  int // that were not closed
	// chown is how SETATTR ends.
	chown error

	made     map[string][]byte
	creates  int
	readFrom string
	arenas   int
}

const allRights = nfsclient.AccessRead | nfsclient.AccessLookup | nfsclient.AccessModify | nfsclient.AccessExtend | nfsclient.AccessDelete

func newFakeExport() *fakeExport {
	return &fakeExport{rights: allRights, owner: 1000, made: make(map[string][]byte), held: make(map[nfsclient.Handle]bool),
		attr: nfsclient.Attr{Type: nfsclient.Directory, Mode: 0o755}}
}

func (x *fakeExport) Root() (nfsclient.Handle, nfsclient.Attr) { return "top", x.attr }

func (x *fakeExport) Info() nfsclient.Info {
	return nfsclient.Info{ReadMax: 48 << 10, WriteMax: 32 << 10}
}

func (x *fakeExport) Access(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, want nfsclient.AccessMask) (nfsclient.AccessMask, *nfsclient.Attr, error) {
	return want & x.rights, nil, nil
}

func (x *fakeExport) Create(_ context.Context, _ nfsclient.Cred, dir nfsclient.Handle, name string, _ nfsclient.SetAttr, exclusive bool, _ nfsclient.OpenMode) (nfsclient.Made, error) {
	x.creates++
	if dir != "top" || !exclusive || !strings.HasPrefix(name, ".rdmafs-doctor-") {
		return nfsclient.Made{}, errors.New("a bad CREATE")
	}
	if x.create != nil {
		return nfsclient.Made{}, x.create
	}
	x.made[name] = nil
	return nfsclient.Made{Handle: nfsclient.Handle(name), Attr: nfsclient.Attr{UID: x.owner}}, nil
}

func (x *fakeExport) SetAttr(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, s nfsclient.SetAttr) (nfsclient.Wcc, error) {
	if _, made := x.made[string(h)]; !made || s.UID == nil || *s.UID != x.owner {
		return nfsclient.Wcc{}, errors.New("another's file is given away")
	}
	return nfsclient.Wcc{}, x.chown
}

func (x *fakeExport) Remove(_ context.Context, _ nfsclient.Cred, _ nfsclient.Handle, name string) (nfsclient.Wcc, error) {
	delete(x.made, name)
	return nfsclient.Wcc{}, nil
}

func (x *fakeExport) Write(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, off uint64, from mem.Vec, how nfsclient.Stable) (nfsclient.WriteResult, error) {
	if x.later > 0 {
		x.later--
		return nfsclient.WriteResult{}, &nfsclient.Error{Op: "WRITE", Status: nfsclient.ErrJukebox}
	}
	b := slices.Grow(x.made[string(h)], int(off)+from.Len())
	b = b[:max(len(b), int(off)+from.Len())]
	from.CopyOut(0, b[off:])
	x.made[string(h)] = b
	return nfsclient.WriteResult{N: from.Len(), Committed: how}, x.moved
}

func (x *fakeExport) Read(_ context.Context, _ nfsclient.Cred, h nfsclient.Handle, _ nfsclient.OpenState, off uint64, to mem.Vec) (nfsclient.ReadResult, error) {
	if string(h) == x.locked {
		return nfsclient.ReadResult{}, &nfsclient.Error{Op: "READ", Status: nfsclient.ErrAccess}
	}
	b, made := x.made[string(h)]
	if !made {
		x.readFrom = string(h)
		return nfsclient.ReadResult{N: to.Len()}, x.moved
	}
	if x.garbled {
		b = make([]byte, len(b))
	}
	return nfsclient.ReadResult{N: to.CopyIn(0, b[off:])}, x.moved
}

func (x *fakeExport) ReadDir(context.Context, nfsclient.Cred, nfsclient.Handle, nfsclient.DirPos, bool) (nfsclient.DirPart, error) {
	return nfsclient.DirPart{Entries: x.there, EOF: true}, nil
}

func (x *fakeExport) Register(*mem.Arena) error {
	x.arenas++
	return nil
}

func (x *fakeExport) Unregister(*mem.Arena) error {
	x.arenas--
	return nil
}

func there(name string, size uint64) nfsclient.Dirent {
	return nfsclient.Dirent{Name: name, Handle: nfsclient.Handle(name), Attr: &nfsclient.Attr{Type: nfsclient.Regular, Size: size}}
}

// TestRightsAndTransfers: a lack of rights that will matter to the caller is a
// warning, and data is moved by whatever means the rights allow.
func TestRightsAndTransfers(t *testing.T) {
	const section = "The export /export"
	refused := func(s nfsclient.Status) error { return &nfsclient.Error{Op: "CREATE", Status: s} }
	readOnly := nfsclient.AccessRead | nfsclient.AccessLookup
	root := func(r *rig) { r.Cred.UID = 0 }
	for _, c := range []struct {
		name   string
		change func(r *rig, x *fakeExport)
		step   string
		status Status
		says   string
		ok     bool
	}{
		{"all", func(*rig, *fakeExport) {}, "rights", OK, "uid 1000 may read and write", true},
		{"closed to the user", func(_ *rig, x *fakeExport) { x.rights, x.create, x.attr.Mode = 0, refused(nfsclient.ErrAccess), 0o700 },
			"rights", Warning, "uid 1000 may not enter the export: its directory has mode 0700", true},
		{"closed to root", func(r *rig, x *fakeExport) { root(r); x.rights, x.create = 0, refused(nfsclient.ErrAccess) },
			"rights", Warning, "root is nobody here (root_squash), and nobody may not enter", true},
		{"root may not write", func(r *rig, x *fakeExport) { root(r); x.rights, x.create = readOnly, refused(nfsclient.ErrAccess) },
			"rights", Warning, "root is nobody here (root_squash), and nobody may not write", true},
		{"root's are nobody's", func(r *rig, x *fakeExport) { root(r); x.owner = 65534 },
			"rights", Warning, "root is nobody here (root_squash): files that root makes belong to uid 65534", true},
		{"root is root", func(r *rig, x *fakeExport) { root(r); x.owner = 0 }, "rights", OK, "uid 0 may read and write", true},
		{"read-only export", func(_ *rig, x *fakeExport) { x.rights, x.create = readOnly, refused(nfsclient.ErrReadOnly) },
			"rights", Warning, "the export is read-only", true},
		{"may read", func(_ *rig, x *fakeExport) { x.rights, x.create = readOnly, refused(nfsclient.ErrAccess) },
			"rights", OK, "may read, and not write", true},
		{"nothing is written", func(r *rig, _ *fakeExport) { r.Write = false }, "rights", OK, "by what ACCESS says", true},
		{"and nothing there to read", func(r *rig, _ *fakeExport) { r.Write = false }, "transfer of 64 KiB", Skipped, "no file", true},
		{"a file is read", func(r *rig, x *fakeExport) {
			r.Write, x.locked = false, "locked"
			x.there = []nfsclient.Dirent{there("small", 5), there("fits", 1<<20), there("locked", 1<<30)}
		}, "transfer of 1024 KiB", OK, "read of a file that is there", true},
		{"large enough for one", func(r *rig, x *fakeExport) {
			r.Write, x.there = false, []nfsclient.Dirent{there("half", 1<<19)}
		}, "transfer of 1024 KiB", Skipped, "no file", true},
		{"moved", func(*rig, *fakeExport) {}, "transfer of 1024 KiB", OK, "written and read back", true},
		{"written later", func(_ *rig, x *fakeExport) { x.later = 1 }, "transfer of 64 KiB", OK, "written and read back", true},
		{"lost", func(_ *rig, x *fakeExport) { x.moved = errors.New("no answer") }, "transfer of 64 KiB", Failure, "no answer", false},
		{"garbled", func(_ *rig, x *fakeExport) { x.garbled = true }, "transfer of 64 KiB", Failure, "not those", false},
		{"narrow path", func(r *rig, _ *fakeExport) { r.rdma.lowered = 1024 }, "path MTU", Warning, "more than 1024 bytes", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			x := r.rdma.export
			c.change(r, x)
			report := r.examine(t)
			if st := find(t, report, section, c.step); st.Status != c.status || !strings.Contains(st.Detail, c.says) {
				t.Errorf("%+v", st)
			}
			if report.OK != c.ok {
				t.Errorf("%v: %s", report.OK, report.Verdict)
			}
			if !r.Write && x.creates > 0 {
				t.Error("a file was made")
			}
			if len(x.there) > 1 && x.readFrom != "fits" {
				t.Errorf("%q was read", x.readFrom)
			}
		})
	}
}
