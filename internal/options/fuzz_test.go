package options

import (
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/source"
)

// FuzzOptions: whatever stands behind -o is taken or refused with one line that
// names the option; what is taken keeps to the bounds that --help gives.
func FuzzOptions(f *testing.F) {
	for _, words := range []string{
		"", ",", "=", "proto=tcp", "rdma,port=20049,vers=3", "rsize=1048576,wsize=4096", "msgp=4:1024,ccp",
		"acregmin=3,acregmax=2", "actimeo=0,noac", "srcaddr=fe80::1%eth0", "x-systemd.automount,nofail,comment=a b",
		"timeo=36000,retrans=1000,nconnect=16", "nosuid,nodev,allow_other", "rdmadev=,rdma=", "remount", "sec=krb5",
		"port=99999999999999999999", "inline=-1", "\x00", "ro\n,rw",
	} {
		f.Add(words)
	}
	f.Fuzz(func(t *testing.T, words string) {
		o, err := Parse([]string{words})
		if err != nil {
			if line := plain.OneLine(err); line == "" || strings.ContainsAny(line, "\n\r") {
				t.Fatalf("%q is refused with %q", words, line)
			}
			return
		}
		between := func(name string, n, low, high int) {
			if n < low || n > high {
				t.Errorf("%q: %s is %d", words, name, n)
			}
		}
		if o.RSize != 0 {
			between("rsize", o.RSize, 1024, 1<<20)
		}
		if o.WSize != 0 {
			between("wsize", o.WSize, 1024, 1<<20)
		}
		between("nconnect", o.NConnect, 1, 16)
		between("inline", o.Inline, 1024, 65536)
		between("retrans", o.Retrans, 0, 1000)
		between("timeo", int(o.Timeo/time.Millisecond), 100, 3600_000)
		if o.AcRegMin > o.AcRegMax || o.AcDirMin > o.AcDirMax || o.AcRegMin < 0 || o.AcDirMin < 0 {
			t.Errorf("%q: attributes are believed from %v to %v and from %v to %v", words, o.AcRegMin, o.AcRegMax, o.AcDirMin, o.AcDirMax)
		}
		if o.SrcAddr.IsValid() && o.SrcAddr.IsUnspecified() {
			t.Errorf("%q: the address to connect from is %v", words, o.SrcAddr)
		}
	})
}

// FuzzFstab: the first four fields of an fstab line, as mount(8) hands them to
// a helper: the source and the mount point as they are, the options behind -o.
func FuzzFstab(f *testing.F) {
	for _, line := range []string{
		"server:/export /mnt fuse.rdmafs _netdev,proto=rdma 0 0",
		"[fe80::1%eth0]:/ /m fuse.rdmafs defaults 0 0",
		"10.0.0.5:/a:b /m fuse.rdmafs ro", ":/x /m fuse.rdmafs rw", "server /m", "[::1:/x / t o", "a:b:c /m t o", "[]:/ / / /",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			return
		}
		s, err := source.Parse(fields[0])
		if err == nil && (s.Host == "" || !strings.HasPrefix(s.Export, "/") || s.Text != fields[0]) {
			t.Errorf("%q: server %q, export %q", fields[0], s.Host, s.Export)
		}
		_, _ = Parse(fields[3:4])
	})
}
