package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ganeshaServer is an nfs-ganesha that serves a directory by NFSv3 over TCP.
type ganeshaServer struct {
	data            string
	port, mountPort int
	children        []*exec.Cmd // ended in reverse
	log             *ganeshaLog
}

// ganeshaLog waits in what ganesha logs for the line that says that it is ready.
type ganeshaLog struct {
	ready, ended chan struct{}
	last         []string // lines, after ended
}

const ganeshaReady = "NFS SERVER INITIALIZED"

// ganeshaLimit bounds how long it may take to start.
const ganeshaLimit = 30 * time.Second

func (l *ganeshaLog) runRead(out *os.File) {
	defer close(l.ended)
	defer out.Close()
	ready := l.ready
	for s := bufio.NewScanner(out); s.Scan(); {
		l.last = append(l.last[max(0, len(l.last)-4):], s.Text())
		if ready != nil && strings.Contains(s.Text(), ganeshaReady) {
			close(ready)
			ready = nil
		}
	}
}

func (g *ganeshaServer) source() string { return "127.0.0.1:" + g.data }

func (g *ganeshaServer) options() string {
	return fmt.Sprintf("proto=tcp,vers=3,port=%d,mountport=%d,nolock", g.port, g.mountPort)
}

// url is what libnfs calls the export.
func (g *ganeshaServer) url() string {
	return fmt.Sprintf("nfs://127.0.0.1%s?version=3&nfsport=%d&mountport=%d", g.data, g.port, g.mountPort)
}

// startGanesha runs ganesha.nfsd over a new directory, and an rpcbind if there is none,
// without which it does not start.
func startGanesha(work string) (_ *ganeshaServer, err error) {
	program, err := exec.LookPath("ganesha.nfsd")
	switch {
	case err != nil:
		return nil, missingError("nfs-ganesha is not installed (Debian: nfs-ganesha and nfs-ganesha-vfs)")
	case os.Geteuid() != 0:
		return nil, missingError("only root can run nfs-ganesha")
	}
	g := &ganeshaServer{data: filepath.Join(work, "ganesha")}
	defer func() {
		if err != nil {
			g.stop()
		}
	}()
	if err := os.Mkdir(g.data, 0o755); err != nil {
		return nil, err
	}
	if err := g.needRpcbind(); err != nil {
		return nil, err
	}
	for _, port := range []*int{&g.port, &g.mountPort} {
		if *port, err = freePort(); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(work, "ganesha.conf")
	conf := fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 3; NFS_Port = %d; MNT_Port = %d; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }
NFS_KRB5 { Active_krb5 = false; }
NFSv4 { RecoveryRoot = "%s"; }
EXPORT {
	Export_Id = 1; Path = "%s"; Pseudo = "/export"; Access_Type = None; Protocols = 3; Transports = TCP; SecType = sys;
	FSAL { Name = VFS; }
	CLIENT { Clients = 127.0.0.0/8; Access_Type = RW; Squash = No_Root_Squash; Protocols = 3; }
}
LOG { Default_Log_Level = EVENT; }
`, g.port, g.mountPort, work, g.data)
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-F", "-f", file, "-L", "STDOUT", "-p", filepath.Join(work, "ganesha.pid"))
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = in
	err = g.run(cmd)
	_ = in.Close()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	g.log = &ganeshaLog{ready: make(chan struct{}), ended: make(chan struct{})}
	go g.log.runRead(out)
	select {
	case <-g.log.ready:
		return g, nil
	case <-g.log.ended:
		return nil, fmt.Errorf("nfs-ganesha did not start: %s", strings.Join(g.log.last, "; "))
	case <-time.After(ganeshaLimit):
		return nil, errors.New("nfs-ganesha did not start in time")
	}
}

// needRpcbind starts an rpcbind if none answers.
func (g *ganeshaServer) needRpcbind() error {
	const addr = "127.0.0.1:111"
	answers := func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	if answers() {
		return nil
	}
	program, err := exec.LookPath("rpcbind")
	if err != nil {
		return missingError("nfs-ganesha needs rpcbind, which is not installed")
	}
	if err := g.run(exec.Command(program, "-f")); err != nil {
		return err
	}
	for deadline := time.Now().Add(ganeshaLimit); !answers(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("rpcbind did not start in time")
		}
	}
	return nil
}

// run starts a program that stop ends.
func (g *ganeshaServer) run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = child()
	err := cmd.Start()
	if err == nil {
		g.children = append(g.children, cmd)
	}
	return err
}

func (g *ganeshaServer) stop() {
	for _, c := range slices.Backward(g.children) {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	}
	if g.log != nil {
		<-g.log.ended
	}
}

// freePort is a port that nobody listens on.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return ln.Addr().(*net.TCPAddr).Port, ln.Close()
}
