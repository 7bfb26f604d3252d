package mount

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rdmafs/rdmafs/internal/doctor"
	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/rpcbindtest"
)

// TestDoctorTriesLocks: the doctor names what keeps locks from working, which the mount
// itself survives, and leaves no lock and no file behind.
func TestDoctorTriesLocks(t *testing.T) {
	var answer atomic.Uint32
	s := startServer(t, serverOptions{mode: 0o777, secure: true, faults: &nfsd.Faults{
		Lock: func(uint32) nlm.Stat { return nlm.Stat(answer.Load()) },
	}})
	closed := closedPort(t)
	try := func(name string, wrapper []string, words string, want doctor.Status, says, remedy string, args ...string) {
		t.Helper()
		report := Doctor(t, wrapper, words, append(args, s.source())...)
		if st := FindStep(t, report, "locks"); st.Status != want || !strings.Contains(st.Detail, says) || !strings.Contains(st.Remedy, remedy) {
			t.Errorf("%s: %+v", name, st)
		}
		if wrapper == nil && !report.OK { // who is not root may not be able to mount here
			t.Errorf("%s: %s", name, report.Verdict)
		}
		left, err := os.ReadDir(s.export)
		if n := s.Locks(); n > 0 || err != nil || len(left) > 1 {
			t.Errorf("%s: the doctor left %d locks and %v, %v", name, n, left, err)
		}
	}
	if os.Geteuid() == 0 {
		try("over rdma", nil, s.words("rdma", ""), doctor.OK, "taken and given back", "")
		try("over tcp", nil, s.words("tcp", ""), doctor.OK, "taken and given back", "")
		if s.Stats().Locks["LOCK"] != 2 {
			t.Errorf("calls of NLM: %v", s.Stats().Locks)
		}
		before := s.Stats().Locks["LOCK"]
		try("nothing there", nil, s.words("tcp", ""), doctor.Skipped, "the lock manager answers", "", "--no-write")
		if err := os.WriteFile(filepath.Join(s.export, "file"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		try("of a file that is there", nil, s.words("tcp", "ro"), doctor.OK, "none was taken", "")
		if now := s.Stats().Locks; now["LOCK"] != before {
			t.Errorf("a file of somebody else's was locked: %v", now)
		}
		try("of a user, and an export without insecure", nobody, s.words("rdma", ""), doctor.Warning, "refused", "export it with insecure")
		answer.Store(uint32(nlm.DeniedNoLocks))
		try("no rpc.statd", nil, s.words("rdma", ""), doctor.Warning, "cannot keep locks", "rpc.statd")
		answer.Store(uint32(nlm.Granted))
	}
	before := fmt.Sprint(s.Stats().Locks)
	try("local", nil, s.words("rdma", "nolock"), doctor.Skipped, "local to the mount", "")
	try("local", nil, s.words("rdma", "local_lock=all"), doctor.Skipped, "local to the mount", "")
	try("nobody listens", nil, s.words("rdma", fmt.Sprintf("nlmport=%d", closed)), doctor.Warning, "refused", "nfs-server")
	if now := fmt.Sprint(s.Stats().Locks); now != before {
		t.Errorf("calls of NLM: %s, before %s", now, before)
	}

	ln, err := net.Listen("tcp", "127.0.0.1:111")
	if err != nil {
		t.Skip("port 111 cannot be had:", err)
	}
	ln.Close()
	rpcbindtest.Start(t, "127.0.0.1:111")
	asked := fmt.Sprintf("port=%d,mountport=%d", s.rdma.Port(), s.tcp.Port())
	try("not registered", nil, asked, doctor.Warning, "no lock manager", "nlmport=")
}
