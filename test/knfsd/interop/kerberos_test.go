//go:build knfsd

package interop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/realm"
	"github.com/rdmafs/rdmafs/test/realm/gssclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// kerberosExport is an export by every flavor.
const kerberosExport = knfsd.DefaultExportOptions + ",sec=sys:krb5:krb5i:krb5p"

// guestName is the guest's, for clients that are told so by hostsFile.
const guestName = "server.test.lan"

// kerberize makes a realm and has the guest serve it. The guest has one service of all
// types, and one for each type, nfs/etypeN.test.lan.
func kerberize(t *testing.T, g *knfsd.Guest, wrapper ...string) *realm.Realm {
	t.Helper()
	r := realm.Start(t, wrapper...)
	services := []string{realm.Service, "nfs/" + guestName}
	for _, name := range services {
		r.AddService(name)
	}
	for e := range realm.AES {
		name := fmt.Sprintf("nfs/etype%d.test.lan", e)
		r.AddService(name, e)
		services = append(services, name)
	}
	for _, user := range []string{"alice", "bob"} {
		r.AddUser(user, "secret")
		r.Kinit(user, "secret", r.Path(user), 0)
	}
	if err := g.Kerberos(t.Context(), r.Conf(), r.Keytab("guest.keytab", services...)); err != nil {
		t.Fatal(err)
	}
	return r
}

func encode(a wire.Message) []byte {
	var w xdr.Writer
	a.Append(&w)
	return w.Bytes()
}

// TestKerberosCallsLinuxServer: what package gssclient takes for RPCSEC_GSS is what the Linux server
// does: the test of the embedded server's other test.
func TestKerberosCallsLinuxServer(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{}, ExportOptions: kerberosExport})
	guest(t, g, "chmod 1777 /export")
	r := kerberize(t, g)
	t.Logf("types of the guest: %s", guest(t, g, "cat /proc/fs/nfsd/supported_krb5_enctypes"))
	res, err := gssclient.Unsecured(g.Addr(knfsd.Mountd).String(), wire.MountProgram, wire.MountVersion, wire.MountMnt, encode(&wire.PathArgs{Path: "/export"}))
	if err != nil {
		t.Fatal(err)
	}
	var mnt wire.MntRes
	if mnt.Parse(res); mnt.Status != 0 {
		t.Fatalf("MNT: %v", mnt.Status)
	}
	if fmt.Sprint(mnt.Flavors) != "[1 390003 390004 390005]" {
		t.Errorf("flavors %v", mnt.Flavors)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	for e, name := range realm.AES {
		for user, uid := range map[string]uint32{"alice": 1001, "bob": 1002} {
			t.Run(name+" "+user, func(t *testing.T) {
				c, err := gssclient.Dial(t, r, g.Addr(knfsd.TCP).String(), r.Path(user), fmt.Sprintf("nfs@etype%d.test.lan", e), wire.NFSProgram, wire.NFSVersion)
				if err != nil {
					t.Fatal(err)
				}
				for _, service := range []uint32{gssclient.None, gssclient.Integrity, gssclient.Privacy} {
					do := func(proc uint32, a, res wire.Message) {
						t.Helper()
						r, err := c.Call(service, proc, encode(a))
						if err == nil {
							res.Parse(r)
							err = r.End()
						}
						if err != nil {
							t.Fatalf("service %d: procedure %d: %v", service, proc, err)
						}
					}
					var made wire.MadeRes
					do(wire.ProcCreate, &wire.CreateArgs{Where: wire.DirOp{Dir: mnt.Handle, Name: fmt.Sprint(user, e, service)}}, &made)
					var st wire.GetAttrRes
					do(wire.ProcGetAttr, &wire.HandleArgs{Handle: made.Handle.Handle}, &st)
					if made.Status != 0 || st.Attr.UID != uid {
						t.Errorf("service %d: %v, a file of user %d, want %d", service, made.Status, st.Attr.UID, uid)
					}
					var wrote wire.WriteRes
					do(wire.ProcWrite, &wire.WriteArgs{Handle: made.Handle.Handle, Count: uint32(len(data)), Stable: nfsclient.FileSync, Data: wire.Inline(data)}, &wrote)
					got, err := c.Call(service, wire.ProcRead, encode(&wire.ReadArgs{Handle: made.Handle.Handle, Count: 1 << 20}))
					if err != nil || !bytes.Contains(got.Fixed(got.Remaining()), data) {
						t.Errorf("service %d: READ: %v", service, err)
					}
				}
				if err := c.Destroy(); err != nil {
					t.Error(err)
				}
				if _, err := c.Call(gssclient.None, wire.ProcNull, nil); err != gssclient.Denied(13) {
					t.Errorf("call in a destroyed context: %v", err)
				}
			})
		}
	}
	t.Run("numbers", func(t *testing.T) {
		addr := g.Addr(knfsd.TCP).String()
		c, err := gssclient.Dial(t, r, addr, r.Path("alice"), "nfs@localhost", wire.NFSProgram, wire.NFSVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			seq  uint32
			good bool
		}{{5, true}, {3, true}, {5, false}, {500, true}, {500 - 127, true}, {500 - 128, false}, {499, true}, {501, true}} {
			_, err := c.CallWith(step.seq, gssclient.None, wire.ProcNull, nil)
			if step.good != (err == nil) || err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("number %d: %v, want good: %v", step.seq, err, step.good)
			}
			if err != nil {
				if err := c.Redial(addr); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.Window != 128 {
			t.Errorf("window %d", c.Window)
		}
	})
}
