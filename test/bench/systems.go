package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/test/bench/compare"
)

// loopback is the name of go-fuse's example.
const loopback = "loopback"

// build is a build of rdmafs, and an embedded server of that build.
type build struct {
	bin   string // its directory
	host  string // the server's address
	ports serverPorts
}

// Servers and client on addresses of their own: RoCE has one port on each.
const (
	serverHost  = "127.77.0.1"
	clientHost  = "127.77.0.2"
	againstHost = "127.77.0.3"
)

// before is the name of a mount of the build that is compared against.
func before(name string) string { return name + " before" }

// newSystems starts an embedded server of each build and describes the mounts:
// those of the build in against, if there is one, beside those of the one in
// bin. stop ends what was started.
func newSystems(bin, against, work string, only []string) (systems []*compare.System, stop func(), err error) {
	data := filepath.Join(work, "data")
	mnt := filepath.Join(work, "mnt")
	for _, d := range []string{data, mnt} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, nil, err
		}
	}
	var servers []*exec.Cmd
	stop = func() {
		for _, s := range servers {
			_ = s.Process.Signal(syscall.SIGTERM)
			_ = s.Wait()
		}
	}
	builds := []*build{{bin: bin, host: serverHost}}
	if against != "" {
		builds = append(builds, &build{bin: against, host: againstHost})
	}
	for _, b := range builds {
		server, err := b.startServer(data)
		if err != nil {
			stop()
			return nil, nil, err
		}
		servers = append(servers, server)
	}
	for _, name := range only {
		if name == loopback {
			systems = append(systems, newLoopback(bin, data, mnt))
			continue
		}
		for i, b := range builds {
			s := b.system(name, data, mnt)
			if s == nil {
				stop()
				return nil, nil, fmt.Errorf("no mount is called %q", name)
			}
			if i > 0 {
				s.Name = before(name)
			}
			systems = append(systems, s)
		}
	}
	return systems, stop, nil
}

// system is a mount of the build's server, nil if there is none of that name.
func (b *build) system(name, data, mnt string) *compare.System {
	opts, ok := map[string]string{
		"iwarp": "proto=rdma,rdma=iwarp,port=" + b.ports.rdma,
		"roce":  "proto=rdma,rdma=roce,srcaddr=" + clientHost + ",port=" + b.ports.roce,
		"tcp":   "proto=tcp,port=" + b.ports.tcp,
	}[name]
	if !ok {
		return nil
	}
	rdmafs := filepath.Join(b.bin, "rdmafs")
	return &compare.System{Name: name, Dir: mnt,
		Mount: func(dir string) error {
			return command(rdmafs, "mount", b.host+":"+data, dir, "-o", opts+",mountport="+b.ports.tcp)
		},
		Unmount: func(dir string) error { return command(rdmafs, "umount", dir) },
		PID:     func() (int, error) { return daemon(rdmafs, mnt) },
	}
}

func newLoopback(bin, data, mnt string) *compare.System {
	var loop *exec.Cmd
	return &compare.System{Name: loopback, Dir: mnt,
		Mount: func(dir string) (err error) {
			loop, err = startLoopback(filepath.Join(bin, "loopback"), dir, data)
			return err
		},
		Unmount: func(dir string) error { return stopLoopback(loop, dir) },
		PID:     func() (int, error) { return loop.Process.Pid, nil },
	}
}

// daemon is the process of a rdmafs mount.
func daemon(rdmafs, dir string) (int, error) {
	out, err := exec.Command(rdmafs, "stats", "--json", dir).Output()
	if err != nil {
		return 0, err
	}
	var r struct{ PID int }
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, err
	}
	return r.PID, nil
}

// startLoopback runs go-fuse's example and waits until it reports that the mount is
// usable; unmounted earlier, its own first access makes that fail.
func startLoopback(bin, dir, data string) (*exec.Cmd, error) {
	cmd := exec.Command(bin, dir, data)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		if strings.HasPrefix(s.Text(), "Mounted") {
			return cmd, nil
		}
	}
	_ = cmd.Process.Kill()
	return nil, fmt.Errorf("loopback did not mount: %v", cmd.Wait())
}

// stopLoopback unmounts dir and waits for the example to end.
func stopLoopback(cmd *exec.Cmd, dir string) error {
	if err := command("fusermount3", "-u", dir); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return errors.Join(err, command("fusermount3", "-u", "-z", dir))
	}
	return cmd.Wait()
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

type serverPorts struct{ tcp, rdma, roce string }

// startServer runs rdmafs-nfsd until it is ready.
func (b *build) startServer(export string) (*exec.Cmd, error) {
	cmd := exec.Command(filepath.Join(b.bin, "rdmafs-nfsd"), "-export", export+":no_root_squash,async",
		"-tcp", b.host+":0", "-rdma", b.host+":0", "-roce", b.host+":0")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
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
		return nil, fmt.Errorf("server did not start: %q %v", line, cmd.Wait())
	}
	return cmd, nil
}
