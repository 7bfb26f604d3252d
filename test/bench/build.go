package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/test/bench/compare"
	"github.com/rdmafs/rdmafs/test/certs"
)

// build is a build of rdmafs, and an embedded server of that build.
type build struct {
	bin          string // its directory
	host, client string // addresses of the server, and of clients by RoCE
	ca           string // file with the authority of the server's certificate
	versions     string // of NFS that the server has; "" for what it has by itself
	ports        serverPorts
	stop         func() // nil: not started yet
}

// Servers and clients on addresses of their own: RoCE has one port on each.
const (
	serverHost        = "127.77.0.1"
	clientHost        = "127.77.0.2"
	againstHost       = "127.77.0.3"
	againstClientHost = "127.77.0.4"
)

type serverPorts struct{ tcp, rdma, roce string }

// system is a mount of the build's server, with more options behind a comma if any; nil
// if there is none of that name.
func (b *build) system(name, data, mnt, more string) *compare.System {
	way, is4 := strings.CutSuffix(name, version4)
	if is4 {
		more += ",vers=4.2"
	}
	opts, ok := map[string]string{
		"iwarp": "proto=rdma,rdma=iwarp,port=" + b.ports.rdma,
		"roce":  "proto=rdma,rdma=roce,srcaddr=" + b.client + ",port=" + b.ports.roce,
		"tcp":   "proto=tcp,port=" + b.ports.tcp,
		"tls":   "proto=tcp,xprtsec=tls,xprtsec_ca=" + b.ca + ",port=" + b.ports.tcp,
	}[way]
	if !ok {
		return nil
	}
	s := rdmafs(b.bin, b.host+":"+data, opts+",mountport="+b.ports.tcp+",nolock"+more)
	s.Name, s.Dir, s.Data = name, mnt, data
	return s
}

// rdmafs is a mount by the rdmafs in a directory, of any server.
func rdmafs(bin, source, opts string) *compare.System {
	program := filepath.Join(bin, "rdmafs")
	stats := func(dir string) (r mountStats, err error) {
		out, err := exec.Command(program, "stats", "--json", dir).Output()
		if err != nil {
			return r, fmt.Errorf("rdmafs stats: %w", err)
		}
		return r, json.Unmarshal(out, &r)
	}
	return &compare.System{
		Mount:   func(dir string) error { return command(program, "mount", source, dir, "-o", opts) },
		Unmount: func(dir string) error { return command(program, "umount", dir) },
		PID: func(dir string) (int, error) {
			r, err := stats(dir)
			return r.PID, err
		},
		Calls: func(dir string) (uint64, error) {
			r, err := stats(dir)
			return r.Calls.Calls, err
		},
	}
}

// mountStats is what rdmafs stats says of any build.
type mountStats struct {
	PID   int
	Calls struct{ Calls uint64 }
}

// start runs rdmafs-nfsd until it is ready. Its certificate is in work.
func (b *build) start(export, work string) error {
	args := []string{"-export", export + ":no_root_squash,async", "-tcp", b.host + ":0", "-rdma", b.host + ":0", "-roce", b.host + ":0"}
	if b.versions != "" {
		args = append(args, "-vers", b.versions)
	}
	if b.host == serverHost { // another build may not know TLS
		ca, err := certs.Authority(work, "authority")
		if err != nil {
			return err
		}
		cert, err := ca.Sign(work, "server", certs.For(b.host))
		if err != nil {
			return err
		}
		b.ca = ca.Cert
		args = append(args, "-tls-cert", cert.Cert, "-tls-key", cert.Key)
	}
	cmd := exec.Command(filepath.Join(b.bin, "rdmafs-nfsd"), args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = child()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	p := &b.ports
	for _, w := range strings.Fields(line) {
		for name, port := range map[string]*string{"tcp=": &p.tcp, "rdma=": &p.rdma, "roce=": &p.roce} {
			if v, ok := strings.CutPrefix(w, name); ok {
				*port = v[strings.LastIndex(v, ":")+1:]
			}
		}
	}
	if err != nil || p.tcp == "" || p.rdma == "" || p.roce == "" {
		_ = cmd.Process.Kill()
		return fmt.Errorf("server did not start: %q %v", line, cmd.Wait())
	}
	b.stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	return nil
}

// child has a program end with this one, and not by a terminal's signals: it is ended
// in order when those have ended this one.
func child() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func command(name string, args ...string) error {
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
