package rights

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// User is who does something.
type User struct {
	Name     string
	UID, GID uint32
	Groups   []uint32
}

// The users of the scripts. Files belong to Owner and the group that Member has as his
// first, and Supplementary among others.
var (
	Root          = User{"root", 0, 0, nil}
	Owner         = User{"owner", 5001, 6001, nil}
	Member        = User{"member", 5002, 6002, nil}
	Supplementary = User{"supplementary", 5003, 6003, []uint32{6009, 6002}}
	// Other is nobody, whom servers make of users that they squash.
	Other = User{"other", 65534, 65534, nil}
)

// Users are those that scripts run as.
var Users = []User{Root, Owner, Member, Supplementary, Other}

// workerEnv marks a process that Run has started.
const workerEnv = "RDMAFS_TEST_RIGHTS_WORKER"

// Worker serves requests if this process is a user's, and does not return then.
func Worker() {
	if os.Getenv(workerEnv) == "" {
		return
	}
	syscall.Umask(0)
	var w worker
	in, out := gob.NewDecoder(bufio.NewReader(os.Stdin)), gob.NewEncoder(os.Stdout)
	for {
		var r Step
		if err := in.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				os.Exit(0)
			}
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := out.Encode(w.do(&r)); err != nil {
			os.Exit(1)
		}
	}
}

// process is the worker of one user.
type process struct {
	mu  sync.Mutex
	in  *gob.Decoder
	out *gob.Encoder
}

// start starts a worker, which ends with the test.
func start(t testing.TB, u User) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Users other than root may not be able to reach the file.
	self, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = append(os.Environ(), workerEnv+"=1")
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("worker of %s: %v", u.Name, err)
		}
	})
	return &process{in: gob.NewDecoder(bufio.NewReader(stdout)), out: gob.NewEncoder(stdin)}
}

// do has the worker carry a step out.
func (p *process) do(t testing.TB, s *Step) (r Result) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.out.Encode(s); err != nil {
		t.Fatal(err)
	}
	if err := p.in.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}
