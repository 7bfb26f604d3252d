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
	"slices"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/test/bench/compare"
)

// newSystems starts the embedded server and describes the mounts. stop ends
// what was started.
func newSystems(bin, work string, only []string) (systems []*compare.System, stop func(), err error) {
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
			return command(filepath.Join(bin, "rdmafs"), "mount", serverHost+":"+data, dir, "-o", opts+",mountport="+addrs.tcp)
		}
	}
	umount := func(dir string) error { return command(filepath.Join(bin, "rdmafs"), "umount", dir) }
	pid := func() (int, error) { return daemon(bin, mnt) }
	var loop *exec.Cmd
	all := []*compare.System{
		{Name: "iwarp", Dir: mnt, Mount: rdmafs("proto=rdma,rdma=iwarp,port=" + addrs.rdma), Unmount: umount, PID: pid},
		{Name: "roce", Dir: mnt, Mount: rdmafs("proto=rdma,rdma=roce,srcaddr=" + clientHost + ",port=" + addrs.roce), Unmount: umount, PID: pid},
		{Name: "tcp", Dir: mnt, Mount: rdmafs("proto=tcp,port=" + addrs.tcp), Unmount: umount, PID: pid},
		{Name: "loopback", Dir: mnt,
			Mount: func(dir string) (err error) {
				loop, err = startLoopback(filepath.Join(bin, "loopback"), dir, data)
				return err
			},
			Unmount: func(dir string) error { return stopLoopback(loop, dir) },
			PID:     func() (int, error) { return loop.Process.Pid, nil }},
	}
	for _, name := range only {
		i := slices.IndexFunc(all, func(s *compare.System) bool { return s.Name == name })
		if i < 0 {
			stop()
			return nil, nil, fmt.Errorf("no mount is called %q", name)
		}
		systems = append(systems, all[i])
	}
	return systems, stop, nil
}

// Server and client on two addresses: RoCE has one port on each.
const (
	serverHost = "127.77.0.1"
	clientHost = "127.77.0.2"
)

// daemon is the process of a rdmafs mount.
func daemon(bin, dir string) (int, error) {
	out, err := exec.Command(filepath.Join(bin, "rdmafs"), "stats", "--json", dir).Output()
	if err != nil {
		return 0, err
	}
	var r struct{ PID int }
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, err
	}
	return r.PID, nil
}

// startLoopback runs go-fuse's example and waits for its word that the mount is
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

type serverAddrs struct{ tcp, rdma, roce string } // ports

// startServer runs rdmafs-nfsd and waits for its word that it is ready.
func startServer(bin, export string) (*exec.Cmd, serverAddrs, error) {
	cmd := exec.Command(filepath.Join(bin, "rdmafs-nfsd"), "-export", export+":no_root_squash,async",
		"-tcp", serverHost+":0", "-rdma", serverHost+":0", "-roce", serverHost+":0")
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
		if v, ok := strings.CutPrefix(w, "roce="); ok {
			a.roce = v[strings.LastIndex(v, ":")+1:]
		}
	}
	if err != nil || a.tcp == "" || a.rdma == "" || a.roce == "" {
		_ = cmd.Process.Kill()
		return nil, a, fmt.Errorf("server did not start: %q %v", line, cmd.Wait())
	}
	return cmd, a, nil
}
