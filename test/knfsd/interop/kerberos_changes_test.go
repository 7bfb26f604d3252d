//go:build knfsd

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/realm"
)

// kerberosMounts is the guest, a realm in its network, and a cache of tickets for root, who
// is tester there, alice and bob. User 1003 has none.
type kerberosMounts struct {
	g *knfsd.Guest
	r *realm.Realm
}

var ticketsOf = map[string]int{"tester": 0, "alice": 1001, "bob": 1002}

func startKerberosMounts(t *testing.T) *kerberosMounts {
	t.Helper()
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, ExportOptions: kerberosExport, DiskMiB: 1024})
	guest(t, g, "chmod 1777 /export")
	hosts := filepath.Join(t.TempDir(), "hosts")
	text := fmt.Sprintf("127.0.0.1 localhost\n%v %s\n", g.GuestAddr(), guestName)
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/etc/hosts", 0); err != nil {
			t.Error(err)
		}
	})
	k := &kerberosMounts{g, kerberize(t, g, inNamespace(g)...)}
	t.Setenv("KRB5_CONFIG", k.r.Conf())
	k.r.AddUser("tester", "secret")
	for user := range ticketsOf {
		k.kinit(user, time.Hour)
	}
	return k
}

func (k *kerberosMounts) cache(user string) string {
	return k.r.Path(fmt.Sprint("cc_", ticketsOf[user]))
}

func (k *kerberosMounts) kinit(user string, life time.Duration) {
	k.r.Kinit(user, "secret", k.cache(user), life)
	k.r.Give(ticketsOf[user], ticketsOf[user], k.cache(user))
}

func (k *kerberosMounts) mount(t *testing.T, words string) *mount.Mounted {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != "/tmp"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(t.TempDir(), "log")
	t.Cleanup(func() {
		if t.Failed() {
			said, err := os.ReadFile(log)
			t.Logf("log of the mount: %v\n%s", err, said)
		}
	})
	m := mount.Mount(t, guestName+":/export", mount.Options{
		Words:   words + ",allow_other,logfile=" + log + ",krb5_ccache=FILE:" + k.r.Path("cc_%{uid}"),
		Wrapper: inNamespace(k.g), Dir: dir,
	})
	endWithGuest(t, k.g, m)
	return m
}

// as runs a user's shell command.
func as(uid int, command string) ([]byte, error) {
	id := strconv.Itoa(uid)
	return exec.Command("setpriv", "--reuid="+id, "--regid="+id, "--clear-groups", "sh", "-c", command).CombinedOutput()
}

// sum is the guest's sum of a file of the export, and its owner.
func (k *kerberosMounts) sum(t *testing.T, name string) (sum, owner string) {
	t.Helper()
	f := strings.Fields(guest(t, k.g, "sha256sum /export/"+name+"; stat -c %u /export/"+name))
	return f[0], f[2]
}

// TestKerberosChangesLinuxServer: what may happen to tickets and contexts while mounts of the Linux
// server are used, and what a record of those shows; and mounts over rxe, which only a Tap network
// has.
func TestKerberosChangesLinuxServer(t *testing.T) {
	knfsd.NeedAll(t)
	k := startKerberosMounts(t)
	content := filepath.Join(t.TempDir(), "content")
	run := exec.Command("sh", "-c", "head -c 3000000 /dev/urandom >"+content+" && chmod 755 "+filepath.Dir(content)+" "+filepath.Dir(filepath.Dir(content)))
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, way := range tapWays[2:] {
		for _, vers := range []string{"3", "4.2"} {
			for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
				t.Run(fmt.Sprintf("%s v%s %s", way.name, vers, sec), func(t *testing.T) {
					m := k.mount(t, way.words+",vers="+vers+",sec="+sec)
					for _, user := range []string{"alice", "bob"} {
						file := filepath.Join(m.Dir, user)
						if out, err := as(ticketsOf[user], "umask 077; cp "+content+" "+file+" && cmp "+content+" "+file); err != nil {
							t.Fatalf("%s: %v: %s", user, err, out)
						}
						if err := mount.DropCache(file); err != nil && !os.IsPermission(err) {
							t.Fatal(err)
						}
						if out, err := as(ticketsOf[user], "cmp "+content+" "+file+" && ls -l "+m.Dir); err != nil {
							t.Errorf("%s reads: %v: %s", user, err, out)
						}
						if _, owner := k.sum(t, user); owner != strconv.Itoa(ticketsOf[user]) {
							t.Errorf("%s's file belongs to %s", user, owner)
						}
					}
					for uid, command := range map[int]string{ticketsOf["bob"]: "cat " + m.Dir + "/alice", 1003: "ls " + m.Dir} {
						if out, err := as(uid, command); err == nil || !bytes.Contains(out, []byte("Permission denied")) {
							t.Errorf("user %d: %s: %v: %s", uid, command, err, out)
						}
					}
					m.Umount(t)
					guest(t, k.g, "rm /export/alice /export/bob")
				})
			}
		}
	}
	for _, vers := range []string{"3", "4.2"} {
		t.Run("v"+vers+" contexts lost", func(t *testing.T) { k.contextsLost(t, vers) })
		t.Run("v"+vers+" ticket expires", func(t *testing.T) { k.ticketExpires(t, vers) })
		t.Run("v"+vers+" many calls", func(t *testing.T) { k.manyCalls(t, vers) })
	}
	t.Run("v4.2 behind data", func(t *testing.T) { k.behindData(t) })
	t.Run("record", func(t *testing.T) { k.record(t) })
}

// appender is alice's process that appends to a file until it is told to end.
type appender struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	stop string
}

// piece is what an appender appends each time: 64 KiB. The shell itself writes it: cat(1) asks for the file's attributes
// first, which fails without a ticket.
const piece = "yes 0123456789abcdef | head -c 65536"

func startAppender(t *testing.T, file string) *appender {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != "/tmp"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	w := &appender{stop: filepath.Join(dir, "stop")}
	// The pause bounds what is written while a ticket's end is waited for.
	w.cmd = exec.Command("setpriv", "--reuid=1001", "--regid=1001", "--clear-groups", "sh", "-c",
		"p=$("+piece+"); exec 3>"+file+" || exit 1; n=0; while [ ! -e "+w.stop+" ]; do printf %s \"$p\" >&3 || exit 2; n=$((n+1)); sleep 0.05; done; exec 3>&- || exit 3; echo $n")
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.out
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// end ends it, and returns how many pieces it has written.
func (w *appender) end(t *testing.T) int {
	t.Helper()
	if err := os.WriteFile(w.stop, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(4*time.Minute, func() { _ = w.cmd.Process.Kill() })
	defer guard.Stop()
	if err := w.cmd.Wait(); err != nil {
		t.Fatalf("the appender: %v: %s", err, w.out.String())
	}
	n, err := strconv.Atoi(strings.TrimSpace(w.out.String()))
	if err != nil || n == 0 {
		t.Fatalf("the appender says %q", w.out.String())
	}
	return n
}

// written checks that the guest has all that an appender has written.
func (k *kerberosMounts) written(t *testing.T, name string, n int) {
	t.Helper()
	want := guest(t, k.g, fmt.Sprintf("p=$(mktemp); %s >$p; for i in $(seq %d); do cat $p; done | sha256sum", piece, n))
	if got, _ := k.sum(t, name); got != strings.Fields(want)[0] {
		t.Errorf("of %d pieces the guest has %s", n, guest(t, k.g, "ls -l /export/"+name))
	}
	t.Logf("%d pieces", n)
}

// behindData: this server takes the end of an encrypted compound's data for the next operation. None is sent there:
// nothing fails, attributes are known, and all data is whole.
func (k *kerberosMounts) behindData(t *testing.T) {
	m := k.mount(t, "proto=tcp,sec=krb5p,vers=4.2")
	file := filepath.Join(m.Dir, "behind")
	out, err := as(1001, piece+" >"+file+" && chmod 666 "+file)
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if got, want := guest(t, k.g, "sha256sum </export/behind"), guest(t, k.g, piece+" | sha256sum"); got != want {
		t.Errorf("the guest has %s", guest(t, k.g, "ls -l /export/behind"))
	}
	// More than a request's first page has room for, and no more than ext4 takes.
	value := bytes.Repeat([]byte("0123456789abc"), 300)
	if err := unix.Setxattr(file, "user.long", value, 0); err != nil {
		t.Error(err)
	}
	got := make([]byte, len(value)+1)
	if n, err := unix.Getxattr(file, "user.long", got); err != nil || !bytes.Equal(got[:n], value) {
		t.Errorf("%d bytes of an attribute's value, %v", n, err)
	}
	r := mount.Command(t, inNamespace(k.g), "stats", "--json", m.Dir)
	var report struct {
		Procedures []struct {
			Procedure     string
			Calls, Errors int
		}
	}
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		t.Fatalf("%v in %q", err, r.Stdout)
	}
	seen := 0
	for _, p := range report.Procedures {
		if p.Procedure == "WRITE" || p.Procedure == "SETXATTR" {
			if seen++; p.Calls == 0 || p.Errors > 0 {
				t.Errorf("%d of %d calls of %s have failed", p.Errors, p.Calls, p.Procedure)
			}
		}
	}
	if seen != 2 {
		t.Errorf("the procedures are %+v", report.Procedures)
	}
	m.Umount(t)
	guest(t, k.g, "rm /export/behind")
}

// contextsLost: the server forgets every context, and restarts; the user destroys his
// ticket and gets another.
func (k *kerberosMounts) contextsLost(t *testing.T, vers string) {
	m := k.mount(t, "proto=tcp,sec=krb5p,vers="+vers)
	w := startAppender(t, filepath.Join(m.Dir, "lost"))
	for range 3 {
		guest(t, k.g, "sleep 1; date -d +1min +%s >/proc/net/rpc/auth.rpcsec.context/flush")
	}
	k.r.Kdestroy(k.cache("alice"))
	guest(t, k.g, "sleep 1; date -d +1min +%s >/proc/net/rpc/auth.rpcsec.context/flush; sleep 1")
	k.kinit("alice", time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := k.g.RestartServer(ctx); err != nil {
		t.Fatal(err)
	}
	guest(t, k.g, "sleep 1")
	k.written(t, "lost", w.end(t))
	m.Umount(t)
}

// ticketExpires: a ticket ends under a writer; what it has written waits for the next.
func (k *kerberosMounts) ticketExpires(t *testing.T, vers string) {
	k.kinit("alice", 10*time.Second)
	end := time.Now().Add(10 * time.Second)
	m := k.mount(t, "proto=tcp,sec=krb5i,vers="+vers)
	w := startAppender(t, filepath.Join(m.Dir, "expired"))
	time.Sleep(time.Until(end) + 3*time.Second)
	if out, err := as(1001, "touch "+m.Dir+"/after"); err == nil || !bytes.Contains(out, []byte("Permission denied")) {
		t.Errorf("after the end of the ticket: %v: %s", err, out)
	}
	k.kinit("alice", time.Hour)
	k.written(t, "expired", w.end(t))
	if out, err := as(1001, "touch "+m.Dir+"/after"); err != nil {
		t.Errorf("with another ticket: %v: %s", err, out)
	}
	m.Umount(t)
}

// manyCalls has 64 processes read and write over four connections.
func (k *kerberosMounts) manyCalls(t *testing.T, vers string) {
	m := k.mount(t, "proto=tcp,sec=krb5p,nconnect=4,vers="+vers)
	script := piece + " >p$1 && for i in 1 2 3 4 5; do cat p$1 >>f$1; done && sync f$1 && [ $(stat -c %s f$1) = 327680 ] && ls >/dev/null && rm p$1 f$1"
	out, err := as(1001, "mkdir "+m.Dir+"/many && cd "+m.Dir+"/many && seq 64 | xargs -P 64 -n 1 sh -c '"+script+"' sh && ls | wc -l && cd .. && rmdir many")
	if err != nil || strings.TrimSpace(string(out)) != "0" {
		t.Errorf("%v: %s", err, out)
	}
	m.Umount(t)
}

// secret is what a recorded file says.
const secret = "the secret that krb5p keeps"

// record has a record show what krb5i does not hide and krb5p does, and tshark read it.
func (k *kerberosMounts) record(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skipf("needs tshark: %v", err)
	}
	for _, vers := range []string{"3", "4.2"} {
		for sec, service := range map[string]string{"krb5": "1", "krb5i": "2", "krb5p": "3"} {
			file := filepath.Join(t.TempDir(), "kerberos.pcap")
			r := k.g.Record(t, file)
			m := k.mount(t, "proto=tcp,vers="+vers+",sec="+sec)
			name := filepath.Join(m.Dir, "recorded")
			if out, err := as(1001, "yes '"+secret+"' | head -c 100000 >"+name+" && sync "+name); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			m.Umount(t)
			r.Stop(t)
			guest(t, k.g, "rm /export/recorded")
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if shown := bytes.Contains(b, []byte(secret)); shown != (sec != "krb5p") {
				t.Errorf("v%s %s: the file's text is in the record: %v", vers, sec, shown)
			}
			shown := bytes.Contains(b, []byte("recorded"))
			if shown != (sec != "krb5p") {
				t.Errorf("v%s %s: the file's name is in the record: %v", vers, sec, shown)
			}
			var said bytes.Buffer
			cmd := exec.Command(tshark, "-n", "-r", file, "-Y", "rpc.authgss.procedure", "-T", "fields", "-e", "rpc.authgss.procedure", "-e", "rpc.authgss.service", "-e", "_ws.malformed")
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("tshark: %v: %s", err, said.String())
			}
			seen := map[string]int{}
			for line := range strings.Lines(string(out)) {
				f := strings.Split(strings.TrimRight(line, "\n"), "\t")
				procs, services := strings.Split(f[0], ","), strings.Split(f[1], ",")
				if len(f) != 3 || len(procs) != len(services) || f[2] != "" {
					t.Errorf("v%s %s: tshark says %q", vers, sec, line)
					continue
				}
				for i, p := range procs {
					seen[p]++
					if services[i] != service {
						t.Errorf("v%s %s: a call with service %s", vers, sec, services[i])
					}
				}
			}
			t.Logf("v%s %s: %v", vers, sec, seen)
			// Contexts of root and alice are made, used and destroyed.
			if seen["0"] == 0 || seen["1"] < 2 || seen["3"] < 2 {
				t.Errorf("v%s %s: procedures %v", vers, sec, seen)
			}
		}
	}
}
