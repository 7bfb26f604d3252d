package mount

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/realm"
)

// TestKerberosManyCalls: 64 processes of one user read and write over four connections, while the server forgets
// its contexts and cuts the connections again and again. It does not forget its replies: a REMOVE that was carried out
// is told so when it is sent again, by another context.
func TestKerberosManyCalls(t *testing.T) {
	k := startKerberos(t, nfsd.SecKrb5p)
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			if proto != "rdma" {
				needAll(t)
			}
			m := k.mountFor(t, proto, "sec=krb5p,nconnect=4")
			dir := filepath.Join(m.Dir, "many")
			script := "head -c 65536 /dev/zero | tr '\\0' $1 >p$1 && for i in 1 2 3 4 5; do cat p$1 >>f$1 && cmp -n 65536 p$1 f$1 || exit 255; done && " +
				"[ $(stat -c %s f$1) = 327680 ] && rm p$1 f$1"
			line := append(as(realmUsers["alice"]), "sh", "-c", "mkdir "+dir+" && cd "+dir+" && seq 64 | xargs -P 64 -n 1 sh -c '"+script+"' sh && cd .. && rmdir many")
			var out bytes.Buffer
			cmd := exec.Command(line[0], line[1:]...)
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			runWait := func() { ended <- cmd.Wait() }
			go runWait()
			cuts := 0
			for over := false; !over; {
				select {
				case err := <-ended:
					if err != nil {
						t.Errorf("%v: %s", err, out.String())
					}
					over = true
				case <-time.After(200 * time.Millisecond):
					if cuts < 5 {
						k.ForgetContexts()
						<-k.Cut()
						cuts++
					}
				}
			}
			if t.Logf("the server has cut its clients off %d times", cuts); cuts == 0 {
				t.Error("nothing has disturbed the calls")
			}
			m.Umount(t)
		})
	}
}

// TestTicketExpires: a ticket of seconds ends under a process that writes. What it has
// written waits for another ticket.
func TestTicketExpires(t *testing.T) {
	k := startKerberos(t, nfsd.SecKrb5i)
	id := realmUsers["alice"]
	m := k.mountFor(t, "rdma", "sec=krb5i")
	const life = 10 * time.Second
	begin := time.Now()
	k.r.Kinit("alice", "secret", k.cache(id), life)
	k.r.Give(int(id), int(id), k.cache(id))
	w := startLines(t, id, filepath.Join(m.Dir, "file"))
	n := 0
	for ; n == 0 || time.Since(begin) < life/2; n++ {
		w.put(n)
		time.Sleep(10 * time.Millisecond) // a bound of what is written meanwhile
	}
	time.Sleep(time.Until(begin.Add(life + time.Second)))
	fails(t, id, "touch", filepath.Join(m.Dir, "after"))
	w.last(n)
	k.kinit("alice", id)
	w.wait()
	run(t, as(id), "touch", filepath.Join(m.Dir, "after"))
	m.Umount(t)
	w.written(k)
	t.Logf("%d lines", n)
}

// lines is a process that has a file open all the time, and writes a line for each that it is given.
type lines struct {
	*testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *bufio.Scanner
	want strings.Builder
}

func startLines(t *testing.T, id uint32, file string) *lines {
	t.Helper()
	line := append(as(id), "sh", "-c", "exec 3>"+file+"; while read n; do echo $n >&3 || exit 1; echo $n; done")
	w := &lines{T: t, cmd: exec.Command(line[0], line[1:]...)}
	in, err := w.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill() }) // of a test that has failed
	w.in, w.said = in, bufio.NewScanner(out)
	return w
}

// put returns when a line is written.
func (w *lines) put(n int) {
	w.Helper()
	fmt.Fprintln(&w.want, n)
	if _, err := fmt.Fprintln(w.in, n); err != nil || !w.said.Scan() {
		w.Fatalf("line %d: %v", n, err)
	}
}

// last gives it a last line, for which it may wait.
func (w *lines) last(n int) {
	w.Helper()
	fmt.Fprintln(&w.want, n)
	_, err := fmt.Fprintln(w.in, n)
	if err = errors.Join(err, w.in.Close()); err != nil {
		w.Fatal(err)
	}
}

// wait waits for its end.
func (w *lines) wait() {
	w.Helper()
	for w.said.Scan() { // to its end
	}
	if err := w.cmd.Wait(); err != nil {
		w.Errorf("the process that writes: %v", err)
	}
}

// written checks that the server has all lines.
func (w *lines) written(k *kerberized) {
	w.Helper()
	got, err := os.ReadFile(filepath.Join(k.export, "file"))
	if err != nil || string(got) != w.want.String() {
		w.Errorf("the server has %d bytes of %d, %v", len(got), w.want.Len(), err)
	}
}

// TestRestartWithoutTicket: a server restarts while a user who has a file open has no ticket. Others go on, and what that user
// writes meanwhile is not lost.
func TestRestartWithoutTicket(t *testing.T) {
	needAll(t)
	k := startKerberos(t, nfsd.SecKrb5i)
	alice := realmUsers["alice"]
	m := k.mountFor(t, "tcp", "sec=krb5i,vers=4.2")
	w := startLines(t, alice, filepath.Join(m.Dir, "file"))
	w.put(0)
	k.r.Kdestroy(k.cache(alice))
	if err := k.Crash(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(m.Dir, "bobs")
	run(t, as(realmUsers["bob"]), "sh", "-c", "echo text >"+file+" && cat "+file)
	w.last(1)
	k.kinit("alice", alice)
	w.wait()
	m.Umount(t)
	w.written(k)
}

// TestServerRekeyed: the service is given other keys, without those of before, and restarts: users whose tickets are for the old ones go
// on, by new ones, and no call of theirs fails.
func TestServerRekeyed(t *testing.T) {
	k := startKerberos(t, nfsd.SecKrb5i)
	m := k.mountFor(t, "tcp", "sec=krb5i,vers=4.2,noac")
	file := filepath.Join(m.Dir, "file")
	run(t, as(realmUsers["alice"]), "sh", "-c", "echo text >"+file+" && cat "+file)
	keytab := k.r.Keytab("new.keytab", realm.Service)
	old, err := os.ReadFile(keytab)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(k.keytab); err != nil {
		t.Fatal(err)
	}
	k.r.Rekey(realm.Service)
	if now, err := os.ReadFile(k.keytab); err != nil || bytes.Contains(now, old[2:]) {
		t.Fatalf("the keytab has the old keys: %v", err)
	}
	if err := k.Crash(); err != nil {
		t.Fatal(err)
	}
	run(t, as(realmUsers["alice"]), "sh", "-c", "cat "+file+" && echo more >>"+file+" && ls -l "+m.Dir)
	m.Umount(t)
}

// TestTsharkReadsKerberos records mounts by TCP and has tshark read them: whose calls are of
// which service, and whether a file's name and text are to be seen.
func TestTsharkReadsKerberos(t *testing.T) {
	for _, name := range []string{"tshark", "dumpcap"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: %v", name, err)
		}
	}
	k := startKerberos(t, nfsd.SecKrb5, nfsd.SecKrb5i, nfsd.SecKrb5p)
	const text, name = "the secret that krb5p keeps", "recorded"
	for sec, service := range map[string]string{"krb5": "1", "krb5i": "2", "krb5p": "3"} {
		t.Run(sec, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pcap")
			stop := dumpcap(t, file, k.tcp)
			m := k.mountFor(t, "tcp", "sec="+sec)
			run(t, as(realmUsers["alice"]), "sh", "-c", "yes '"+text+"' | head -c 100000 >"+filepath.Join(m.Dir, name)+"; rm "+filepath.Join(m.Dir, name))
			m.Umount(t)
			stop()
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []string{text, name} {
				if seen := bytes.Contains(b, []byte(s)); seen != (sec != "krb5p") {
					t.Errorf("%q is to be seen: %v", s, seen)
				}
			}
			var said bytes.Buffer
			cmd := exec.Command("tshark", "-n", "-r", file, "-d", fmt.Sprintf("tcp.port==%d,rpc", k.tcp.Port()), "-Y", "rpc.authgss.procedure",
				"-T", "fields", "-e", "rpc.authgss.procedure", "-e", "rpc.authgss.service", "-e", "_ws.malformed")
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("tshark: %v: %s", err, said.String())
			}
			seen := map[string]int{}
			for line := range strings.Lines(string(out)) {
				f := strings.Split(strings.TrimRight(line, "\n"), "\t")
				if len(f) != 3 || f[2] != "" {
					t.Fatalf("tshark says %q", line)
				}
				procs, services := strings.Split(f[0], ","), strings.Split(f[1], ",")
				for i, p := range procs {
					seen[p]++
					if len(services) != len(procs) || services[i] != service {
						t.Errorf("procedures %v with services %v", procs, services)
					}
				}
			}
			t.Logf("calls by procedure of RPCSEC_GSS: %v", seen)
			// The machine's context and alice's are made, used and destroyed.
			if seen["0"] == 0 || seen["1"] != 2 || seen["3"] != 2 {
				t.Errorf("procedures %v", seen)
			}
		})
	}
}

// dumpcap records what passes the loopback device to and from a port on which somebody
// listens, until stop is called.
func dumpcap(t *testing.T, file string, at netip.AddrPort) (stop func()) {
	t.Helper()
	cmd := exec.Command("dumpcap", "-q", "-i", "lo", "-P", "-w", file, "-f", fmt.Sprintf("tcp port %d", at.Port()))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		st, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	// It begins after it says so, and writes later still: what is recorded is known by a
	// connection that shows in the file.
	settle := func() {
		t.Helper()
		before := max(size(), 24) // a file's header
		for deadline := time.Now().Add(30 * time.Second); size() <= before; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				_ = cmd.Process.Kill()
				t.Fatalf("dumpcap records nothing: %v: %s", cmd.Wait(), said.String())
			}
			c, err := net.Dial("tcp", at.String())
			if err == nil {
				err = c.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	settle()
	return func() {
		t.Helper()
		settle()
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("dumpcap: %v: %s", err, said.String())
		}
	}
}
