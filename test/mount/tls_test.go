package mount

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/test/certs"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/posix"
	"github.com/rdmafs/rdmafs/test/randomops"
)

// secure is an authority, a server that demands TLS, and a certificate for the client.
type secure struct {
	*server
	ca, own *certs.Pair
}

// startSecure starts a server for 127.0.0.1; mutual has it demand a client's certificate.
func startSecure(t *testing.T, mutual bool) *secure {
	t.Helper()
	ca := certs.NewCA(t, "authority")
	cert := ca.Issue(t, "server", certs.For("127.0.0.1"))
	o := nfsd.TLS{Cert: cert.Cert, Key: cert.Key, Require: true}
	if mutual {
		o.ClientCA = ca.Cert
	}
	return &secure{startServer(t, serverOptions{tls: &o}), ca, ca.Issue(t, "client")}
}

func (s *secure) tls() string { return "xprtsec=tls,xprtsec_ca=" + s.ca.Cert }

func (s *secure) mtls() string {
	return fmt.Sprintf("xprtsec=mtls,xprtsec_ca=%s,xprtsec_cert=%s,xprtsec_key=%s", s.ca.Cert, s.own.Cert, s.own.Key)
}

// TestTLS: the suite of file system behaviour and random operations on an encrypted mount, whose server serves no other.
func TestTLS(t *testing.T) {
	if RandomOpsInside(t) {
		return
	}
	t.Run("posix", func(t *testing.T) {
		s := startSecure(t, false)
		posix.Run(t, s.mount(t, "tcp", s.tls()).Dir)
	})
	t.Run("random", func(t *testing.T) {
		s := startSecure(t, true)
		m := s.mount(t, "tcp", s.mtls()+",nconnect=4")
		local := RandomOps(t, m.Dir, RandomOpsOptions{Few: 4000, All: 200_000, Test: "TestTLS"})
		m.Umount(t)
		for _, dir := range []string{s.export, s.mount(t, "tcp", s.mtls()).Dir} {
			if err := randomops.Same(dir, local); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTLSConnectsAgain: 64 writers on four encrypted connections, while the server crashes: each connection that is made anew is
// encrypted too, as the server serves no other, and nothing is lost.
func TestTLSConnectsAgain(t *testing.T) {
	s := startSecure(t, true)
	m := s.mount(t, "tcp", s.mtls()+",nconnect=4")
	const writers, crashes = 64, 5
	data := make([]byte, 1<<20)
	_, _ = rand.Read(data)
	var running sync.WaitGroup
	stop := make(chan struct{})
	errs := make(chan error, writers)
	write := func(i int) error {
		name := filepath.Join(m.Dir, fmt.Sprint(i))
		for {
			if err := os.WriteFile(name, data, 0o644); err != nil {
				return err
			}
			got, err := os.ReadFile(name)
			if err != nil || !bytes.Equal(got, data) {
				return errors.Join(err, fmt.Errorf("%s: %d bytes, which differ", name, len(got)))
			}
			select {
			case <-stop:
				return nil
			default:
			}
		}
	}
	for i := range writers {
		running.Go(func() { errs <- write(i) })
	}
	for range crashes {
		before := m.Stats(t).Connects
		if err := s.Crash(); err != nil {
			t.Fatal(err)
		}
		for m.Stats(t).Connects == before {
			if t.Context().Err() != nil {
				t.Fatal("no new connection")
			}
		}
	}
	close(stop)
	running.Wait()
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	m.Umount(t)
	for i := range writers {
		if got, err := os.ReadFile(filepath.Join(s.export, fmt.Sprint(i))); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d at the server: %d bytes, %v", i, len(got), err)
		}
	}
}

// TestTLSRefused: what is wrong is one line with what may help, and the exit code of a failed mount, at once.
func TestTLSRefused(t *testing.T) {
	s, mutual, plain := startSecure(t, false), startSecure(t, true), startServer(t, serverOptions{})
	other := certs.NewCA(t, "other")
	for name, c := range map[string]struct {
		server      *server
		words, says string
		cure        string
	}{
		"clear text":         {s.server, "", "stronger security needed", "xprtsec="},
		"no TLS there":       {plain, s.tls(), "the server has no TLS", "xprtsec=none"},
		"unknown authority":  {s.server, "xprtsec=tls,xprtsec_ca=" + other.Cert, "an authority that is not trusted here (CN=authority)", "xprtsec_ca="},
		"no certificate":     {mutual.server, mutual.tls(), "the server demands a certificate of this client", "xprtsec=mtls"},
		"nothing to show":    {mutual.server, "xprtsec=mtls,xprtsec_ca=" + mutual.ca.Cert, "xprtsec=mtls needs a certificate", "xprtsec_cert="},
		"certificate of who": {mutual.server, s.mtls() + ",xprtsec_ca=" + mutual.ca.Cert, "the server ended the TLS handshake", "does the server know"},
	} {
		t.Run(name, func(t *testing.T) {
			words := c.server.words("tcp", c.words)
			r := Command(t, nil, "mount", c.server.source(), t.TempDir(), "-o", words)
			if r.Code != 32 || !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, c.cure) || strings.Count(r.Stderr, "\n") != 1 {
				t.Errorf("exit code %d: %s", r.Code, r.Stderr)
			}
			if c.words == "" {
				return
			}
			report := Doctor(t, nil, words, c.server.source())
			if report.OK || !strings.Contains(report.Verdict, c.says) {
				t.Errorf("doctor: %s", report.Verdict)
			}
		})
	}
	r := Command(t, nil, "mount", s.source(), t.TempDir(), "-o", s.words("rdma", s.tls()))
	if r.Code == 0 || !strings.Contains(r.Stderr, "RFC 9289 has no form for RDMA") {
		t.Errorf("over RDMA: exit code %d: %s", r.Code, r.Stderr)
	}
}

// TestTLSDemandedByExport: an export that refuses what comes in clear text, as Linux' xprtsec=tls does, after connecting has gone well:
// the mount and the doctor say that TLS may be what is missing, with each version.
func TestTLSDemandedByExport(t *testing.T) {
	ca := certs.NewCA(t, "authority")
	cert := ca.Issue(t, "server", certs.For("127.0.0.1"))
	s := startServer(t, serverOptions{tls: &nfsd.TLS{Cert: cert.Cert, Key: cert.Key}, encrypted: true, versions: nfsd.V3 | nfsd.V41 | nfsd.V42})
	for _, vers := range []string{"3", "4.1", "4.2"} {
		for _, sec := range []string{"", ",sec=sys"} {
			words := s.words("tcp", "retry=0,vers="+vers+sec)
			r := Command(t, nil, "mount", s.source(), t.TempDir(), "-o", words)
			if r.Code != 32 || !strings.Contains(r.Stderr, "xprtsec=") || strings.Count(r.Stderr, "\n") != 1 {
				t.Errorf("version %s%s: exit code %d: %s", vers, sec, r.Code, r.Stderr)
			}
			report := Doctor(t, nil, words, s.source())
			said := ""
			for _, in := range report.Sections {
				for _, st := range in.Steps {
					if st.Status == doctor.Failure {
						said += st.Detail + ": " + st.Remedy + "\n"
					}
				}
			}
			if report.OK || !strings.Contains(said, "xprtsec=") {
				t.Errorf("version %s%s: doctor: %s: %s", vers, sec, report.Verdict, said)
			}
		}
		log := filepath.Join(t.TempDir(), "log")
		m := s.mount(t, "tcp", "xprtsec=tls,xprtsec_ca="+ca.Cert+",logfile="+log+",vers="+vers)
		Exercise(t, m.Dir)
		m.Umount(t)
		if b, err := os.ReadFile(log); err != nil || bytes.Contains(b, []byte("; MOUNT, and locks")) != (vers == "3") {
			t.Errorf("version %s: the log: %s, %v", vers, b, err)
		}
	}
}

// TestTLSShown: status, the log and the doctor say that a mount is encrypted; a remount does not change it.
func TestTLSShown(t *testing.T) {
	s := startSecure(t, true)
	log := filepath.Join(t.TempDir(), "log")
	m := s.mount(t, "tcp", s.mtls()+",logfile="+log)
	in := m.inForce(t)
	for _, says := range []string{"TLS 1.3", "CN=server", "and this client's"} {
		if !strings.Contains(in.Encryption, says) {
			t.Errorf("status: %q", in.Encryption)
		}
	}
	if b, err := os.ReadFile(log); err != nil || !bytes.Contains(b, []byte("is encrypted: TLS 1.3")) || !bytes.Contains(b, []byte("; MOUNT, and locks at the server, are not")) {
		t.Errorf("log: %s, %v", b, err)
	}
	if b, err := os.ReadFile(log); err != nil || bytes.Contains(b, []byte("private key")) {
		t.Errorf("log: %s, %v", b, err)
	}
	if r := Command(t, nil, "mount", s.source(), m.Dir, "-o", "remount,xprtsec=none"); r.Code == 0 || !strings.Contains(r.Stderr, "cannot be changed: xprtsec=none") {
		t.Errorf("remount: exit code %d: %s", r.Code, r.Stderr)
	}
	if err := os.Chmod(s.own.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	report := Doctor(t, nil, s.words("tcp", s.mtls()), s.source())
	if st := FindStep(t, report, "encryption"); st.Status != doctor.Warning || !strings.Contains(st.Detail, "TLS 1.3") || !strings.Contains(st.Remedy, "renew") {
		t.Errorf("doctor: %+v", st)
	}
	if st := FindStep(t, report, "private key"); st.Status != doctor.Warning || !strings.Contains(st.Remedy, "chmod 600") {
		t.Errorf("doctor: %+v", st)
	}
	if !report.OK {
		t.Error(report.Verdict)
	}
	s.mount(t, "tcp", s.mtls()+",logfile="+log)
	if b, err := os.ReadFile(log); err != nil || !bytes.Contains(b, []byte("may read the private key in "+s.own.Key)) {
		t.Errorf("log: %s, %v", b, err)
	}
}
