package mount

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
)

// auto4: vers=auto takes the highest version that a server has. One that refuses version 4, or the export by it, is mounted
// with version 3; one that does not answer is not.
func auto4(t *testing.T, s *server4) {
	trialsIn(t, t.TempDir())
	// The server of version 3 exports a directory by its own path, which the pseudo file system of version 4 does not have.
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	old, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: dir, Squash: nfsd.SquashNone}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := old.Close(); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	alone, err := old.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	both, port := startScripted(t, netip.MustParseAddrPort("127.0.0.1:2049"), old.Handler())
	const data = "/export/data"
	minor := func(from uint32) script {
		return func(c *wire.Compound, i, _ int) wire.Status {
			if c.Minor >= from && c.Ops[i].Op() == wire.OpExchangeID {
				return wire.ErrMinorVersMismatch
			}
			return wire.OK
		}
	}
	for _, c := range []struct {
		name   string
		path   string
		port   int
		script script
		want   string // the version; "" if it cannot be mounted
		says   string // the log, or the error
	}{
		{"4 and 3", data, port, nil, "4.2", "version 4.2 is used"},
		{"4.1 and 3", data, port, minor(2), "4.1", "version 4.1 is used"},
		{"4.0 and 3", dir, port, minor(0), "3", "MINOR_VERS_MISMATCH"},
		{"the path is one of version 3", dir, port, nil, "3", "not with NFS version 4"},
		{"security", dir, port, refuse(wire.OpLookup, wire.ErrWrongSec), "3", "not with NFS version 4"},
		{"not let in by version 4", dir, port, refuse(wire.OpLookup, nfsclient.ErrPerm), "3", "not with NFS version 4"},
		{"3 alone", dir, int(alone.Port()), nil, "3", "version 3 is used"},
		{"no such path", "/export/none", port, nil, "", "127.0.0.1:/export/none: server has no such export: no such directory (server exports: " + dir + ")"},
		{"4 alone", data, 2049, nil, "4.2", "version 4.2 is used"},
		{"4 alone and no such path", "/export/none", 2049, nil, "", "pseudo file system"},
		{"no session", data, port, refuse(wire.OpCreateSession, nfsclient.ErrNoSpace), "", "NOSPC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			both.play(c.script)
			source := "127.0.0.1:" + c.path
			words := fmt.Sprintf("proto=tcp,vers=auto,nolock,port=%d,mountport=%d,timeo=50", c.port, c.port)
			if report := Doctor(t, nil, words, source); report.OK != (c.want != "") {
				t.Errorf("the doctor: %s", report.Verdict)
			} else if st := FindStep(t, report, "trial mount"); report.OK && (st.Status != doctor.OK || !strings.HasSuffix(st.Detail, "NFS version "+c.want)) {
				t.Errorf("the doctor: %+v", st)
			}
			at, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
			r := Command(t, nil, "mount", source, at, "-o", "retry=0,logfile="+log+","+words)
			if (r.Code == 0) != (c.want != "") {
				t.Errorf("exit code %d: %s", r.Code, r.Stderr)
			}
			said := r.Stderr
			if r.Code == 0 {
				m := &Mounted{Dir: at}
				if got := reports(t, m)[0].Version; got != c.want {
					t.Errorf("version %s, want %s", got, c.want)
				}
				Exercise(t, at)
				both.play(nil)
				m.Umount(t)
				b, err := os.ReadFile(log)
				if err != nil {
					t.Fatal(err)
				}
				said = string(b)
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("no %q in %s", c.says, said)
			}
		})
	}
	t.Run("no version named", func(t *testing.T) {
		both.play(nil)
		for _, c := range []struct{ path, more, want string }{{data, "", "4.2"}, {dir, fmt.Sprintf(",mountport=%d", port), "3"}} {
			at := t.TempDir()
			words := fmt.Sprintf("proto=tcp,nolock,retry=0,timeo=50,port=%d%s", port, c.more)
			if r := Command(t, nil, "mount", "127.0.0.1:"+c.path, at, "-o", words); r.Code != 0 {
				t.Errorf("%s: exit code %d: %s", words, r.Code, r.Stderr)
				continue
			}
			m := &Mounted{Dir: at}
			if got := reports(t, m)[0].Version; got != c.want {
				t.Errorf("%s: version %s, want %s", words, got, c.want)
			}
			m.Umount(t)
		}
	})
	t.Run("silent", func(t *testing.T) {
		both.silent.Store(true)
		defer both.silent.Store(false)
		begin := time.Now()
		r := Command(t, nil, "mount", "127.0.0.1:"+dir, t.TempDir(), "-o", fmt.Sprintf("proto=tcp,vers=auto,nolock,retry=0,port=%d,mountport=%d,timeo=20", port, port))
		if r.Code == 0 || strings.Contains(r.Stderr, "version 3") || time.Since(begin) < 2*time.Second {
			t.Errorf("exit code %d after %v: %s", r.Code, time.Since(begin), r.Stderr)
		}
	})
	emptied(t, s.data)
}
