package mount

import (
	"log/syslog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/internal/journal"
	"github.com/rdmafs/rdmafs/internal/mounttable"
)

// TestLogWithoutSyslog: where there is no syslog, a daemon's messages are in a file of the runtime
// directory, which rdmafs log shows: while it runs, and after it was killed. A mount that
// ends in order leaves none.
func TestLogWithoutSyslog(t *testing.T) {
	if w, err := syslog.New(syslog.LOG_DAEMON, "rdmafs"); err == nil {
		w.Close()
		t.Skip("there is a syslog here")
	}
	if _, err := os.Stat(journal.Socket); err == nil {
		t.Skip("there is a journald here")
	}
	s := startServer(t, serverOptions{mode: 0o1777})
	for name, wrapper := range map[string][]string{"self": nil, "user": asUser(t)} {
		t.Run(name, func(t *testing.T) {
			dir := userDir(t)
			m := Mount(t, s.source(), Options{Dir: dir, Words: s.words("tcp", ""), Wrapper: wrapper})
			shows := func(want string) {
				t.Helper()
				if r := Command(t, wrapper, "log", dir); r.Code != 0 || !strings.Contains(r.Stdout, want) {
					t.Errorf("%+v, want %q", r, want)
				}
			}
			shows("mounted " + s.source())
			if r := Command(t, wrapper, "log", dir, "error"); r.Code != 0 {
				t.Errorf("%+v", r)
			}
			if r := Command(t, nil, "log", dir); r.Code != 0 || !strings.Contains(r.Stdout, "mounted ") {
				t.Errorf("root: %+v", r)
			}
			pid, ended := daemon(t, m)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			ended()
			shows("mounted " + s.source())
			m = Mount(t, s.source(), Options{Dir: dir, Words: s.words("tcp", ""), Wrapper: wrapper})
			m.Umount(t)
			if _, mounted, _ := mounttable.Find(dir); mounted {
				t.Error("still mounted")
			}
			if r := Command(t, wrapper, "log", dir); r.Code == 0 {
				t.Errorf("after the end: %+v", r)
			}
		})
	}
	logfile := filepath.Join(t.TempDir(), "log")
	m := s.mount(t, "tcp", "logfile="+logfile)
	if r := Command(t, nil, "log", "-n", "1", m.Dir); r.Code != 0 || !strings.Contains(r.Stdout, "mounted ") || strings.Count(r.Stdout, "\n") != 1 {
		t.Errorf("%+v", r)
	}
	if st, err := os.Stat(logfile); err != nil || st.Size() == 0 {
		t.Errorf("%v, %v", st, err)
	}
}
