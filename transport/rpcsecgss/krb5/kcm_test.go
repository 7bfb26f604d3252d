package krb5

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/realm"
)

// needHeimdal is the path of Heimdal's kcm: of the package heimdal-kcm, or what RDMAFS_KCM
// names, which may be another server that listens in /run.
func needHeimdal(t *testing.T) string {
	t.Helper()
	program := os.Getenv("RDMAFS_KCM")
	if program == "" {
		program = "/usr/sbin/kcm"
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("needs kcm, of the package heimdal-kcm")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give kcm a /run of its own")
	}
	return program
}

// startHeimdal starts Heimdal's kcm where it has a directory in place of /run, in which it
// listens.
func startHeimdal(t *testing.T, program, dir string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_ATTRIB); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", `mount --bind "$1" /run && exec "$2" -c "$1/krb5.conf"`, "sh", dir, program)
	cmd.Stderr = os.Stderr
	ended := startBound(t, cmd)
	go func() {
		<-ended
		_ = events.SetReadDeadline(time.Unix(1, 0))
	}()
	// It makes its socket one of everybody's after it listens.
	guard := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	socket := filepath.Base(defaultKCMSocket)
	for buf := make([]byte, 4096); ; {
		n, err := events.Read(buf)
		if err != nil {
			t.Fatalf("kcm does not listen: %v", err)
		}
		if bytes.Contains(buf[:n], []byte(socket)) {
			return
		}
	}
}

// TestKCMOfHeimdal reads from Heimdal's server what MIT's programs have put there, each
// user's own.
func TestKCMOfHeimdal(t *testing.T) {
	program := needHeimdal(t)
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddUser("bob", "secret")
	r.AddService(realm.Service)
	socket := " kcm_socket = DIR/" + filepath.Base(defaultKCMSocket) + "\n"
	root := newMITUser(t, r, 0, socket)
	startHeimdal(t, program, root.dir)
	other := *root
	other.uid = stranger
	c := testClient(t, r, func(cf *Config) {
		conf, err := LoadConf(root.conf)
		if err != nil {
			t.Fatal(err)
		}
		conf.cacheName = "KCM:"
		cf.Conf = conf
	})
	none := func(uid uint32, cache string) {
		t.Helper()
		if got, err := c.readCache(t.Context(), cache, uid); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of user %d: %v, %v; want that there is none", cache, uid, got, err)
		}
	}
	has := func(uid uint32, cache, user string) {
		t.Helper()
		got, err := c.readCache(t.Context(), cache, uid)
		now := time.Now()
		if err != nil || got.client.String() != user+"@"+realm.Name || len(got.entries) != 2 ||
			got.find(now, realm.Name, "krbtgt", realm.Name) == nil || got.find(now, realm.Name, "nfs", "localhost") == nil {
			t.Errorf("%s of user %d: %+v, %v; want that of %s", cache, uid, got, err, user)
		}
	}
	none(0, "KCM:")
	none(0, "KCM:0:x")
	root.fill("KCM:", "alice")
	has(0, "KCM:", "alice")
	has(0, "KCM:0", "alice")
	none(stranger, "KCM:")
	other.fill("KCM:", "bob")
	has(stranger, "KCM:", "bob")
	has(0, "KCM:", "alice")
	r.StopKDC()
	if got, err := c.User(stranger).Ticket(t.Context()); err != nil || got.Client != "bob@"+realm.Name {
		t.Errorf("%+v, %v", got, err)
	}
	other.run("", "kdestroy", "-c", "KCM:")
	if _, err := c.User(stranger).Ticket(t.Context()); !errors.Is(err, errNoTicket) {
		t.Errorf("after kdestroy: %v", err)
	}
	if uid, euid := os.Getuid(), os.Geteuid(); uid != 0 || euid != 0 {
		t.Errorf("user %d, effective %d afterwards", uid, euid)
	}
}

// scriptedKCM answers on the socket whose path it returns: each connection by serve.
func scriptedKCM(t *testing.T, serve func(c net.Conn)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kcm")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	})
	return path
}

// TestKCMRecorded replays what servers have answered: every byte that is sent must be the
// one that they were asked, and the cache is read from their answers.
func TestKCMRecorded(t *testing.T) {
	for _, server := range []string{"heimdal", "sssd"} {
		t.Run(server, func(t *testing.T) {
			text, err := os.ReadFile("testdata/kcm-" + server + ".hex")
			if err != nil {
				t.Fatal(err)
			}
			var script [][]byte
			for line := range strings.Lines(string(text)) {
				if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
					continue
				}
				b, err := hex.DecodeString(line)
				if err != nil {
					t.Fatal(err)
				}
				script = append(script, b)
			}
			socket := scriptedKCM(t, func(c net.Conn) {
				for rest := script; len(rest) >= 2; rest = rest[2:] {
					got := make([]byte, len(rest[0]))
					if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, rest[0]) {
						t.Errorf("request %x, %v; want %x", got, err, rest[0])
						return
					}
					_, _ = c.Write(rest[1])
				}
			})
			self := uint32(os.Geteuid())
			got, err := readKCM(t.Context(), socket, "", self, self)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.entries) != 2 {
				t.Fatalf("%d tickets, want 2", len(got.entries))
			}
			then := got.entries[0].auth.Add(time.Minute)
			if got.client.String() != "alice@"+realm.Name || got.find(then, realm.Name, "krbtgt", realm.Name) == nil || got.find(then, realm.Name, "nfs", "localhost") == nil {
				t.Errorf("%+v", got)
			}
			for _, e := range got.entries {
				if _, err := e.parsed(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// kcmReply is one of KCM's replies with a status and a body.
func kcmReply[B []byte | string](status uint32, body B) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, status)
	return append(b, body...)
}

// TestKCMRefuses: what answers at KCM's socket may be anything.
func TestKCMRefuses(t *testing.T) {
	princ := kcmReply(0, madePrincipal)
	uuid := kcmReply(0, make([]byte, uuidLen))
	for name, tc := range map[string]struct {
		replies [][]byte
		want    string
	}{
		"a cache":              {[][]byte{kcmReply(0, "x\x00"), princ, uuid, kcmReply(0, madeTicket)}, ""},
		"a ticket removed":     {[][]byte{kcmReply(0, "x\x00"), princ, kcmReply(0, make([]byte, 2*uuidLen)), kcmReply(1, ""), kcmReply(0, madeTicket)}, ""},
		"nothing":              {nil, "does not answer"},
		"half a head":          {[][]byte{{0, 0, 0, 4}}, "does not answer"},
		"all memory":           {[][]byte{{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}}, "4294967295 bytes"},
		"too short":            {[][]byte{{0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}}, "3 bytes"},
		"transport":            {[][]byte{{0, 0, 0, 4, 0, 0, 0, 9}}, "error 9"},
		"no cache":             {[][]byte{kcmReply(0x96c73ac3, "")}, "no such cache"},
		"other error":          {[][]byte{kcmReply(0xffffffff, "")}, "error -1"},
		"name without end":     {[][]byte{kcmReply(0, "x")}, "malformed"},
		"name too long":        {[][]byte{kcmReply(0, strings.Repeat("x", 2000)+"\x00")}, "malformed"},
		"no principal":         {[][]byte{kcmReply(0, "x\x00"), kcmReply(0, "")}, "no such cache"},
		"principal damaged":    {[][]byte{kcmReply(0, "x\x00"), kcmReply(0, madePrincipal[:9])}, "principal is damaged"},
		"half an id":           {[][]byte{kcmReply(0, "x\x00"), princ, kcmReply(0, "123")}, "malformed"},
		"too many ids":         {[][]byte{kcmReply(0, "x\x00"), princ, kcmReply(0, make([]byte, uuidLen*(maxTickets+1)))}, "malformed"},
		"ticket damaged":       {[][]byte{kcmReply(0, "x\x00"), princ, uuid, kcmReply(0, madeTicket[:30])}, "ticket is damaged"},
		"ticket too long":      {[][]byte{kcmReply(0, "x\x00"), princ, uuid, kcmReply(0, append(bytes.Clone(madeTicket), 0))}, "ticket is damaged"},
		"too much one by one":  {[][]byte{kcmReply(0, "x\x00"), princ, kcmReply(0, make([]byte, 1024*uuidLen)), kcmReply(0, longTicket)}, "there may be"},
		"ends before a ticket": {[][]byte{kcmReply(0, "x\x00"), princ, uuid}, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			socket := scriptedKCM(t, func(c net.Conn) {
				var last []byte
				for i := 0; ; i++ {
					head := make([]byte, 4)
					if _, err := io.ReadFull(c, head); err != nil {
						return
					}
					_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)))
					if i < len(tc.replies) {
						last = tc.replies[i]
					} else if !strings.HasPrefix(name, "too much") {
						return
					}
					if _, err := c.Write(last); err != nil || len(last) < 8 {
						return
					}
				}
			})
			self := uint32(os.Geteuid())
			c, err := readKCM(t.Context(), socket, "", self, self)
			if tc.want == "" && (err != nil || c.client.String() != "a@R" || len(c.entries) != 1) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%+v, %v; want %q", c, err, tc.want)
			}
		})
	}
	self := uint32(os.Geteuid())
	if _, err := readKCM(t.Context(), "/nonexistent", "", self, self); err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "kcm_socket") {
		t.Errorf("no server: %v", err)
	}
	for _, name := range []string{"a\x00b", strings.Repeat("x", maxKCMName+1)} {
		if _, err := readKCM(t.Context(), "/nonexistent", name, self, self); err == nil || !strings.Contains(err.Error(), "no name of a cache") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzKCM: nothing that KCM sends makes a client panic.
func FuzzKCM(f *testing.F) {
	f.Add(joined(kcmReply(0, "x\x00"), kcmReply(0, madePrincipal), kcmReply(0, make([]byte, uuidLen)), kcmReply(0, madeTicket)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, sent []byte) {
		k := &kcm{struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(sent), io.Discard}, maxCache}
		c, err := k.cache("")
		if err == nil && len(c.entries) > maxTickets {
			t.Error(fmt.Sprint(len(c.entries), " tickets"))
		}
	})
}
