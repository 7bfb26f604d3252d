package realm

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Name is the realm's name.
const Name = "TEST.LAN"

// Service is the default service principal, without the realm: a server that
// clients reach as localhost.
const Service = "nfs/localhost"

// AES lists the encryption types that NFS servers and clients have, by their
// numbers (RFC 3962 section 7, RFC 8009 section 9).
var AES = map[int32]string{
	17: "aes128-cts-hmac-sha1-96",
	18: "aes256-cts-hmac-sha1-96",
	19: "aes128-cts-hmac-sha256-128",
	20: "aes256-cts-hmac-sha384-192",
}

// requireEnv, when set, makes a missing package a failure: for machines whose
// job it is to run these tests.
const requireEnv = "RDMAFS_REALM_REQUIRED"

// Realm is a running realm.
type Realm struct {
	t    testing.TB
	dir  string
	addr string // of the KDC
	// wrapper runs the programs.
	wrapper []string

	mu  sync.Mutex
	kdc *kdc
}

// Start makes a realm and starts its KDC. Both end with the test. The realm's programs are
// run by wrapper, such as nsenter with its options, if there is one.
func Start(t testing.TB, wrapper ...string) *Realm {
	t.Helper()
	for name, pkg := range map[string]string{
		"krb5kdc": "krb5-kdc", "kdb5_util": "krb5-kdc", "kadmin.local": "krb5-admin-server", "kinit": "krb5-user",
	} {
		if _, err := program(name); err != nil {
			Missing(t, fmt.Sprintf("needs %s, of the package %s", name, pkg))
		}
	}
	r := &Realm{t: t, dir: t.TempDir(), wrapper: wrapper}
	var err error
	// Another process may take the port between its choice and the KDC's start.
	for range 5 {
		if err = r.configure(); err == nil {
			err = r.startKDC()
		}
		if err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.StopKDC()
	})
	return r
}

// Missing ends a test for which something is not installed.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(requireEnv) != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// program finds one that may not be in an ordinary user's path.
func program(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

// configure chooses a port, writes the configuration, and makes the database
// unless there is one.
func (r *Realm) configure() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	r.addr = fmt.Sprintf("127.0.0.1:%d", port)
	types := "aes256-cts-hmac-sha384-192 aes128-cts-hmac-sha256-128 aes256-cts-hmac-sha1-96 aes128-cts-hmac-sha1-96"
	files := map[string]string{
		"krb5.conf": `[libdefaults]
 default_realm = ` + Name + `
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 forwardable = true
 udp_preference_limit = 1
 permitted_enctypes = ` + types + `
 default_tkt_enctypes = ` + types + `
 default_tgs_enctypes = ` + types + `
[realms]
 ` + Name + ` = {
  kdc = ` + r.addr + `
 }
[domain_realm]
 localhost = ` + Name + `
 .test.lan = ` + Name + `
`,
		"kdc.conf": `[kdcdefaults]
 kdc_listen = ` + r.addr + `
 kdc_tcp_listen = ` + r.addr + `
[realms]
 ` + Name + ` = {
  database_name = ` + r.Path("principal") + `
  key_stash_file = ` + r.Path("stash") + `
  acl_file = ` + r.Path("acl") + `
  max_life = 1d
  max_renewable_life = 2d
  supported_enctypes = ` + strings.ReplaceAll(types+" ", " ", ":normal ") + `
 }
[logging]
 kdc = STDERR
 admin_server = STDERR
`,
	}
	for name, text := range files {
		if err := os.WriteFile(r.Path(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if _, err := os.Stat(r.Path("principal")); err == nil {
		return nil
	}
	_, err = r.run("", "kdb5_util", "create", "-s", "-r", Name, "-P", "master")
	return err
}

func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return ln.Addr().(*net.TCPAddr).Port, ln.Close()
}

// Path is the name of a file in the realm's directory.
func (r *Realm) Path(name string) string { return filepath.Join(r.dir, name) }

// Conf is the path of the realm's krb5.conf.
func (r *Realm) Conf() string { return r.Path("krb5.conf") }

// Env is the environment of programs that are to use the realm.
func (r *Realm) Env() []string {
	return append(os.Environ(), "KRB5_CONFIG="+r.Conf(), "KRB5_KDC_PROFILE="+r.Path("kdc.conf"), "LC_ALL=C")
}

func (r *Realm) command(path string, args ...string) *exec.Cmd {
	line := append(append([]string(nil), r.wrapper...), path)
	return exec.Command(line[0], append(line[1:], args...)...)
}

// runTimeout bounds one program of Kerberos.
const runTimeout = 30 * time.Second

// run runs a program to its end.
func (r *Realm) run(input, name string, args ...string) (string, error) {
	path, err := program(name)
	if err != nil {
		return "", err
	}
	cmd := r.command(path, args...)
	cmd.Env, cmd.Stdin = r.Env(), strings.NewReader(input)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	guard := time.AfterFunc(runTimeout, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}

// must is run for what does not fail.
func (r *Realm) must(input, name string, args ...string) string {
	r.t.Helper()
	out, err := r.run(input, name, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}
