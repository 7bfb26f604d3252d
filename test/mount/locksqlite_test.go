package mount

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestSQLite: inserts that SQLite has acknowledged are all there, from processes on two
// mounts that write to one database, whose file it locks by fcntl.
func TestSQLite(t *testing.T) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip("SKIP: the program sqlite3 is not there")
	}
	s := startServer(t, serverOptions{})
	a, b := s.mount(t, "rdma", ""), s.mount(t, "tcp", "")
	sql := func(m *Mounted, statements string) (string, error) {
		out, err := exec.Command("sqlite3", "-cmd", ".timeout 90000", filepath.Join(m.Dir, "db"), statements).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := sql(a, "create table t(who, n)"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	const writers, inserts = 4, 8
	var wg sync.WaitGroup
	for k := range writers {
		m := a
		if k%2 == 1 {
			m = b
		}
		wg.Go(func() {
			for n := range inserts {
				if out, err := sql(m, fmt.Sprintf("insert into t values(%d, %d)", k, n)); err != nil {
					t.Errorf("writer %d, insert %d: %s, %v", k, n, out, err)
				}
			}
		})
	}
	wg.Wait()
	for _, m := range []*Mounted{a, b} {
		if out, err := sql(m, "select count(distinct who * 1000 + n) from t"); err != nil || out != strconv.Itoa(writers*inserts) {
			t.Errorf("%s rows of %d, %v", out, writers*inserts, err)
		}
		if out, err := sql(m, "pragma integrity_check"); err != nil || out != "ok" {
			t.Errorf("integrity: %s, %v", out, err)
		}
	}
}
