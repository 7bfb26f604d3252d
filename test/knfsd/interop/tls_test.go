//go:build knfsd

package interop

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/certs"
	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
	"github.com/rdmafs/rdmafs/test/randomops"
)

// TestTLSLinuxServer mounts the Linux server by RPC-with-TLS: its handshakes are tlshd's (GnuTLS), and its records the
// kernel's. First without tlshd, then with it, and last with one that has a certificate for another host.
func TestTLSLinuxServer(t *testing.T) {
	if mount.RandomOpsInside(t) {
		return
	}
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, RDMA: []knfsd.Service{}, MemoryMiB: 2560})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := g.TLSHD(ctx); err != nil {
		t.Fatal(err)
	}
	ca := certs.NewCA(t, "authority")
	own := ca.Issue(t, "client")
	tls := "proto=tcp,xprtsec=tls,xprtsec_ca=" + ca.Cert
	mtls := fmt.Sprintf("proto=tcp,xprtsec=mtls,xprtsec_ca=%s,xprtsec_cert=%s,xprtsec_key=%s", ca.Cert, own.Cert, own.Key)
	source := g.GuestAddr().String() + ":/export"
	refused := func(t *testing.T, words, says string) {
		t.Helper()
		r := mount.Command(t, inNamespace(g), "mount", source, t.TempDir(), "-o", words)
		if r.Code != 32 || !strings.Contains(r.Stderr, says) || strings.Count(r.Stderr, "\n") != 1 {
			t.Errorf("exit code %d: %s", r.Code, r.Stderr)
		}
	}
	t.Run("without tlshd", func(t *testing.T) {
		refused(t, tls+",retry=0", "tlshd")
	})
	t.Run("before tlshd", func(t *testing.T) { beforeTLSHD(t, g, ca, source, tls) })
	daemon(t, g, ca, ca.Issue(t, "other", certs.For("192.0.2.1")))
	t.Run("other name", func(t *testing.T) {
		refused(t, tls, "is for 192.0.2.1, not for "+g.GuestAddr().String())
	})
	daemon(t, g, ca, ca.Issue(t, "server", certs.For(g.GuestAddr().String())))
	t.Logf("%s", guest(t, g, knfsd.TLSHDDir+"/run --version; uname -r"))
	t.Run("unknown authority", func(t *testing.T) {
		refused(t, "proto=tcp,xprtsec=tls,xprtsec_ca="+certs.NewCA(t, "unknown").Cert, "is signed by an authority that is not trusted here")
	})
	for _, way := range []struct {
		name, words string
		always      bool
	}{
		{"tls version 4.2", tls + ",vers=4.2", true},
		{"mtls", mtls + ",vers=3,nconnect=4", true},
		{"tls", tls + ",vers=3", false},
		{"mtls version 4.2", mtls + ",vers=4.2", false},
	} {
		t.Run(way.name, func(t *testing.T) {
			if !way.always {
				knfsd.NeedAll(t)
			}
			guest(t, g, "cd /export && rm -rf -- * && chmod 1777 .")
			m := mount.Mount(t, source, mount.Options{Words: way.words, Wrapper: inNamespace(g)})
			endWithGuest(t, g, m)
			mount.Exercise(t, m.Dir)
			from := filepath.Join(mount.SourceTree(t), "http")
			mount.CopyTree(t, from, filepath.Join(m.Dir, "tree"), nil)
			mount.SameTree(t, filepath.Join(m.Dir, "tree"), from)
			guest(t, g, "cd /export && rm -rf -- * && chmod 755 .")
			m.Umount(t)
			m = mount.Mount(t, source, mount.Options{Words: way.words, Wrapper: inNamespace(g)})
			endWithGuest(t, g, m)
			local := mount.RandomOps(t, m.Dir, mount.RandomOpsOptions{Few: 2000, All: 20_000, Test: "TestTLSLinuxServer"})
			if err := randomops.Same(m.Dir, local); err != nil {
				t.Error(err)
			}
			m.Umount(t)
		})
	}
	t.Run("on the wire", func(t *testing.T) { onWire(t, g, source, tls) })
	t.Run("Linux client", func(t *testing.T) { linuxClientTLS(t, g, ca) })
}

// beforeTLSHD mounts from a server whose kernel offers TLS, and whose tlshd starts only when the mount has been asked for.
func beforeTLSHD(t *testing.T, g *knfsd.Guest, ca *certs.Pair, source, words string) {
	dir := t.TempDir()
	line := append(slices.Clone(inNamespace(g)), mount.Binary(t), "mount", source, dir, "-o", words+",vers=4.2")
	cmd := exec.Command(line[0], line[1:]...)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || !strings.Contains(first, "tlshd") || !strings.Contains(first, "trying again") {
		t.Errorf("said %q, %v", first, err)
	}
	daemon(t, g, ca, ca.Issue(t, "server", certs.For(g.GuestAddr().String())))
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	guest(t, g, "chmod 1777 /export")
	mount.Exercise(t, dir)
	guest(t, g, "cd /export && rm -rf -- * && chmod 755 .")
	if r := mount.Command(t, inNamespace(g), "umount", dir); r.Code != 0 {
		t.Error(r.Stderr)
	}
}

// daemon has tlshd run in the guest with a certificate, in place of one that runs.
func daemon(t *testing.T, g *knfsd.Guest, ca, cert *certs.Pair) {
	t.Helper()
	for name, path := range map[string]string{"ca.pem": ca.Cert, "cert.pem": cert.Cert, "key.pem": cert.Key} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(g.Share(), name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var conf strings.Builder
	for _, side := range []string{"client", "server"} {
		fmt.Fprintf(&conf, "[authenticate.%s]\nx509.truststore=/etc/tlshd/ca.pem\nx509.certificate=/etc/tlshd/cert.pem\nx509.private_key=/etc/tlshd/key.pem\n", side)
	}
	if err := os.WriteFile(filepath.Join(g.Share(), "tlshd.conf"), []byte("[debug]\nloglevel=1\ntls=1\nnl=0\n"+conf.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	guest(t, g, `if [ -f /run/tlshd.pid ]; then kill $(cat /run/tlshd.pid); rm /run/tlshd.pid; fi
		mkdir -p /etc/tlshd && cd /share && cp ca.pem cert.pem key.pem /etc/tlshd/ && rm ca.pem cert.pem key.pem && chown 0:0 /etc/tlshd/* && chmod 600 /etc/tlshd/key.pem && mv tlshd.conf /etc/tlshd.conf && chown 0:0 /etc/tlshd.conf
		date -s @`+fmt.Sprint(time.Now().Unix())+` >/dev/null
		(exec setsid `+knfsd.TLSHDDir+`/run -s >>/tmp/tlshd.log 2>&1 </dev/null & echo $! >/run/tlshd.pid)
		pid=$(cat /run/tlshd.pid)
		# It hears the kernel's requests once it has a socket of generic netlink, whose port libnl makes of the process' number.
		i=0; until awk -v p=$pid '$2 == 16 && $3 % 4194304 == p { found = 1 } END { exit !found }' /proc/net/netlink || [ $i = 100 ]; do i=$((i+1)); sleep 0.1; done
		kill -0 $pid`)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := g.Check(context.Background(), "tail -n 40 /tmp/tlshd.log; dmesg | tail -n 20")
			t.Logf("tlshd: %s", out)
		}
	})
}

// onWire mounts through a relay that keeps what passes: a known file is seen in clear text by xprtsec=none, and not by tls.
func onWire(t *testing.T, g *knfsd.Guest, source, tls string) {
	text := bytes.Repeat([]byte("PLAINTEXT OF A KNOWN FILE. "), 10_000)
	for _, c := range []struct {
		words string
		seen  bool
	}{{"proto=tcp,xprtsec=none", true}, {tls, false}} {
		guest(t, g, "cd /export && rm -rf -- * && chmod 1777 .")
		r, err := startRelay(g, net.JoinHostPort(g.GuestAddr().String(), "2049"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		m := mount.Mount(t, source, mount.Options{Words: fmt.Sprintf("%s,vers=4.2,addr=127.0.0.1,noresvport,port=%d", c.words, r.port), Wrapper: inNamespace(g)})
		endWithGuest(t, g, m)
		name := filepath.Join(m.Dir, "known")
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
		m.Umount(t)
		m = mount.Mount(t, source, mount.Options{Words: fmt.Sprintf("%s,vers=4.2,addr=127.0.0.1,noresvport,port=%d", c.words, r.port), Wrapper: inNamespace(g)})
		if got, err := os.ReadFile(filepath.Join(m.Dir, "known")); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		m.Umount(t)
		for _, b := range [][]byte{r.up.Bytes(), r.down.Bytes()} {
			if seen := bytes.Contains(b, text[:27]); seen != c.seen || len(b) < len(text) {
				t.Errorf("%s: seen %v in %d bytes", c.words, seen, len(b))
			}
		}
	}
}

// relay keeps the bytes of its connections. Its fields may be read after close.
type relay struct {
	ln       net.Listener
	port     int
	wg       sync.WaitGroup
	mu       sync.Mutex
	up, down bytes.Buffer
}

// startRelay passes connections to loopback, in the namespace of the guest's network, on.
func startRelay(g *knfsd.Guest, to string) (*relay, error) {
	r := &relay{}
	err := g.InNetNS(func() (err error) {
		r.ln, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		return nil, err
	}
	r.port = r.ln.Addr().(*net.TCPAddr).Port
	r.wg.Go(func() {
		for {
			near, err := r.ln.Accept()
			if err != nil {
				return
			}
			var far net.Conn
			if err := g.InNetNS(func() (err error) { far, err = net.Dial("tcp", to); return err }); err != nil {
				near.Close()
				continue
			}
			pass := func(keep *bytes.Buffer, to, from net.Conn) {
				defer to.Close()
				defer from.Close()
				_, _ = io.Copy(io.MultiWriter(to, locked{&r.mu, keep}), from)
			}
			r.wg.Go(func() { pass(&r.up, far, near) })
			r.wg.Go(func() { pass(&r.down, near, far) })
		}
	})
	return r, nil
}

func (r *relay) close() {
	_ = r.ln.Close()
	r.wg.Wait()
}

type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// linuxClientTLS has the kernel's client mount the embedded server, which demands TLS.
func linuxClientTLS(t *testing.T, g *knfsd.Guest, ca *certs.Pair) {
	cert := ca.Issue(t, "host", certs.For(g.HostAddr().String()))
	export := t.TempDir()
	if err := os.Chmod(export, 0o1777); err != nil {
		t.Fatal(err)
	}
	at := net.JoinHostPort(g.HostAddr().String(), "2049")
	line := append(inNamespace(g), buildServer(t), "-export", export+":no_root_squash", "-tcp", at, "-rdma", "", "-v",
		"-tls", "require", "-tls-cert", cert.Cert, "-tls-key", cert.Key, "-tls-client-ca", ca.Cert)
	cmd := exec.Command(line[0], line[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("server: %s", said.Bytes())
		}
	}()
	if n, err := out.Read(make([]byte, 1000)); n == 0 {
		t.Fatal(err)
	}
	for _, sec := range []string{"mtls"} {
		guest(t, g, fmt.Sprintf("mkdir -p /mnt/us && mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,mountproto=tcp,nolock,xprtsec=%s %s:%s /mnt/us", sec, g.HostAddr(), export))
		if out := guest(t, g, "grep /mnt/us /proc/mounts"); !strings.Contains(out, "xprtsec="+sec) {
			t.Errorf("mounted as %s", out)
		}
		guest(t, g, "cd /mnt/us && head -c 5000000 /dev/urandom > big && cp big copy && sync && echo 3 > /proc/sys/vm/drop_caches && cmp big copy && seq -f f%05g 500 | xargs touch && ls | wc -l")
		guest(t, g, "umount /mnt/us")
	}
	big, err := os.ReadFile(filepath.Join(export, "big"))
	other, err2 := os.ReadFile(filepath.Join(export, "copy"))
	if err != nil || err2 != nil || len(big) != 5000000 || !bytes.Equal(big, other) {
		t.Errorf("%d and %d bytes, %v, %v", len(big), len(other), err, err2)
	}
}
