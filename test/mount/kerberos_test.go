package mount

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/realm"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
)

// The users of the realm, and as whom the server knows them. Root is known by the machine's
// principal.
var realmUsers = map[string]uint32{"alice": 1001, "bob": 1002}

const machinePrincipal = "host/client.test.lan"

// kerberized is a server in a realm.
type kerberized struct {
	*server
	r *realm.Realm
	// tickets has a cache for each user, machine the machine's keytab.
	tickets, machine string
	keytab           string // the server's
}

func startKerberos(t *testing.T, security ...uint32) *kerberized {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("several users need root")
	}
	k := &kerberized{r: realm.Start(t), tickets: userDir(t)}
	t.Setenv("KRB5_CONFIG", k.r.Conf())
	t.Setenv("KRB5CCNAME", "")
	k.keytab = k.r.AddService(realm.Service)
	acceptor, err := krb5.NewAcceptor(k.keytab, "nfs")
	if err != nil {
		t.Fatal(err)
	}
	k.server = startServer(t, serverOptions{mode: 0o1777, security: security, versions: nfsd.V3 | nfsd.V41 | nfsd.V42, kerberos: &nfsd.Kerberos{
		Acceptor: acceptor,
		Users: func(p string) (transport.AuthSys, bool) {
			name, _, _ := strings.Cut(p, "@")
			id, ok := realmUsers[name]
			return transport.AuthSys{UID: id, GID: id}, ok || name == machinePrincipal
		},
	}})
	k.machine = k.r.AddService(machinePrincipal)
	t.Cleanup(func() {
		for _, id := range realmUsers {
			_ = os.Remove(k.cache(id))
		}
	})
	for user, id := range realmUsers {
		k.r.AddUser(user, "secret")
		k.kinit(user, id)
	}
	return k
}

func (k *kerberized) cache(id uint32) string { return filepath.Join(k.tickets, fmt.Sprint("cc_", id)) }

// kinit gives a user a ticket.
func (k *kerberized) kinit(user string, id uint32) {
	k.r.Kinit(user, "secret", k.cache(id), time.Hour)
	k.r.Give(int(id), int(id), k.cache(id))
}

// mountFor mounts for all users.
func (k *kerberized) mountFor(t *testing.T, proto, more string) *Mounted {
	t.Helper()
	words := "allow_other,krb5_keytab=" + k.machine + ",krb5_principal=" + machinePrincipal + ",krb5_ccache=FILE:" + k.tickets + "/cc_%{uid}"
	if more != "" {
		words += "," + more
	}
	dir := userDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return Mount(t, "localhost:"+k.export, Options{Words: k.words(proto, words), Dir: dir})
}

// as is the wrapper of a user's commands.
func as(id uint32) []string {
	return []string{"setpriv", fmt.Sprint("--reuid=", id), fmt.Sprint("--regid=", id), "--clear-groups"}
}

// fails runs a user's command, which must fail for want of rights.
func fails(t *testing.T, id uint32, args ...string) {
	t.Helper()
	line := append(as(id), args...)
	out, err := exec.Command(line[0], line[1:]...).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("Permission denied")) {
		t.Errorf("user %d: %q: %v: %s; want EACCES", id, args, err, out)
	}
}

// TestKerberos: each user's calls are made under his own ticket, with each service, over
// both transports; who has none is refused, and the log says what to do.
func TestKerberos(t *testing.T) {
	k := startKerberos(t, nfsd.SecKrb5, nfsd.SecKrb5i, nfsd.SecKrb5p)
	for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
		for _, way := range []struct{ proto, vers string }{{"tcp", "3"}, {"rdma", "3"}, {"tcp", "4.1"}, {"rdma", "4.2"}} {
			proto := way.proto
			t.Run(sec+" "+proto+" "+way.vers, func(t *testing.T) {
				if way.vers != "4.2" && (sec != "krb5i" || proto != "tcp") {
					needAll(t)
				}
				log := filepath.Join(t.TempDir(), "log")
				m := k.mountFor(t, proto, "nconnect=2,logfile="+log+",sec="+sec+",vers="+way.vers)
				for user, id := range realmUsers {
					file := filepath.Join(m.Dir, user)
					run(t, as(id), "sh", "-c", "umask 077; head -c 3000000 /dev/urandom >"+file+" && cmp "+file+" "+file)
					var st syscall.Stat_t
					if err := syscall.Stat(filepath.Join(k.export, user), &st); err != nil || st.Uid != id || st.Size != 3000000 {
						t.Errorf("%s's file belongs to %d and has %d bytes, %v", user, st.Uid, st.Size, err)
					}
				}
				fails(t, realmUsers["bob"], "cat", filepath.Join(m.Dir, "alice"))
				fails(t, 1003, "ls", m.Dir)
				Exercise(t, m.Dir)
				m.Umount(t)
				said, err := os.ReadFile(log)
				if err != nil || strings.Count(string(said), "run kinit") != 1 || !bytes.Contains(said, []byte("user 1003")) {
					t.Errorf("the log: %v\n%s", err, said)
				}
				for user := range realmUsers {
					if err := os.Remove(filepath.Join(k.export, user)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestSecurityChosen: without sec= an export that does not take AUTH_SYS is mounted with the
// first flavor that it does take; with another one the mount is refused, and why.
func TestSecurityChosen(t *testing.T) {
	k := startKerberos(t, nfsd.SecKrb5i, nfsd.SecKrb5p)
	for _, vers := range []string{"3", "4.2"} {
		log := filepath.Join(t.TempDir(), "log")
		m := k.mountFor(t, "tcp", "logfile="+log+",vers="+vers)
		run(t, as(1001), "touch", filepath.Join(m.Dir, "file"))
		m.Umount(t)
		if said, err := os.ReadFile(log); err != nil || !bytes.Contains(said, []byte("the server wants sec=krb5i")) {
			t.Errorf("the log: %v\n%s", err, said)
		}
		for _, sec := range []string{"sys", "krb5"} {
			r := Command(t, nil, "mount", "localhost:"+k.export, t.TempDir(), "-o", k.words("tcp", "retry=0,krb5_keytab="+k.machine+",krb5_principal="+machinePrincipal+",sec="+sec+",vers="+vers))
			checkFailure(t, r, fail, "krb5i, krb5p", "sec=krb5i")
		}
	}
}

// TestMountWithoutTicket: the error of the mount says what is missing.
func TestMountWithoutTicket(t *testing.T) {
	k := startKerberos(t, nfsd.SecKrb5)
	dir := t.TempDir()
	mount := func(more string) Result {
		return Command(t, nil, "mount", "localhost:"+k.export, dir, "-o", k.words("tcp", "retry=0,sec=krb5,"+more))
	}
	checkFailure(t, mount("krb5_ccache=FILE:/nonexistent"), fail, "no Kerberos ticket")
	checkFailure(t, mount("krb5_keytab=/nonexistent"), fail, "/nonexistent", "krb5_keytab=")
	checkFailure(t, mount("krb5_keytab="+k.machine+",krb5_principal=carol"), fail, "no AES key of carol")
	k.r.StopKDC()
	checkFailure(t, mount("krb5_keytab="+k.machine+",krb5_principal="+machinePrincipal), fail, "KDC")
	t.Setenv("KRB5_CONFIG", "/nonexistent")
	if _, err := os.Stat(krb5.DefaultConf); err != nil {
		checkFailure(t, mount("krb5_keytab="+k.machine), fail, krb5.DefaultConf)
	}
}

// TestTicketGoneAndBack: what was written when the ticket was there is written when there is
// one again, and not lost: not to a server that has forgotten the user either.
func TestTicketGoneAndBack(t *testing.T) {
	k := startKerberos(t, nfsd.SecKrb5p)
	for _, way := range []struct{ proto, vers string }{{"tcp", "3"}, {"rdma", "3"}, {"tcp", "4.2"}} {
		t.Run(way.proto+" "+way.vers, func(t *testing.T) {
			if way.vers != "3" {
				needAll(t)
			}
			log := filepath.Join(t.TempDir(), "log")
			m := k.mountFor(t, way.proto, "sec=krb5p,vers="+way.vers+",logfile="+log)
			id := realmUsers["alice"]
			// One process that has the file open once: each close(2) waits for the data.
			line := append(as(id), "dd", "bs=1M", "of="+filepath.Join(m.Dir, "file"))
			cmd := exec.Command(line[0], line[1:]...)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			closed := make(chan error, 1)
			go func() { closed <- cmd.Wait() }()
			await := func(what string, is func() bool) {
				t.Helper()
				for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						_ = cmd.Process.Kill()
						t.Fatal("not seen: " + what)
					}
				}
			}
			there := filepath.Join(k.export, "file")
			await("the file", func() bool { _, err := os.Stat(there); return err == nil })
			k.r.Kdestroy(k.cache(id))
			if err := k.Crash(); err != nil {
				t.Fatal(err)
			}
			data := bytes.Repeat([]byte("0123456789abcdef"), 125_000)
			if _, err := in.Write(data); err != nil {
				t.Fatal(err)
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			await("the advice in the log", func() bool { said, _ := os.ReadFile(log); return bytes.Contains(said, []byte("run kinit")) })
			select {
			case err := <-closed:
				t.Fatalf("closed without a ticket: %v", err)
			default:
			}
			k.kinit("alice", id)
			select {
			case err := <-closed:
				if err != nil {
					t.Errorf("dd: %v", err)
				}
			case <-time.After(time.Minute):
				_ = cmd.Process.Kill()
				t.Fatal("not closed though there is a ticket again")
			}
			if got, err := os.ReadFile(there); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes at the server, %v", len(got), err)
			}
			if err := os.Remove(there); err != nil {
				t.Error(err)
			}
		})
	}
}
