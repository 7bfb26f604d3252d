package nfsd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/realm"
	"github.com/rdmafs/rdmafs/test/realm/gssclient"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
)

// kerberized is a server in a realm, with alice, who is user 1001 there, and mallory,
// whom it does not know.
type kerberized struct {
	*client
	r    *realm.Realm
	addr string
}

func startKerberos(t *testing.T, x Export) *kerberized {
	t.Helper()
	r := realm.Start(t)
	acceptor, err := krb5.NewAcceptor(r.AddService(realm.Service), "nfs")
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, x, func(cfg *Config) {
		cfg.Kerberos = &Kerberos{Acceptor: acceptor, Users: func(p string) (transport.AuthSys, bool) {
			return transport.AuthSys{UID: 1001, GID: 1001, GIDs: []uint32{2001}}, p == "alice@"+realm.Name
		}}
	})
	at, err := c.s.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"alice", "mallory"} {
		r.AddUser(user, "secret")
		r.Kinit(user, "secret", r.Path(user), 0)
	}
	return &kerberized{c, r, at.String()}
}

// dial makes a user's context.
func (k *kerberized) dial(t *testing.T, user string) *gssclient.Client {
	t.Helper()
	g, err := gssclient.Dial(t, k.r, k.addr, k.r.Path(user), "nfs@localhost", wire.NFSProgram, wire.NFSVersion)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// call makes a call and decodes its results.
func call(g *gssclient.Client, service, proc uint32, a, res wire.Message) error {
	r, err := g.Call(service, proc, encode(a))
	if err != nil {
		return err
	}
	res.Parse(r)
	return r.End()
}

var services = map[string]uint32{"krb5": gssclient.None, "krb5i": gssclient.Integrity, "krb5p": gssclient.Privacy}

// TestKerberos: MIT's client reads, writes and creates with each service, as the user
// whose ticket it has.
func TestKerberos(t *testing.T) {
	k := startKerberos(t, Export{Security: []uint32{SecSys, SecKrb5, SecKrb5i, SecKrb5p}})
	if os.Getuid() != 0 {
		t.Log("not root: owners are not looked at")
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	for name, service := range services {
		for user, uid := range map[string]uint32{"alice": 1001, "mallory": Nobody} {
			g := k.dial(t, user)
			where := wire.DirOp{Dir: k.root, Name: name + user}
			var made wire.MadeRes
			if err := call(g, service, wire.ProcCreate, &wire.CreateArgs{Where: where, Attr: mode(0o644)}, &made); err != nil || made.Status != 0 {
				t.Fatalf("%s of %s: CREATE: %v, %v", name, user, err, made.Status)
			}
			var st wire.GetAttrRes
			if err := call(g, service, wire.ProcGetAttr, &wire.HandleArgs{Handle: made.Handle.Handle}, &st); err != nil || st.Status != 0 {
				t.Fatalf("%s of %s: GETATTR: %v, %v", name, user, err, st.Status)
			}
			if os.Getuid() == 0 && st.Attr.UID != uid {
				t.Errorf("%s: file of %s belongs to %d, want %d", name, user, st.Attr.UID, uid)
			}
			var wrote wire.WriteRes
			args := wire.WriteArgs{Handle: made.Handle.Handle, Count: uint32(len(data)), Stable: nfsclient.FileSync, Data: wire.Inline(data)}
			if err := call(g, service, wire.ProcWrite, &args, &wrote); err != nil || wrote.Status != 0 || wrote.Count != uint32(len(data)) {
				t.Fatalf("%s: WRITE: %v, %v", name, err, wrote)
			}
			r, err := g.Call(service, wire.ProcRead, encode(&wire.ReadArgs{Handle: made.Handle.Handle, Count: 1 << 20}))
			if err != nil || !bytes.Contains(r.Fixed(r.Remaining()), data) {
				t.Fatalf("%s: READ: %v", name, err)
			}
			if got, err := os.ReadFile(filepath.Join(k.s.exports[0].Dir, where.Name)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes written, %v", name, len(got), err)
			}
			if _, err := g.Call(service, 22, nil); err != gssclient.NotExecuted(transport.ProcUnavail) {
				t.Errorf("%s: a procedure that is none: %v", name, err)
			}
			if _, err := g.Call(service, wire.ProcGetAttr, []byte{0, 0, 0, 200}); err != gssclient.NotExecuted(transport.GarbageArgs) {
				t.Errorf("%s: malformed arguments: %v", name, err)
			}
			if err := g.Destroy(); err != nil {
				t.Errorf("%s: destroying the context: %v", name, err)
			}
			if _, err := g.Call(service, wire.ProcNull, nil); err != gssclient.Denied(13) {
				t.Errorf("%s: call in a destroyed context: %v", name, err)
			}
		}
	}
	if n := k.s.gss.Contexts(); n != 0 {
		t.Errorf("%d contexts are left", n)
	}
}

// TestKerberosNumbers: a number is good once, and not below the window; the connection
// ends, as Linux ends it, and the context lives.
func TestKerberosNumbers(t *testing.T) {
	k := startKerberos(t, Export{Security: []uint32{SecKrb5}})
	g := k.dial(t, "alice")
	for _, step := range []struct {
		seq  uint32
		good bool
	}{{5, true}, {3, true}, {5, false}, {500, true}, {500 - 127, true}, {500 - 128, false}, {500 - 127, false}, {499, true}, {0, false}, {501, true}} {
		_, err := g.CallWith(step.seq, gssclient.None, wire.ProcNull, nil)
		if step.good != (err == nil) || err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("number %d: %v, want good: %v", step.seq, err, step.good)
		}
		if err != nil {
			if err := g.Redial(k.addr); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := g.CallWith(1<<31, gssclient.None, wire.ProcNull, nil); err != gssclient.Denied(14) {
		t.Errorf("MAXSEQ: %v", err)
	}
}

// TestKerberosAltered: from the program's number on, no byte of a call that is protected
// may be another on the way. The call is denied, or its arguments are garbage, or it is no
// call at all; it is not carried out.
func TestKerberosAltered(t *testing.T) {
	k := startKerberos(t, Export{Security: []uint32{SecKrb5, SecKrb5i, SecKrb5p}})
	mkdir := encode(&wire.MkdirArgs{Where: wire.DirOp{Dir: k.root, Name: "made by nobody"}, Attr: mode(0o755)})
	for name, service := range services {
		g := k.dial(t, "alice")
		size := 0
		g.Alter = func(record []byte) { size = len(record) }
		if _, err := g.Call(service, 22, mkdir); err != gssclient.NotExecuted(transport.ProcUnavail) {
			t.Fatal(err)
		}
		if service == gssclient.None {
			size -= len(mkdir) // arguments are not protected
		}
		seen := map[error]int{}
		for at := 4 + 3*4; at < size; at += 3 {
			g.Alter = func(record []byte) { record[at] ^= 0x10 }
			_, err := g.Call(service, wire.ProcMkdir, mkdir)
			seen[err]++
			switch {
			case errors.Is(err, io.EOF):
				if err := g.Redial(k.addr); err != nil {
					t.Fatal(err)
				}
			case err != gssclient.Denied(1) && err != gssclient.Denied(3) && err != gssclient.Denied(13) && err != gssclient.NotExecuted(transport.GarbageArgs):
				t.Fatalf("%s: byte %d altered: %v", name, at, err)
			}
		}
		if seen[gssclient.Denied(13)] == 0 || service != gssclient.None && seen[gssclient.NotExecuted(transport.GarbageArgs)] == 0 {
			t.Errorf("%s: answers %v", name, seen)
		}
		g.Alter = nil
		if _, err := g.Call(service, wire.ProcNull, nil); err != nil {
			t.Errorf("%s: the context after all that: %v", name, err)
		}
	}
	if es, err := os.ReadDir(k.s.exports[0].Dir); err != nil || len(es) != 0 {
		t.Errorf("altered calls were carried out: %v, %v", es, err)
	}
}

// TestKerberosLost: after a restart contexts are unknown; an expired one says so.
func TestKerberosLost(t *testing.T) {
	k := startKerberos(t, Export{Security: []uint32{SecKrb5}})
	g := k.dial(t, "alice")
	if err := k.s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := g.Redial(k.addr); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Call(gssclient.None, wire.ProcNull, nil); err != gssclient.Denied(13) {
		t.Errorf("context from before a restart: %v", err)
	}
	k.r.Kinit("alice", "secret", k.r.Path("short"), 3*time.Second)
	g = k.dial(t, "short")
	var err error
	for end := time.Now().Add(20 * time.Second); err == nil && time.Now().Before(end); {
		_, err = g.Call(gssclient.None, wire.ProcNull, nil)
	}
	if err != gssclient.Denied(14) {
		t.Errorf("context whose ticket has expired: %v", err)
	}
	// New keys of the service are good at once, and tickets by the old ones still are.
	k.r.Rekey(realm.Service)
	k.dial(t, "mallory")
	k.r.Kinit("alice", "secret", k.r.Path("alice"), 0)
	k.dial(t, "alice")
}

// TestSecurityOfExports: which calls reach files by which flavor. MOUNT names the flavors
// and is served by any; of an export's root anybody may ask what mounting takes.
func TestSecurityOfExports(t *testing.T) {
	all := map[uint32]string{SecNone: "none", SecSys: "sys", SecKrb5: "krb5", SecKrb5i: "krb5i", SecKrb5p: "krb5p"}
	for _, tc := range []struct {
		list string
		want []uint32
	}{
		{"", []uint32{SecSys, SecNone}},
		{"sys", []uint32{SecSys, SecNone}},
		{"krb5p", []uint32{SecKrb5p}},
		{"krb5i+krb5+sys", []uint32{SecKrb5i, SecKrb5, SecSys, SecNone}},
	} {
		var x Export
		if tc.list != "" {
			if err := x.option("sec=" + tc.list); err != nil {
				t.Fatal(err)
			}
		}
		c := start(t, x)
		var mnt wire.MntRes
		c.program(wire.MountProgram, 3, wire.MountMnt, &wire.PathArgs{Path: c.s.exports[0].Path}, &mnt)
		if fmt.Sprint(mnt.Flavors) != fmt.Sprint(tc.want) {
			t.Errorf("sec=%s: MOUNT names %v, want %v", tc.list, mnt.Flavors, tc.want)
		}
		if err := os.WriteFile(filepath.Join(c.s.exports[0].Dir, "f"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var f wire.LookupRes
		known := *c
		known.security = tc.want[0]
		known.program(wire.NFSProgram, 3, wire.ProcLookup, &wire.DirOp{Dir: c.root, Name: "f"}, &f)
		for flavor, name := range all {
			allowed := false
			for _, w := range tc.want {
				allowed = allowed || w == flavor
			}
			status := map[bool]nfsclient.Status{true: 0, false: nfsclient.ErrAccess}[allowed]
			o := *c
			o.security = flavor
			var found wire.LookupRes
			o.program(wire.NFSProgram, 3, wire.ProcLookup, &wire.DirOp{Dir: c.root, Name: "f"}, &found)
			if found.Status != status {
				t.Errorf("sec=%s: LOOKUP by %s: %v, want %v", tc.list, name, found.Status, status)
			}
			var root, file wire.GetAttrRes
			o.program(wire.NFSProgram, 3, wire.ProcGetAttr, &wire.HandleArgs{Handle: c.root}, &root)
			if root.Status != 0 {
				t.Errorf("sec=%s: GETATTR of the root by %s: %v", tc.list, name, root.Status)
			}
			o.program(wire.NFSProgram, 3, wire.ProcGetAttr, &wire.HandleArgs{Handle: f.Handle}, &file)
			if file.Status != status {
				t.Errorf("sec=%s: GETATTR of a file by %s: %v, want %v", tc.list, name, file.Status, status)
			}
		}
	}
	if err := new(Export).option("sec=krb5+lkey"); err == nil {
		t.Error("a flavor that there is not is taken")
	}
}

func TestLocalUsers(t *testing.T) {
	find := LocalUsers(realm.Name)
	for range 2 {
		if u, ok := find("root@" + realm.Name); !ok || u.UID != 0 || u.GID != 0 {
			t.Errorf("root: %+v, %v", u, ok)
		}
	}
	for _, p := range []string{"root@OTHER.LAN", "root", "nfs/host@" + realm.Name, "no such user@" + realm.Name, ""} {
		if u, ok := find(p); ok {
			t.Errorf("%q is %+v", p, u)
		}
	}
}
