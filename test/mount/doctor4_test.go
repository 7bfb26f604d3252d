package mount

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// doctor4: each way in which a server of version 4 refuses a mount, or something of it, is found in the step that it
// belongs to, with its cure; and the mount fails where the doctor says so.
func doctor4(t *testing.T, s *server4) {
	trialsIn(t, t.TempDir())
	proxy, port := startScripted(t, netip.MustParseAddrPort("127.0.0.1:2049"), nil)
	const source = "127.0.0.1:/export/data"
	words := func(more string) string { return fmt.Sprintf("proto=tcp,port=%d,timeo=50,%s", port, more) }
	t.Run("all well", func(t *testing.T) {
		proxy.play(nil)
		report := Doctor(t, nil, words("vers=4.2"), source)
		for _, step := range []string{"client ID", "session", "reclaim", "pseudo root", "path", "admission", "openings", "owners", "transfer of 1024 KiB", "locks", "trial mount"} {
			if st := FindStep(t, report, step); st.Status != doctor.OK {
				t.Errorf("%+v", st)
			}
		}
	})
	// owned refuses whatever names an owner.
	owned := func(c *wire.Compound, i, _ int) wire.Status {
		if set, ok := c.Ops[i].(*wire.SetAttr); ok && set.Attrs.Mask.Has(wire.AttrOwner) {
			return wire.ErrBadOwner
		}
		return wire.OK
	}
	for _, c := range []struct {
		name, words, source string
		script              script
		step                string
		status              doctor.Status
		says, remedy        string
	}{
		{"minor version", "vers=4.2", source, refuse(wire.OpExchangeID, wire.ErrMinorVersMismatch), "client ID", doctor.Failure, "MINOR_VERS_MISMATCH", "vers=auto"},
		{"minor version, another", "vers=4", source, func(c *wire.Compound, i, _ int) wire.Status {
			if c.Minor == 2 {
				return wire.ErrMinorVersMismatch
			}
			return wire.OK
		}, "client ID", doctor.OK, "MINOR_VERS_MISMATCH", ""},
		{"client ID in use", "vers=4.2", source, refuse(wire.OpExchangeID, wire.ErrClientIDInUse), "client ID", doctor.Failure, "CLID_INUSE", "lease time"},
		{"client ID in use by a session", "vers=4.1", source, refuse(wire.OpCreateSession, wire.ErrClientIDInUse), "session", doctor.Failure, "CLID_INUSE", "lease time"},
		{"no memory", "vers=4.1", source, refuse(wire.OpCreateSession, nfsclient.ErrNoSpace), "session", doctor.Failure, "NOSPC", "memory"},
		{"delay", "vers=4.1", source, refuse(wire.OpCreateSession, nfsclient.ErrJukebox), "session", doctor.Failure, "DELAY", "mountd"},
		{"security of the root", "vers=4.2", source, refuse(wire.OpPutRootFH, wire.ErrWrongSec), "pseudo root", doctor.Failure, "WRONGSEC", "sec="},
		{"security of the export", "vers=4.2", source, refuse(wire.OpLookup, wire.ErrWrongSec), "path", doctor.Failure, "WRONGSEC", "sec="},
		{"host not let in", "vers=4.2", source, refuse(wire.OpLookup, nfsclient.ErrAccess), "path", doctor.Failure, "ACCESS", "/etc/exports"},
		{"no such path", "vers=4.2", "127.0.0.1:/export/none", nil, "path", doctor.Failure, "/export/none", "pseudo file system"},
		{"moved", "vers=4.2", source, refuse(wire.OpLookup, wire.ErrMoved), "path", doctor.Failure, "MOVED", "moved"},
		{"grace", "vers=4.2", source, refuse(wire.OpOpen, wire.ErrGrace), "openings", doctor.Warning, "grace period", "restarted"},
		{"grace that ends", "vers=4.2", source, func(c *wire.Compound, i, seen int) wire.Status {
			if c.Ops[i].Op() == wire.OpOpen && seen < 2 {
				return wire.ErrGrace
			}
			return wire.OK
		}, "openings", doctor.OK, "has ended", ""},
		{"owners", "vers=4.2", source, owned, "owners", doctor.Warning, "BADOWNER", "idmapd.conf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			proxy.play(c.script)
			report := Doctor(t, nil, words(c.words), c.source)
			st := FindStep(t, report, c.step)
			if st.Status != c.status || !strings.Contains(st.Detail, c.says) || !strings.Contains(st.Remedy, c.remedy) {
				t.Errorf("%+v, want %s, %q, %q", st, c.status, c.says, c.remedy)
			}
			if want := c.status != doctor.Failure; report.OK != want {
				t.Errorf("%v: %s", report.OK, report.Verdict)
			}
			if c.status == doctor.Failure && !strings.HasPrefix(report.Verdict, "mount would fail: "+c.step+": ") {
				t.Errorf("verdict %q", report.Verdict)
			}
			dir := t.TempDir()
			r := Command(t, nil, "mount", c.source, dir, "-o", "retry=0,"+words(c.words))
			proxy.play(nil)
			if r.Code == 0 {
				(&Mounted{Dir: dir}).Umount(t)
			}
			if (r.Code == 0) != report.OK {
				t.Errorf("mount ended with %d: %s; the doctor: %s", r.Code, r.Stderr, report.Verdict)
			}
		})
	}
	proxy.play(nil)
	emptied(t, s.data)
}
