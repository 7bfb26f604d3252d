package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/fs"
)

// system is a way to mount the one directory that all measure on.
type system struct {
	name    string
	dir     string // mount point
	mount   func(dir string) error
	unmount func(dir string) error
}

// with mounts, runs f, and unmounts.
func (s *system) with(f func() error) (err error) {
	if err := s.mount(s.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.unmount(s.dir)) }()
	return f()
}

// newSystems starts the embedded server and describes the mounts. stop ends
// what was started.
func newSystems(bin, work string) (systems []*system, stop func(), err error) {
	data := filepath.Join(work, "data")
	mnt := filepath.Join(work, "mnt")
	for _, d := range []string{data, mnt} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, nil, err
		}
	}
	server, addrs, err := startServer(bin, data)
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}
	rdmafs := func(opts string) func(string) error {
		return func(dir string) error {
			return command(filepath.Join(bin, "rdmafs"), "mount", "127.0.0.1:"+data, dir, "-o", opts)
		}
	}
	umount := func(dir string) error { return command(filepath.Join(bin, "rdmafs"), "umount", dir) }
	var loop *exec.Cmd
	systems = []*system{
		{"iwarp", mnt, rdmafs("proto=rdma,rdma=iwarp,port=" + addrs.rdma + ",mountport=" + addrs.tcp), umount},
		{"tcp", mnt, rdmafs("proto=tcp,port=" + addrs.tcp + ",mountport=" + addrs.tcp), umount},
		{"loopback", mnt,
			func(dir string) (err error) {
				loop = exec.Command(filepath.Join(bin, "loopback"), dir, data)
				loop.Stdout, loop.Stderr = os.Stderr, os.Stderr
				if err := loop.Start(); err != nil {
					return err
				}
				return awaitMount(dir)
			},
			func(dir string) error {
				err := command("fusermount3", "-u", dir)
				return errors.Join(err, loop.Wait())
			}},
	}
	return systems, stop, nil
}

// awaitMount returns when something is mounted on dir. The loopback example has
// no other sign of being ready, so the mount table is watched.
func awaitMount(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if _, ok, err := fs.FindMount(dir); ok || err != nil {
			return err
		}
		if err := pollMountTable(f, time.Second); err != nil {
			return err
		}
	}
	return fmt.Errorf("nothing was mounted on %s", dir)
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

type serverAddrs struct{ tcp, rdma string } // ports

// startServer runs rdmafs-nfsd and waits for its word that it is ready.
func startServer(bin, export string) (*exec.Cmd, serverAddrs, error) {
	cmd := exec.Command(filepath.Join(bin, "rdmafs-nfsd"), "-export", export+":no_root_squash,async", "-tcp", "127.0.0.1:0", "-rdma", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, serverAddrs{}, err
	}
	if err := cmd.Start(); err != nil {
		return nil, serverAddrs{}, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var a serverAddrs
	for _, w := range strings.Fields(line) {
		if v, ok := strings.CutPrefix(w, "tcp="); ok {
			a.tcp = v[strings.LastIndex(v, ":")+1:]
		}
		if v, ok := strings.CutPrefix(w, "rdma="); ok {
			a.rdma = v[strings.LastIndex(v, ":")+1:]
		}
	}
	if err != nil || a.tcp == "" || a.rdma == "" {
		_ = cmd.Process.Kill()
		return nil, a, fmt.Errorf("server did not start: %q %v", line, cmd.Wait())
	}
	return cmd, a, nil
}
