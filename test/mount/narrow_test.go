package mount

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/netns"
)

// TestNarrowPath: over RoCE from a host with jumbo frames to one without, data is
// written and read nevertheless, and doctor and status say what became of the
// path MTU.
func TestNarrowPath(t *testing.T) {
	a, b := netns.Hosts(t, 9000)
	if err := b.Do(func() error { return netns.IP(fmt.Sprintf("link set %s mtu 1500", netns.Link)) }); err != nil {
		t.Fatal(err)
	}
	for _, h := range []netns.Host{a, b} {
		if err := h.Cut(); err != nil {
			t.Fatal(err)
		}
	}
	var s *server
	if err := b.Do(func() error {
		s = startServer(t, serverOptions{host: b.IPv4, client: a.IPv4})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	if err := os.WriteFile(filepath.Join(s.export, "old"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	wrapper := []string{"nsenter", "--net=" + a.Path()}
	report := Doctor(t, wrapper, s.words("rdma", ""), s.source())
	if st := FindStep(t, report, "path MTU"); !report.OK || !strings.Contains(st.Detail, "more than 1024 bytes") {
		t.Errorf("%s: %+v", report.Verdict, st)
	}
	m := Mount(t, s.source(), Options{Words: s.words("rdma", ""), Wrapper: wrapper})
	if err := os.WriteFile(filepath.Join(m.Dir, "new"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(s.export, "new"), filepath.Join(m.Dir, "old")} {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %s, %v", name, firstDifference(got, data), err)
		}
	}
	r := Command(t, nil, "status", m.Dir)
	if r.Code != 0 || !strings.Contains(r.Stdout, "path MTU") || !strings.Contains(r.Stdout, "1024, as larger") {
		t.Errorf("status: %s%s", r.Stdout, r.Stderr)
	}
	m.Umount(t)
}
