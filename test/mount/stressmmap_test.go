package mount

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/verbs/roce/rocetest"
)

var mmapSessions = flag.Int("stress.mmapsessions", 4, "how often TestStressMappings opens its file")

// insideStress holds the mmapRole of a process that TestStressMappings starts.
const insideStress = "RDMAFS_TEST_MMAP_STRESS"

// mmapRole is what such a process does: with mounts it uses a file on them,
// without it is the server.
type mmapRole struct {
	Seed   uint64
	Proto  string
	RoCE   bool
	More   string   // options of the mounts
	Mounts []string // of one export
	Export string   // where that is on the server
}

// mmapServer is what the server's process says when it serves.
type mmapServer struct {
	Source, Export string
	Words          [2]string // for each mount
}

// TestStressMappings: several threads use one file through mappings, with reads,
// writes and changes of its size in between, while the server delays calls, cuts
// connections and crashes.
// Reads by either way give what was stored, what msync, fsync or close has
// acknowledged is on the disk at that moment, and the other mount sees it after
// the close. The threads are a process of their own, and so is the server: the
// garbage collector of a process waits for its threads that wait for a page,
// and a server in there would wait for the collector.
func TestStressMappings(t *testing.T) {
	if s := os.Getenv(insideStress); s != "" {
		var role mmapRole
		if err := json.Unmarshal([]byte(s), &role); err != nil {
			t.Fatal(err)
		}
		if role.Mounts == nil {
			role.serve(t)
		} else {
			role.use(t)
		}
		return
	}
	first := *stressSeed
	if first == 0 {
		first = rand.Uint64()
	}
	for k, c := range []struct{ name, proto, more string }{
		{"iwarp", "rdma", ""}, {"roce", "rdma", ""}, {"tcp", "tcp", ""}, {"ring", "rdma", ",fuse=ring"},
		{"iwarp-4.2", "rdma", "," + stress4}, {"tcp-4.2", "tcp", "," + stress4},
	} {
		seed := first + uint64(k)
		t.Run(fmt.Sprintf("%s,seed=%d", c.name, seed), func(t *testing.T) {
			var s mmapServer
			p := mmapRole{Seed: seed, Proto: c.proto, RoCE: c.name == "roce", More: c.more}.start(t)
			line := p.line(t)
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatalf("the server said %q: %v", line, err)
			}
			t.Cleanup(func() { t.Log(p.end(t)) })
			role := mmapRole{Seed: seed, Export: s.Export}
			for _, words := range s.Words {
				role.Mounts = append(role.Mounts, mountRetrying(t, s.Source, words).Dir)
			}
			user := role.start(t)
			for range *mmapSessions {
				if line := user.line(t); line != "session" {
					t.Errorf("%s\n%s", line, user.end(t))
					return
				}
			}
			user.end(t)
		})
	}
}

// inside is a process that plays a role.
type inside struct {
	cmd   *exec.Cmd
	in    io.Closer
	lines chan string // of its standard output
}

// start runs this test anew with a role. The process is killed when the test
// ends, if it has not ended before.
func (role mmapRole) start(t *testing.T) *inside {
	t.Helper()
	b, err := json.Marshal(role)
	if err != nil {
		t.Fatal(err)
	}
	p := &inside{lines: make(chan string)}
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestStressMappings$",
		"-test.timeout="+flag.Lookup("test.timeout").Value.String(), fmt.Sprint("-stress.mmapsessions=", *mmapSessions))
	// More processors than threads: one that waits for a page keeps its own.
	p.cmd.Env = append(os.Environ(), BinaryEnv+"="+Binary(t), "GOMAXPROCS=8", insideStress+"="+string(b))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.runLines(bufio.NewScanner(out))
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			p.end(t)
		}
	})
	return p
}

func (p *inside) runLines(s *bufio.Scanner) {
	for s.Scan() {
		p.lines <- s.Text()
	}
	close(p.lines)
}

// line is the next line of what the process says; the process must not stand
// still.
func (p *inside) line(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			t.Fatalf("the process ended: %s", p.end(t))
		}
		return line
	case <-time.After(patience):
		where := p.threads()
		_ = p.cmd.Process.Kill()
		t.Fatalf("no session ends for %v; the threads wait in %s", patience, where)
		return ""
	}
}

// threads says where in the kernel each thread waits.
func (p *inside) threads() (all []string) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", p.cmd.Process.Pid))
	for _, name := range names {
		b, _ := os.ReadFile(name)
		all = append(all, string(b))
	}
	return all
}

// end has the process end and returns what it still said.
func (p *inside) end(t *testing.T) string {
	t.Helper()
	p.in.Close()
	var rest []string
	for line := range p.lines {
		rest = append(rest, line)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	return strings.Join(rest, "\n")
}

// serve is the server until its standard input ends.
func (role mmapRole) serve(t *testing.T) {
	w := &faultyCalls{r: rand.New(rand.NewPCG(role.Seed, 0))}
	s := startServer(t, serverOptions{lossy: true, roce: role.RoCE, faults: &nfsd.Faults{Before: w.disturb, After: w.disturb}}.with4(role.More))
	says := mmapServer{Source: s.source(), Export: s.export}
	for k := range says.Words {
		if role.RoCE && k > 0 {
			s.client = rocetest.Loopback(t)
		}
		says.Words[k] = s.words(role.Proto, "timeo=10,nconnect=2"+role.More)
	}
	if err := json.NewEncoder(os.Stdout).Encode(says); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Error(err)
	}
	fmt.Printf("%d crashes, %d connections cut\n", w.crashes.Load(), w.drops.Load())
}
