package nfsd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// client4 makes COMPOUNDs on a server without a transport, in one slot of a session.
type client4 struct {
	*client
	minor   uint32
	session wire.SessionID
	id      wire.ClientID
	seq     uint32
}

// start4 serves exports with version 4, and makes a session.
func start4(t testing.TB, minor uint32, cfg Config) *client4 {
	t.Helper()
	for i := range cfg.Exports {
		x := &cfg.Exports[i]
		x.Async, x.Squash = true, SquashNone
		if x.Dir == "" {
			x.Dir = t.TempDir()
		}
	}
	if cfg.Versions == 0 {
		cfg.Versions = V3 | V41 | V42
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	a, err := mem.NewArena(leaseSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	c := &client4{client: &client{t: t, s: s, peer: "192.0.2.1:700", xid: new(atomic.Uint32), arena: a, flavor: transport.FlavorSys, back: deaf{}}, minor: minor}
	c.begin(1024)
	return c
}

// deaf is the connection of a client that does not answer callbacks.
type deaf struct{}

func (deaf) Call(ctx context.Context, _ *transport.Call) error {
	<-ctx.Done()
	return ctx.Err()
}
func (deaf) Done() <-chan struct{} { return nil }

// begin makes a session whose server keeps replies of so many bytes.
func (c *client4) begin(cached uint32) {
	c.t.Helper()
	c.beginAs(c.t.Name(), cached)
}

// beginAs is begin with an owner.
func (c *client4) beginAs(owner string, cached uint32) {
	c.t.Helper()
	id := &wire.ExchangeID{Owner: []byte(owner), Verifier: nfsclient.Verifier{byte(c.xid.Add(1))}}
	c.want(wire.OK, c.bare(id))
	channel := wire.Channel{MaxRequest: 1 << 20, MaxResponse: 1 << 20, MaxResponseCached: cached, MaxOps: 16, MaxRequests: 8}
	create := &wire.CreateSession{Flags: wire.SessionConnBackChan, CBProgram: 1 << 30, ClientID: id.ClientID, SequenceID: id.SequenceID, Fore: channel, Back: channel, SecParms: []wire.SecParms{{}}}
	c.want(wire.OK, c.bare(create))
	c.id, c.session, c.seq = id.ClientID, create.Session, 0
	c.do(wire.OK, &wire.ReclaimComplete{})
}

// bare carries out operations outside a session.
func (c *client4) bare(ops ...wire.Operation) *wire.Compound {
	c.t.Helper()
	q := &wire.Compound{Tag: "tag", Minor: c.minor, Ops: ops}
	var r xdr.Reader
	r.Reset(c.send(q), nil)
	q.ParseRes(&r)
	if err := r.End(); err != nil {
		c.t.Fatalf("the answer to %v: %v", ops[0].Op(), err)
	}
	return q
}

// send returns the encoded answer.
func (c *client4) send(q *wire.Compound) []byte {
	c.t.Helper()
	var w xdr.Writer
	q.AppendArgs(&w)
	stat, b := c.raw(context.Background(), c.xid.Add(1), wire.Program, wire.Version, wire.ProcCompound, slices.Clone(w.Bytes()))
	if stat != transport.Success {
		c.t.Fatalf("COMPOUND: accept_stat %d", stat)
	}
	return b
}

// sequence is the SEQUENCE of the next COMPOUND.
func (c *client4) sequence(keep bool) *wire.Sequence {
	c.seq++
	return &wire.Sequence{Session: c.session, SequenceID: c.seq, CacheThis: keep}
}

// do carries out operations in the session; the last that is answered has a status.
func (c *client4) do(st wire.Status, ops ...wire.Operation) *wire.Compound {
	c.t.Helper()
	q := c.bare(append([]wire.Operation{c.sequence(false)}, ops...)...)
	c.want(st, q)
	return q
}

func (c *client4) want(st wire.Status, q *wire.Compound) {
	c.t.Helper()
	if q.Status != st {
		c.t.Fatalf("%v has status %s, want %s", q.Ops[max(q.Done-1, 0)].Op(), wire.StatusName(q.Status), wire.StatusName(st))
	}
}

// attrs are attributes of what operations lead to.
func (c *client4) attrs(want wire.Bitmap, to ...wire.Operation) wire.Attrs {
	c.t.Helper()
	g := &wire.GetAttr{Want: want}
	c.do(wire.OK, append(to, g)...)
	if g.Attrs.Mask != want {
		c.t.Fatalf("attributes %x of %x", g.Attrs.Mask, want)
	}
	return g.Attrs
}

// walkTo leads from the root to a file.
func walkTo(names ...string) []wire.Operation {
	ops := []wire.Operation{&wire.PutRootFH{}}
	for _, n := range names {
		ops = append(ops, &wire.Lookup{Name: n})
	}
	return ops
}

func TestVersions4(t *testing.T) {
	for _, x := range []struct {
		served Versions
		good   map[uint32]bool
	}{
		{V41, map[uint32]bool{1: true}}, {V42, map[uint32]bool{2: true}}, {V3 | V41 | V42, map[uint32]bool{1: true, 2: true}},
	} {
		s, err := New(Config{Exports: []Export{{Dir: t.TempDir()}}, Versions: x.served})
		if err != nil {
			t.Fatal(err)
		}
		c := &client4{client: &client{t: t, s: s, xid: new(atomic.Uint32)}}
		for minor := range uint32(5) {
			c.minor = minor
			q := c.bare(&wire.ExchangeID{Owner: []byte("x")})
			if want := map[bool]wire.Status{true: wire.OK, false: wire.ErrMinorVersMismatch}[x.good[minor]]; q.Status != want {
				t.Errorf("%b: minor version %d: %s", x.served, minor, wire.StatusName(q.Status))
			}
		}
		stat, _ := c.raw(t.Context(), 1, wire.Program, 3, 0, nil)
		if (stat == transport.Success) != (x.served&V3 != 0) {
			t.Errorf("%b: version 3: %v", x.served, stat)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOrder4: operations stand only where they may.
func TestOrder4(t *testing.T) {
	c := start4(t, 2, Config{Exports: []Export{{Path: "/x"}}})
	c.want(wire.ErrOpNotInSession, c.bare(&wire.PutRootFH{}))
	c.want(wire.ErrNotOnlyOp, c.bare(&wire.ExchangeID{Owner: []byte("y")}, &wire.PutRootFH{}))
	c.do(wire.ErrNotOnlyOp, &wire.BindConnToSession{Session: c.session, Dir: wire.BindForeOrBoth})
	c.do(wire.ErrSequencePos, &wire.PutRootFH{}, &wire.Sequence{Session: c.session})
	c.do(wire.ErrNoFileHandle, &wire.GetFH{})
	c.do(wire.ErrNoFileHandle, &wire.RestoreFH{})
	c.do(wire.ErrNoFileHandle, &wire.PutRootFH{}, &wire.Link{Name: "x"})
	c.do(wire.ErrOpIllegal, &wire.PutRootFH{}, &wire.Unknown{Number: 2})
	c.do(nfsclient.ErrNotSupp, &wire.PutRootFH{}, &wire.Unknown{Number: 50}) // LAYOUTGET
	c.do(wire.ErrBadStateid, append(walkTo("x"), &wire.FreeStateID{Stateid: wire.CurrentStateid})...)
	c.do(wire.ErrNoFileHandle, &wire.PutRootFH{}, &wire.SecInfoNoName{}, &wire.GetFH{})
	one := *c
	one.minor = 1
	one.begin(1024)
	one.do(wire.ErrOpIllegal, append(walkTo("x"), &wire.Unknown{Number: wire.OpSeek})...)
}

// TestPseudo: the way from the root to exports, one of which lies in another.
func TestPseudo(t *testing.T) {
	outer := t.TempDir()
	for _, d := range []string{"plain", "deep/in"} {
		if err := os.MkdirAll(filepath.Join(outer, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := start4(t, 2, Config{Exports: []Export{{Path: "/srv/a", Dir: outer}, {Path: "/srv/b"}, {Path: "/srv/a/deep/in"}}})
	want := wire.BitmapOf(wire.AttrType, wire.AttrFSID, wire.AttrFileID, wire.AttrMountedOnFileID)
	root := c.attrs(want, walkTo()...)
	srv := c.attrs(want, walkTo("srv")...)
	a, b := c.attrs(want, walkTo("srv", "a")...), c.attrs(want, walkTo("srv", "b")...)
	deep := c.attrs(want, walkTo("srv", "a", "deep")...)
	in := c.attrs(want, walkTo("srv", "a", "deep", "in")...)
	if root.FSID != (wire.FSID{}) || srv.FSID != root.FSID || root.FileID == srv.FileID || srv.MountedOnFileID != srv.FileID {
		t.Errorf("root %+v, srv %+v", root, srv)
	}
	if a.FSID == root.FSID || b.FSID == root.FSID || a.FSID == b.FSID || in.FSID == a.FSID || deep.FSID != a.FSID {
		t.Errorf("fsids: %v %v %v %v", a.FSID, b.FSID, deep.FSID, in.FSID)
	}
	if a.FileID == a.MountedOnFileID || deep.FileID != deep.MountedOnFileID {
		t.Errorf("a %+v, deep %+v", a, deep)
	}
	var under syscall.Stat_t
	if err := syscall.Stat(filepath.Join(outer, "deep/in"), &under); err != nil || in.MountedOnFileID != under.Ino {
		t.Errorf("the export in the export is mounted on %d", in.MountedOnFileID)
	}
	inner := &wire.ReadDir{DirCount: 1000, MaxCount: 4000, Want: want}
	c.do(wire.OK, append(walkTo("srv", "a", "deep"), inner)...)
	if len(inner.Entries) != 1 || inner.Entries[0].Attrs.FSID != in.FSID || inner.Entries[0].Attrs.MountedOnFileID != in.MountedOnFileID {
		t.Errorf("READDIR around it: %+v", inner.Entries)
	}
	// LOOKUPP leads back the same way.
	for _, x := range []struct {
		from []string
		up   wire.Attrs
	}{{[]string{"srv"}, root}, {[]string{"srv", "a"}, srv}, {[]string{"srv", "a", "deep"}, a}, {[]string{"srv", "a", "deep", "in"}, deep}} {
		if up := c.attrs(want, append(walkTo(x.from...), &wire.LookupP{})...); up.FSID != x.up.FSID || up.FileID != x.up.FileID {
			t.Errorf("above %v: %+v, want %+v", x.from, up, x.up)
		}
	}
	c.do(nfsclient.ErrNoEnt, &wire.PutRootFH{}, &wire.LookupP{})
	// READDIR shows what stands there, and nothing can be changed.
	rd := &wire.ReadDir{DirCount: 1000, MaxCount: 4000, Want: want}
	c.do(wire.OK, append(walkTo("srv"), rd)...)
	if len(rd.Entries) != 2 || !rd.EOF || rd.Entries[0].Name != "a" || rd.Entries[0].Attrs.FSID != a.FSID || rd.Entries[0].Attrs.MountedOnFileID != a.MountedOnFileID {
		t.Errorf("%+v", rd)
	}
	again := &wire.ReadDir{Cookie: rd.Entries[0].Cookie, Verifier: rd.ResVerifier, DirCount: 1000, MaxCount: 4000, Want: want}
	c.do(wire.OK, append(walkTo("srv"), again)...)
	if len(again.Entries) != 1 || again.Entries[0].Name != "b" || !again.EOF {
		t.Errorf("%+v", again)
	}
	c.do(nfsclient.ErrReadOnly, append(walkTo("srv"), &wire.Create{Type: nfsclient.Directory, Name: "new"})...)
	c.do(nfsclient.ErrReadOnly, append(walkTo("srv"), &wire.Remove{Name: "a"})...)
	c.do(nfsclient.ErrNoEnt, append(walkTo("srv"), &wire.Lookup{Name: "c"})...)
	c.do(nfsclient.ErrXDev, append(append(walkTo("srv", "a"), &wire.SaveFH{}), append(walkTo("srv", "b"), &wire.Rename{From: "plain", To: "x"})...)...)
	// Handles outlive the server.
	fh := &wire.GetFH{}
	c.do(wire.OK, append(walkTo("srv"), fh)...)
	next := start4(t, 2, Config{Exports: []Export{{Path: "/srv/a", Dir: outer}}})
	if up := next.attrs(want, &wire.PutFH{Handle: fh.Handle}); up.FileID != srv.FileID {
		t.Errorf("%+v", up)
	}
	other := start4(t, 2, Config{Exports: []Export{{Path: "/other"}}})
	other.do(nfsclient.ErrStale, &wire.PutFH{Handle: fh.Handle})
}

// TestSquash4: users are who the export says.
func TestSquash4(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it acts as several users")
	}
	anon := uint32(1234)
	for _, x := range []struct {
		squash Squash
		uid    uint32
		owner  string
	}{{SquashNone, 0, "0"}, {SquashRoot, 0, "65534"}, {SquashRoot, 1000, "1000"}, {SquashAll, 1000, "1234"}} {
		e := Export{Path: "/x", Dir: t.TempDir()}
		if x.squash == SquashAll {
			e.AnonUID = &anon
		}
		if err := os.Chmod(e.Dir, 0o777); err != nil {
			t.Fatal(err)
		}
		c := start4(t, 2, Config{Exports: []Export{e}})
		c.s.exports[0].Squash = x.squash
		c.client = c.as(x.uid, x.uid)
		c.begin(1024)
		c.do(wire.OK, append(walkTo("x"), &wire.Create{Type: nfsclient.Directory, Name: "d", Attrs: wire.Attrs{Mask: wire.BitmapOf(wire.AttrMode), Mode: 0o700}})...)
		if a := c.attrs(wire.BitmapOf(wire.AttrOwner), walkTo("x", "d")...); a.Owner != x.owner {
			t.Errorf("user %d, squash %d: owner %s, want %s", x.uid, x.squash, a.Owner, x.owner)
		}
		if x.uid == 0 || x.squash == SquashAll {
			continue
		}
		// What belongs to another cannot be changed, opened or looked into.
		private := filepath.Join(e.Dir, "private")
		if err := os.WriteFile(private, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c.do(nfsclient.ErrPerm, append(walkTo("x", "private"), &wire.SetAttr{Attrs: wire.Attrs{Mask: wire.BitmapOf(wire.AttrMode)}})...)
		c.do(nfsclient.ErrAccess, append(walkTo("x"), &wire.Open{Access: wire.ShareRead, Owner: wire.Owner{Owner: "o"}, Claim: wire.ClaimNull, Name: "private"})...)
		a := &wire.Access{Want: 0x1ff}
		c.do(wire.OK, append(walkTo("x", "private"), a)...)
		if a.Granted&^wire.AccessXattrList != 0 {
			t.Errorf("ACCESS grants %#x", a.Granted)
		}
	}
}

// TestOnce4: a COMPOUND that is sent again is answered as before, and not carried out again.
func TestOnce4(t *testing.T) {
	replayed := 0
	c := start4(t, 1, Config{Exports: []Export{{Path: "/x"}}, Faults: &Faults{After: func(_ context.Context, e Event) Action {
		if e.Replayed {
			replayed++
		}
		return Proceed
	}}})
	q := &wire.Compound{Minor: 1, Ops: append([]wire.Operation{c.sequence(true)}, append(walkTo("x"),
		&wire.Create{Type: nfsclient.Directory, Name: "d"}, &wire.GetFH{})...)}
	first := c.send(q)
	again := c.send(q)
	if !bytes.Equal(first, again) || first[3] != 0 {
		t.Errorf("answered with % x, and then % x", first, again)
	}
	if n := c.s.Stats().Operations["CREATE"]; n != 1 || replayed != 1 {
		t.Errorf("carried out %d times, replayed %d times", n, replayed)
	}
	// What was not to be kept is not answered, and not carried out either.
	q = &wire.Compound{Minor: 1, Ops: append([]wire.Operation{c.sequence(false)}, append(walkTo("x"), &wire.Remove{Name: "d"})...)}
	c.send(q)
	var r xdr.Reader
	r.Reset(c.send(q), nil)
	q.ParseRes(&r)
	if r.End() != nil || q.Status != wire.ErrRetryUncachedRep || q.Done != 2 || c.s.Stats().Operations["REMOVE"] != 1 {
		t.Errorf("a reply that was not kept: %s after %d operations, %v", wire.StatusName(q.Status), q.Done, c.s.Stats().Operations)
	}
	// After a crash there is no session.
	if err := c.s.Crash(); err != nil {
		t.Fatal(err)
	}
	c.want(wire.ErrBadSession, c.bare(c.sequence(false)))
}

// TestTooBigToCache: what changes something is not done if the reply could not be kept.
func TestTooBigToCache(t *testing.T) {
	c := start4(t, 2, Config{Exports: []Export{{Path: "/x"}}})
	c.begin(140)
	ops := append([]wire.Operation{c.sequence(true)}, append(walkTo("x"), &wire.GetFH{}, &wire.Create{Type: nfsclient.Directory, Name: "d"}, &wire.GetFH{})...)
	c.want(wire.ErrRepTooBigToCache, c.bare(ops...))
	ops = append([]wire.Operation{c.sequence(true)}, append(walkTo("x"), &wire.Create{Type: nfsclient.Directory, Name: "e"})...)
	c.want(wire.OK, c.bare(ops...))
	c.do(wire.OK, walkTo("x", "e")...)
	c.do(nfsclient.ErrNoEnt, walkTo("x", "d")...)
}

// TestChange4: each change of a directory, and of a file, changes its change attribute, and the answer says
// from what to what.
func TestChange4(t *testing.T) {
	c := start4(t, 2, Config{Exports: []Export{{Path: "/x"}}})
	change := func(names ...string) uint64 {
		return c.attrs(wire.BitmapOf(wire.AttrChange), walkTo(names...)...).Change
	}
	seen := map[uint64]bool{change("x"): true}
	last := change("x")
	step := func(what string, info wire.ChangeInfo) {
		t.Helper()
		if !info.Atomic || info.Before != last || seen[info.After] || change("x") != info.After {
			t.Errorf("%s: %+v after %d, now %d", what, info, last, change("x"))
		}
		seen[info.After], last = true, info.After
	}
	for range 50 {
		mk := &wire.Create{Type: nfsclient.Directory, Name: "d"}
		c.do(wire.OK, append(walkTo("x"), mk)...)
		step("CREATE", mk.Change)
		mv := &wire.Rename{From: "d", To: "e"}
		c.do(wire.OK, append(append(walkTo("x"), &wire.SaveFH{}), append(walkTo("x"), mv)...)...)
		step("RENAME", mv.ToDir)
		rm := &wire.Remove{Name: "e"}
		c.do(wire.OK, append(walkTo("x"), rm)...)
		step("REMOVE", rm.Change)
	}
	open := &wire.Open{Access: wire.ShareBoth, Owner: wire.Owner{Owner: "o"}, Create: true, Claim: wire.ClaimNull, Name: "f"}
	c.do(wire.OK, append(walkTo("x"), open)...)
	step("OPEN", open.Change)
	at := change("x", "f")
	for range 50 {
		c.do(wire.OK, append(walkTo("x", "f"), &wire.Write{Stateid: open.Stateid.Latest(), Data: wire.Inline([]byte("data"))})...)
		if now := change("x", "f"); now <= at {
			t.Fatalf("WRITE: change %d after %d", now, at)
		} else {
			at = now
		}
	}
}

// TestRemovedOpen4: what is removed while it is open can still be closed.
func TestRemovedOpen4(t *testing.T) {
	c := start4(t, 1, Config{Exports: []Export{{Path: "/x"}}})
	open := &wire.Open{Access: wire.ShareBoth, Owner: wire.Owner{Owner: "o"}, Create: true, Claim: wire.ClaimNull, Name: "f"}
	fh := &wire.GetFH{}
	c.do(wire.OK, append(walkTo("x"), open, fh)...)
	c.do(wire.OK, append(walkTo("x"), &wire.Remove{Name: "f"})...)
	c.do(nfsclient.ErrStale, &wire.PutFH{Handle: fh.Handle}, &wire.GetAttr{})
	c.do(wire.OK, &wire.PutFH{Handle: fh.Handle}, &wire.Close{Stateid: open.Stateid})
	c.do(nfsclient.ErrStale, &wire.PutFH{Handle: fh.Handle})
}

// TestDelegated: what is delegated to a client of version 4 is recalled before version 3 changes it.
func TestDelegated(t *testing.T) {
	c := start4(t, 1, Config{Exports: []Export{{Path: "/x"}}, Delegations: true})
	c.root = c.mnt("/x")
	h := c.mustCreate(c.root, "f")
	open := &wire.Open{Access: wire.ShareRead, Owner: wire.Owner{Owner: "o"}, Claim: wire.ClaimNull, Name: "f"}
	c.do(wire.OK, append(walkTo("x"), open)...)
	if open.Delegation.Type != wire.DelegRead {
		t.Fatalf("%+v", open.Delegation)
	}
	calls := map[string]func() nfsclient.Status{
		"READ":    func() nfsclient.Status { return c.client.read(h, 0, 10).Status },
		"SETATTR": func() nfsclient.Status { return c.setattr(h, size(1)).Status },
		"REMOVE":  func() nfsclient.Status { return c.remove(c.root, "f").Status },
	}
	for name, want := range map[string]nfsclient.Status{"READ": nfsclient.OK, "SETATTR": nfsclient.ErrJukebox, "REMOVE": nfsclient.ErrJukebox} {
		if got := calls[name](); got != want {
			t.Errorf("%s of a delegated file: %v", name, got)
		}
	}
	c.do(wire.OK, append(walkTo("x", "f"), &wire.DelegReturn{Stateid: open.Delegation.Stateid})...)
	for _, name := range []string{"SETATTR", "READ", "REMOVE"} {
		if got := calls[name](); got != nfsclient.OK {
			t.Errorf("%s of a file that is no longer delegated: %v", name, got)
		}
	}
}

// holder is the connection of a client that answers CB_GETATTR.
type holder struct {
	change, size uint64
	asked        int
}

func (*holder) Done() <-chan struct{} { return nil }

func (h *holder) Call(_ context.Context, q *transport.Call) error {
	if q.Proc == 0 {
		return nil
	}
	return answerCallback(q, func(_ *wire.CBCompound, op wire.CBOperation) {
		if o, ok := op.(*wire.CBGetAttr); ok {
			h.asked++
			o.Attrs = wire.Attrs{Mask: wire.BitmapOf(wire.AttrChange, wire.AttrSize), Change: h.change, Size: h.size}
		}
	})
}

// TestWriteDelegated: who asks for the size of a file that another client writes under a delegation is told
// what that client says.
func TestWriteDelegated(t *testing.T) {
	c := start4(t, 2, Config{Exports: []Export{{Path: "/x"}}, Delegations: true})
	h := &holder{}
	c.back = h
	c.begin(1024)
	open := &wire.Open{Access: wire.ShareBoth, Owner: wire.Owner{Owner: "o"}, Create: true, Claim: wire.ClaimNull, Name: "f"}
	g := &wire.GetAttr{Want: wire.BitmapOf(wire.AttrChange, wire.AttrSize)}
	c.do(wire.OK, append(walkTo("x"), open, g)...)
	if open.Delegation.Type != wire.DelegWrite || h.asked > 0 {
		t.Fatalf("%+v, asked %d times", open.Delegation, h.asked)
	}
	other := *c
	o := *c.client
	other.client, o.back, o.peer = &o, deaf{}, "192.0.2.2:700"
	other.beginAs("another", 1024)
	want := g.Want
	h.change = g.Attrs.Change
	if a := other.attrs(want, walkTo("x", "f")...); a.Change != g.Attrs.Change || a.Size != 0 || h.asked != 1 {
		t.Errorf("before a change: %+v, asked %d times", a, h.asked)
	}
	h.change, h.size = g.Attrs.Change+1, 12345
	if a := other.attrs(want, walkTo("x", "f")...); a.Change == g.Attrs.Change || a.Size != 12345 || h.asked != 2 {
		t.Errorf("after a change: %+v, asked %d times", a, h.asked)
	}
}
