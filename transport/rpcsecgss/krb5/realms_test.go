package krb5

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/realm"
)

// kadmin runs a query of kadmin.local.
func kadmin(t testing.TB, env []string, in, query string) {
	t.Helper()
	runMIT(t, env, "", "kadmin.local", "-r", in, "-q", query)
}

// runMIT runs a program of MIT's to its end.
func runMIT(t testing.TB, env []string, input, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path = "/usr/sbin/" + name
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env, cmd.Stdin = env, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "while ") {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// threeRealms is one KDC of MIT's with the realms A.LAN, B.LAN and C.LAN: A and B, B and C
// trust each other, and A's reaches C's by B's. It returns the environment of programs that use it.
func threeRealms(t *testing.T) (dir string, env []string) {
	t.Helper()
	for _, name := range []string{"krb5kdc", "kdb5_util", "kadmin.local"} {
		if _, err := os.Stat("/usr/sbin/" + name); err != nil {
			realm.Missing(t, "needs "+name+", of the packages krb5-kdc and krb5-admin-server")
		}
	}
	dir = t.TempDir()
	env = append(os.Environ(), "KRB5_CONFIG="+dir+"/krb5.conf", "KRB5_KDC_PROFILE="+dir+"/kdc.conf", "LC_ALL=C")
	configureRealms(t, dir)
	for r, principals := range map[string][]string{
		"A.LAN": {"alice", "krbtgt/B.LAN@A.LAN"},
		"B.LAN": {"krbtgt/B.LAN@A.LAN", "krbtgt/C.LAN@B.LAN"},
		"C.LAN": {"krbtgt/C.LAN@B.LAN", "nfs/host.c.lan"},
	} {
		runMIT(t, env, "", "kdb5_util", "create", "-s", "-r", r, "-P", "master")
		for _, p := range principals {
			kadmin(t, env, r, "addprinc -pw shared "+p)
		}
	}
	for range 5 { // another process may take the port between its choice and the KDC's start
		cmd := exec.Command("/usr/sbin/krb5kdc", "-n", "-r", "A.LAN", "-r", "B.LAN", "-r", "C.LAN", "-P", dir+"/pid")
		log := &watched{want: "commencing operation", seen: make(chan struct{})}
		cmd.Env, cmd.Stderr = env, log
		ended := startBound(t, cmd)
		select {
		case <-log.seen:
			return dir, env
		case <-ended:
			t.Logf("the KDC has ended:\n%s", log.buf.String())
		}
		configureRealms(t, dir)
	}
	t.Fatal("the KDC does not start")
	return "", nil
}

// configureRealms writes the configuration, with another port.
func configureRealms(t *testing.T, dir string) {
	t.Helper()
	k := new(scriptedKDC).start(t) // it has a port of both kinds, which is then MIT's
	_ = k.ln.Close()
	_ = k.packets.Close()
	kdcConf := "[kdcdefaults]\n kdc_listen = " + k.addr + "\n kdc_tcp_listen = " + k.addr + "\n[realms]\n"
	conf := `[libdefaults]
 default_realm = A.LAN
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 udp_preference_limit = 1
[domain_realm]
 .b.lan = B.LAN
 .c.lan = C.LAN
[capaths]
 A.LAN = {
  C.LAN = B.LAN
 }
[logging]
 kdc = STDERR
[realms]
`
	for _, r := range []string{"A.LAN", "B.LAN", "C.LAN"} {
		kdcConf += fmt.Sprintf(" %s = {\n database_name = %s/%s\n key_stash_file = %s/%s.stash\n acl_file = %s/acl\n }\n", r, dir, r, dir, r, dir)
		conf += fmt.Sprintf(" %s = {\n kdc = %s\n }\n", r, k.addr)
	}
	for name, text := range map[string]string{"kdc.conf": kdcConf, "krb5.conf": conf} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// watched keeps what is written to it, and closes seen when want has been.
type watched struct {
	want string
	seen chan struct{}
	buf  bytes.Buffer
	done bool
}

func (w *watched) Write(b []byte) (int, error) {
	w.buf.Write(b)
	if !w.done && strings.Contains(w.buf.String(), w.want) {
		w.done = true
		close(w.seen)
	}
	return len(b), nil
}

// startBound starts a program that ends with the test, even with one that is killed: the
// signal for that is bound to the thread that starts it, which waits for the end.
func startBound(t *testing.T, cmd *exec.Cmd) (ended <-chan struct{}) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the only error is that it has ended already
		<-done
	})
	return done
}

// TestRealmsOfMIT gets a ticket for a service two realms away: by [domain_realm] of this
// client, and by what KDCs refer to.
func TestRealmsOfMIT(t *testing.T) {
	dir, env := threeRealms(t)
	cache := dir + "/cc"
	runMIT(t, env, "shared\n", "kinit", "-c", cache, "alice")
	conf, err := LoadConf(dir + "/krb5.conf")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(cache)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseCache(b)
	if err != nil {
		t.Fatal(err)
	}
	tgt, err := c.find(time.Now(), "A.LAN", "krbtgt", "A.LAN").parsed()
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"named": conf.Realm("host.c.lan"), "referred": "A.LAN", "half way": "B.LAN"} {
		got, err := serviceTicket(t.Context(), conf, tgt, target, []string{"nfs", "host.c.lan"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.client.String() != "alice@A.LAN" || got.ticket.Realm != "C.LAN" || got.ticket.SName.PrincipalNameString() != "nfs/host.c.lan" {
			t.Errorf("%s: ticket of %s for %s@%s", name, got.client, got.ticket.SName.PrincipalNameString(), got.ticket.Realm)
		}
	}
	if _, err := serviceTicket(t.Context(), conf, tgt, "C.LAN", []string{"nfs", "none.c.lan"}); err == nil || !strings.Contains(err.Error(), "no such service") {
		t.Errorf("no such service: %v", err)
	}
}
