package nfsd

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/reconnect"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// mark stands in the file that is read.
const mark = "what the server has sent"

// meddler is a connection between client and server, on which what arrives at either end is
// altered as long as there are times left: the first byte of each mark.
type meddler struct {
	net.Conn
	seen, times *atomic.Int32
}

func (m meddler) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.meddle(b[:n])
	return n, err
}

func (m meddler) Write(b []byte) (int, error) {
	c := bytes.Clone(b)
	m.meddle(c)
	return m.Conn.Write(c)
}

func (m meddler) meddle(b []byte) {
	for at := bytes.Index(b, []byte(mark)); at >= 0; at = bytes.Index(b, []byte(mark)) {
		m.seen.Add(1)
		if m.times.Add(-1) < 0 {
			return
		}
		b[at] ^= 0x20
	}
}

// TestMeddled: with krb5 a changed byte is data like any other, and what is read is seen by
// everybody. With krb5i it is seen, and no change is taken: the call fails. With krb5p it is
// not seen.
func TestMeddled(t *testing.T) {
	k := startSecured(t)
	for service, want := range map[rpcsecgss.Service]struct {
		seen, changed bool
	}{rpcsecgss.None: {true, true}, rpcsecgss.Integrity: {true, false}, rpcsecgss.Privacy: {false, false}} {
		t.Run(service.String(), func(t *testing.T) {
			flavor := SecKrb5 - 1 + uint32(service)
			v := serve(t, Config{Exports: []Export{{Dir: t.TempDir(), Squash: SquashNone, Security: []uint32{flavor}}}, Kerberos: k.kerberos})
			var seen, times atomic.Int32
			d, err := tcp.NewDialer(tcp.Config{Addr: v.tcp, Upgrade: func(_ context.Context, c net.Conn) (net.Conn, error) {
				return meddler{c, &seen, &times}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			caller := reconnect.New(rpcsecgss.NewDialer(d, k.client(service)), reconnect.Config{Retrans: -1})
			c := v.mountBy(t, caller, flavor)
			defer func() {
				if err := c.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			arena, err := mem.NewArena(1 << 16)
			if err != nil {
				t.Fatal(err)
			}
			defer arena.Close()
			if err := c.Register(arena); err != nil {
				t.Fatal(err)
			}
			cr := nfsclient.Cred{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
			path := filepath.Join(v.s.exports[0].Dir, "file")
			if err := os.WriteFile(path, []byte(mark), 0o644); err != nil {
				t.Fatal(err)
			}
			root, _ := c.Root()
			f, err := c.Lookup(t.Context(), cr, root, "file")
			if err != nil {
				t.Fatal(err)
			}
			to := mem.Vec{arena.Seg(0, len(mark))}
			read := func() (string, error) {
				clear(to[0].Bytes())
				_, err := c.Read(t.Context(), cr, f.Handle, nil, 0, to)
				return string(to[0].Bytes()), err
			}
			times.Store(1)
			got, err := read()
			t.Logf("altered reply: %q, %v", got, err)
			if changed := got == strings.Replace(mark, "w", "W", 1) && err == nil; changed != want.changed {
				t.Errorf("an altered reply is taken: %v", changed)
			}
			if err == nil && !want.changed && got != mark {
				t.Errorf("read %q", got)
			}
			if (seen.Load() > 0) != want.seen {
				t.Errorf("the data was seen %d times", seen.Load())
			}
			times.Store(0)
			if got, err := read(); err != nil || got != mark {
				t.Errorf("read in peace: %q, %v", got, err)
			}
			times.Store(1)
			_, err = c.Write(t.Context(), cr, f.Handle, nil, 0, to, nfsclient.FileSync)
			t.Logf("altered call: %v", err)
			stored, rerr := os.ReadFile(path)
			if changed := string(stored) != mark; changed != want.changed || rerr != nil {
				t.Errorf("the server stores %q, %v", stored, rerr)
			}
		})
	}
}
