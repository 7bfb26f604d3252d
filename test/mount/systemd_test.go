package mount

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// unitValue is the value of a key of a unit, "" if it is not there.
func unitValue(unit, key string) string {
	for line := range strings.Lines(unit) {
		if v, is := strings.CutPrefix(line, key+"="); is {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// verifyUnits has systemd read units; it complains of what it does not know.
func verifyUnits(t *testing.T, paths ...string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze")
	}
	cmd := exec.Command("systemd-analyze", append([]string{"--man=no", "verify"}, paths...)...)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "rdmafs") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestSystemdAutomount: of lines of fstab with x-systemd.automount systemd's generator makes units that
// systemd takes, and the mount(8) command that they stand for mounts.
func TestSystemdAutomount(t *testing.T) {
	const generator = "/usr/lib/systemd/system-generators/systemd-fstab-generator"
	if _, err := os.Stat(generator); err != nil {
		t.Skip("needs systemd's " + generator)
	}
	s := startServer(t, serverOptions{})
	dir := t.TempDir()
	table := filepath.Join(dir, "fstab")
	h := newHelped(t, "", "mount.rdmafs", "mount.fuse.rdmafs")
	var want []string
	fstab := ""
	for _, kind := range []string{"rdmafs", "fuse.rdmafs"} {
		at := filepath.Join(dir, kind)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		want = append(want, at)
		fstab += fmt.Sprintf("%s %s %s noauto,x-systemd.automount,x-systemd.idle-timeout=10min,x-systemd.requires=network-online.target,_netdev,nofail,%s 0 0\n", s.source(), at, kind, s.words("tcp", ""))
	}
	if err := os.WriteFile(table, []byte(fstab), 0o644); err != nil {
		t.Fatal(err)
	}
	var into []string
	for _, name := range []string{"normal", "early", "late"} {
		into = append(into, filepath.Join(dir, name))
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(generator, into...)
	cmd.Env = append(os.Environ(), "SYSTEMD_FSTAB="+table)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	automounts, err := filepath.Glob(filepath.Join(into[0], "*.automount"))
	if err != nil || len(automounts) != 2 {
		t.Fatalf("%q, %v", automounts, err)
	}
	mounts, err := filepath.Glob(filepath.Join(into[0], "*.mount"))
	if err != nil || len(mounts) != 2 {
		t.Fatalf("%q, %v", mounts, err)
	}
	verifyUnits(t, append(automounts, mounts...)...)
	for _, name := range mounts {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		unit := string(b)
		what, where := unitValue(unit, "What"), unitValue(unit, "Where")
		h.must(nil, "mount", what, where, "-t", unitValue(unit, "Type"), "-o", unitValue(unit, "Options"))
		if !h.mounted(where) {
			t.Errorf("%s is not mounted", where)
		}
		h.must(nil, "umount", where)
		if what != s.source() || where != want[0] && where != want[1] {
			t.Errorf("%s on %s", what, where)
		}
	}
}

// TestUnits: systemd takes the units of the packages and the examples.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	var all []string
	for from, to := range map[string]string{"systemd/rdmafs@.service": "rdmafs@srv-data.service", "systemd/rdmafs-exporter.service": "rdmafs-exporter.service",
		"examples/srv-data.mount": "srv-data.mount", "examples/srv-data.automount": "srv-data.automount"} {
		b, err := os.ReadFile(filepath.Join("../../packaging", from))
		if err != nil {
			t.Fatal(err)
		}
		unit := strings.ReplaceAll(string(b), "/usr/bin/rdmafs", Binary(t))
		all = append(all, filepath.Join(dir, to))
		if err := os.WriteFile(all[len(all)-1], []byte(unit), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verifyUnits(t, all...)
}

// TestExporterUnit: with the capabilities that its unit leaves it, the exporter knows the mounts of all
// users.
func TestExporterUnit(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, as which the unit runs")
	}
	b, err := os.ReadFile("../../packaging/systemd/rdmafs-exporter.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(b)
	set := "-all"
	for name := range strings.FieldsSeq(unitValue(unit, "CapabilityBoundingSet")) {
		set += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	s := startServer(t, serverOptions{mode: 0o1777})
	roots := s.mount(t, "tcp", "")
	users := Mount(t, s.source(), Options{Dir: userDir(t), Words: s.words("tcp", ""), Wrapper: asUser(t)})
	line := []string{"--bounding-set=" + set, "--inh-caps=-all", "--no-new-privs", Binary(t), "exporter", "--listen", "127.0.0.1:0"}
	if got := unitValue(unit, "ExecStart"); !strings.HasPrefix(got, "/usr/bin/rdmafs exporter --listen") {
		t.Errorf("the unit runs %s", got)
	}
	cmd := exec.Command("setpriv", line...)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(said).ReadString('\n')
	at := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(first)
	if at == "" {
		t.Fatalf("%q, %v", first, err)
	}
	r, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Mounted{roots, users} {
		if !regexp.MustCompile(`rdmafs_\w*calls\w*\{[^}]*` + regexp.QuoteMeta(m.Dir)).Match(text) {
			t.Errorf("nothing of %s", m.Dir)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
