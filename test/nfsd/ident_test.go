package nfsd

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act for others")
	}
}

func (c *client) access(h nfsclient.Handle) nfsclient.AccessMask {
	c.t.Helper()
	var res wire.AccessRes
	c.call(wire.ProcAccess, &wire.AccessArgs{Handle: h, Access: 0x3f}, &res)
	c.must("ACCESS", res.Status)
	return res.Access
}

func TestUsers(t *testing.T) {
	needRoot(t)
	kinds(t, func(t *testing.T, x Export) {
		root := start(t, x)
		alice, bob := root.as(1001, 1001), root.as(1002, 1002)
		friend := root.as(1003, 1003, 7, 1001) // of alice's group

		d := alice.mkdir(alice.root, "d")
		alice.must("MKDIR", d.Status)
		if a := d.Attr.Attr; a.UID != 1001 || a.GID != 1001 {
			t.Errorf("owner of a new directory: %d, %d", a.UID, a.GID)
		}
		dir := d.Handle.Handle
		f := alice.mustCreate(dir, "f")
		alice.must("WRITE", alice.write(f, 0, "alice's", nfsclient.FileSync).Status)
		alice.must("SETATTR", alice.setattr(f, mode(0o640)).Status)

		bob.want("READ by another", bob.read(f, 0, 10).Status, nfsclient.ErrAccess)
		bob.want("WRITE by another", bob.write(f, 0, "x", 0).Status, nfsclient.ErrAccess)
		bob.want("truncation by another", bob.setattr(f, size(0)).Status, nfsclient.ErrAccess)
		bob.want("chmod by another", bob.setattr(f, mode(0o777)).Status, nfsclient.ErrPerm)
		bob.want("REMOVE by another", bob.remove(dir, "f").Status, nfsclient.ErrAccess)
		bob.want("CREATE by another", bob.create(dir, "g", wire.Guarded, mode(0)).Status, nfsclient.ErrAccess)
		bob.want("RENAME by another", bob.rename(dir, "f", dir, "g").Status, nfsclient.ErrAccess)
		if m := bob.access(f); m != 0 {
			t.Errorf("another's rights to the file: %#x", m)
		}
		if m := bob.access(dir); m != nfsclient.AccessRead|nfsclient.AccessLookup {
			t.Errorf("another's rights to the directory: %#x", m)
		}
		if r := friend.read(f, 0, 10); r.Status != nfsclient.OK || string(r.Data.Data) != "alice's" {
			t.Errorf("READ by one of the group: %v", r.Status)
		}
		friend.want("WRITE by one of the group", friend.write(f, 0, "x", 0).Status, nfsclient.ErrAccess)
		if m := friend.access(f); m != nfsclient.AccessRead {
			t.Errorf("rights of one of the group: %#x", m)
		}
		// What the kernel said is forgotten when the mode changes.
		alice.must("SETATTR", alice.setattr(f, mode(0o666)).Status)
		if r := bob.read(f, 0, 10); r.Status != nfsclient.OK {
			t.Errorf("READ once the mode allows it: %v", r.Status)
		}
		bob.must("WRITE once the mode allows it", bob.write(f, 0, "bob", 0).Status)
		alice.must("SETATTR", alice.setattr(f, mode(0)).Status)
		bob.want("READ once the mode forbids it", bob.read(f, 0, 10).Status, nfsclient.ErrAccess)
		// The owner has opened the file before, for all the server knows.
		if r := alice.read(f, 0, 10); r.Status != nfsclient.OK {
			t.Errorf("READ by the owner: %v", r.Status)
		}
		alice.must("WRITE by the owner", alice.write(f, 0, "x", nfsclient.FileSync).Status)
		if m := alice.access(f); m != 0 {
			t.Errorf("rights of the owner to a file of mode 0: %#x", m)
		}
		alice.want("chown", alice.setattr(f, wire.SetAttr{UID: wire.OptUint32{Set: true, V: 1002}}).Status, nfsclient.ErrPerm)
		root.must("chown by root", root.setattr(f, wire.SetAttr{UID: wire.OptUint32{Set: true, V: 1002}}).Status)
		bob.must("WRITE by the new owner", bob.write(f, 0, "x", nfsclient.FileSync).Status)

		alice.must("SETATTR", alice.setattr(dir, mode(0o700)).Status)
		bob.want("LOOKUP in a closed directory", bob.lookup(dir, "f").Status, nfsclient.ErrAccess)
		bob.want("READDIR of a closed directory", bob.page(dir, false, 0, nfsclient.Verifier{}, 4096).Status, nfsclient.ErrAccess)
		if _, st := bob.getattr(f); st != nfsclient.OK {
			t.Errorf("GETATTR needs no right: %v", st)
		}
		root.must("LOOKUP by root", root.lookup(dir, "f").Status)
	})
}

// TestSetIDIsCleared: who writes to a file of another loses it its set-id bits.
func TestSetIDIsCleared(t *testing.T) {
	needRoot(t)
	root := start(t, Export{})
	f := root.mustCreate(root.root, "f")
	root.must("SETATTR", root.setattr(f, mode(0o4777)).Status)
	root.must("WRITE by root", root.write(f, 0, "x", 0).Status)
	if a, _ := root.getattr(f); a.Mode != 0o4777 {
		t.Errorf("mode %o after root wrote", a.Mode)
	}
	bob := root.as(1002, 1002)
	bob.must("WRITE", bob.write(f, 0, "x", 0).Status)
	if a, _ := root.getattr(f); a.Mode != 0o777 {
		t.Errorf("mode %o after another wrote", a.Mode)
	}
}

func TestSquash(t *testing.T) {
	needRoot(t)
	id := uint32(4242)
	for _, v := range []struct {
		name     string
		squash   Squash
		uid, gid uint32
		wantUID  uint32
		wantGID  uint32
	}{
		{"none", SquashNone, 0, 0, 0, 0},
		{"root", SquashRoot, 0, 0, Nobody, id},
		{"root, ordinary user", SquashRoot, 1001, 1001, 1001, 1001},
		{"root, group 0", SquashRoot, 1001, 0, 1001, id},
		{"all", SquashAll, 1001, 1001, Nobody, id},
	} {
		t.Run(v.name, func(t *testing.T) {
			c := start(t, Export{Squash: SquashNone, AnonGID: &id}, func(cfg *Config) { cfg.Exports[0].Squash = v.squash })
			res := c.as(v.uid, v.gid).mkdir(c.root, "d")
			if a := res.Attr.Attr; res.Status != nfsclient.OK || a.UID != v.wantUID || a.GID != v.wantGID {
				t.Errorf("%v: made by %d, %d", res.Status, a.UID, a.GID)
			}
			none := *c
			none.flavor = transport.FlavorNone
			if a := none.mkdir(c.root, "e").Attr.Attr; a.UID != Nobody {
				t.Errorf("without credentials made by %d", a.UID)
			}
		})
	}
	e := &export{Export: Export{}, anonUID: 1, anonGID: 2}
	gids := []uint32{5, 0, 6}
	if cr := e.cred(&transport.Request{Flavor: transport.FlavorSys, Sys: transport.AuthSys{UID: 9, GID: 9, GIDs: gids}}); cr.GIDs[1] != 2 || gids[1] != 0 {
		t.Errorf("groups %v, of %v", cr.GIDs, gids)
	}
}

func TestGroupOfSetGIDDirectory(t *testing.T) {
	needRoot(t)
	c := start(t, Export{})
	d := c.mustMkdir(c.root, "d")
	c.must("chown", c.setattr(d, wire.SetAttr{GID: wire.OptUint32{Set: true, V: 77}}).Status)
	c.must("chmod", c.setattr(d, mode(0o2777)).Status)
	res := c.as(1001, 1001).mkdir(d, "e")
	if a := res.Attr.Attr; res.Status != nfsclient.OK || a.GID != 77 || a.Mode != 0o2755 {
		t.Errorf("%v: group %d, mode %o", res.Status, a.GID, a.Mode)
	}
}

const asUser = "RDMAFS_NFSD_TEST_AS_USER"

// TestAsOrdinaryUser runs this package's tests as nobody.
func TestAsOrdinaryUser(t *testing.T) {
	needRoot(t)
	if os.Getenv(asUser) != "" {
		t.Fatal("still root")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp, err := os.MkdirTemp("", "nfsd-user")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(tmp, "test")
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", bin,
		"-test.run=^(TestCreate|TestExclusive|TestSetattr|TestDataErrors|TestSymlinks|TestNames|TestRename|TestLinks|TestMknod|"+
			"TestHandles|TestEscape|TestInode|TestReadDirBounds|TestOwnFiles|TestCrash|TestConcurrency)", "-test.count=1")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp, asUser+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

// TestOwnFiles: a server of an ordinary user reads and writes its own files
// whatever their mode, as one that is root does for their owner.
func TestOwnFiles(t *testing.T) {
	c := start(t, Export{})
	c.sys = transport.AuthSys{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	made := c.create(c.root, "f", wire.Guarded, mode(0o400))
	c.must("CREATE", made.Status)
	h := made.Handle.Handle
	c.must("WRITE", c.write(h, 0, "abc", nfsclient.FileSync).Status)
	c2 := c.restart(Export{})
	c2.sys = c.sys
	c2.must("WRITE after a restart", c2.write(h, 3, "def", nfsclient.FileSync).Status)
	c2.must("SETATTR", c2.setattr(h, mode(0)).Status)
	c3 := c2.restart(Export{})
	c3.sys = c.sys
	if r := c3.read(h, 0, 10); r.Status != nfsclient.OK || string(r.Data.Data) != "abcdef" {
		t.Errorf("READ of a file of mode 0: %v %q", r.Status, r.Data.Data)
	}
	if a, _ := c3.getattr(h); a.Mode != 0 {
		t.Errorf("mode %o", a.Mode)
	}
	d := c3.mustMkdir(c3.root, "d")
	c3.must("SETATTR", c3.setattr(d, mode(0o300)).Status)
	if p := c3.page(d, false, 0, nfsclient.Verifier{}, 4096); p.Status != nfsclient.OK && p.Status != nfsclient.ErrAccess {
		t.Errorf("READDIR: %v", p.Status)
	}
}
