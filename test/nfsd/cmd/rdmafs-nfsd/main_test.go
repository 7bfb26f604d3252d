package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/realm"
)

func TestRun(t *testing.T) {
	sig := make(chan os.Signal, 1)
	r, w := io.Pipe()
	done := make(chan error, 1)
	runIt := func() {
		err := run([]string{"-export", t.TempDir() + ":path=/x,async", "-tcp", "127.0.0.1:0", "-rdma", "127.0.0.1:0", "-stats"}, w, sig)
		_ = w.Close()
		done <- err
	}
	go runIt()
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		t.Fatal(<-done)
	}
	f := strings.Fields(lines.Text())
	if len(f) != 3 || f[0] != "ready" || !strings.HasPrefix(f[1], "tcp=127.0.0.1:") || !strings.HasPrefix(f[2], "rdma=127.0.0.1:") ||
		strings.HasSuffix(lines.Text(), ":0") {
		t.Errorf("first line: %s", lines.Text())
	}
	for _, s := range []os.Signal{syscall.SIGUSR1, syscall.SIGTERM} {
		sig <- s
		var st nfsd.Stats
		if !lines.Scan() {
			t.Fatalf("no counters after %v", s)
		}
		if err := json.Unmarshal(lines.Bytes(), &st); err != nil || len(st.RDMA) != 1 {
			t.Errorf("counters after %v: %s, %v", s, lines.Text(), err)
		}
	}
	if lines.Scan() {
		t.Errorf("too much said: %s", lines.Text())
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{},
		{"-export", dir, "-tcp", "", "-rdma", ""},
		{"-export", dir + "/none"},
		{"-export", dir + ":nosuch"},
		{"-export", dir + ":id=x"},
		{"-export", dir + ":ro=1"},
		{"-export", dir, "-vers", "4.0"},
		{"-export", dir, "surplus"},
		{"-export", dir, "-tls", "require"},
		{"-export", dir, "-tls", "perhaps", "-tls-cert", "x", "-tls-key", "x"},
		{"-export", dir, "-tls-cert", dir + "/none", "-tls-key", dir + "/none", "-tcp", "127.0.0.1:0", "-rdma", ""},
		{"-export", dir, "-sec", "sys,lkey"},
		{"-export", dir, "-sec", "krb5"},
		{"-export", dir + ":sec=sys+krb5p"},
		{"-export", dir, "-keytab", dir + "/none"},
		{"-export", dir, "-rdma", "", "-tcp", "no such address"},
		{"-export", dir, "-tcp", "127.0.0.1:0", "-rdma", "127.0.0.1:0", "-inline", "1000"},
	} {
		if err := run(args, io.Discard, nil); err == nil || errors.Is(err, flag.ErrHelp) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestVersions(t *testing.T) {
	for list, want := range map[string]nfsd.Versions{"3": nfsd.V3, "4.2": nfsd.V42, "3,4.1,4.2": nfsd.V3 | nfsd.V41 | nfsd.V42} {
		if o, err := parse([]string{"-vers", list}); err != nil || o.cfg.Versions != want {
			t.Errorf("%s: %v, %v", list, o, err)
		}
	}
}

func TestExportOptions(t *testing.T) {
	dir := t.TempDir()
	o, err := parse([]string{"-export", dir + ":ro,async,no_root_squash,anonuid=7,path=/p,id=9", "-export", dir + ":all_squash", "-lossy"})
	if err != nil {
		t.Fatal(err)
	}
	x := o.cfg.Exports[0]
	if !x.ReadOnly || !x.Async || !x.Lossy || x.Squash != nfsd.SquashNone || *x.AnonUID != 7 || x.Path != "/p" || x.ID != 9 || x.Dir != dir {
		t.Errorf("%+v", x)
	}
	if y := o.cfg.Exports[1]; y.Squash != nfsd.SquashAll || !y.Lossy || y.Async {
		t.Errorf("%+v", y)
	}
}

// TestSecurity: -sec is for exports that say nothing themselves.
func TestSecurity(t *testing.T) {
	r := realm.Start(t)
	keytab := r.AddService(realm.Service)
	dir := t.TempDir()
	o, err := parse([]string{"-export", dir, "-export", dir + ":sec=krb5p+sys", "-sec", "krb5,krb5i", "-keytab", keytab})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]uint32{{nfsd.SecKrb5, nfsd.SecKrb5i}, {nfsd.SecKrb5p, nfsd.SecSys}} {
		if got := o.cfg.Exports[i].Security; !slices.Equal(got, want) {
			t.Errorf("export %d: %v, want %v", i, got, want)
		}
	}
	if u, ok := o.cfg.Kerberos.Users("root@" + realm.Name); !ok || u.UID != 0 {
		t.Errorf("root is %v, %v", u, ok)
	}
}
