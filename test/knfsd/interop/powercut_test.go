//go:build knfsd

package interop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
)

const (
	blockSize = 4096
	// The first blocks are written at random, and synced now and then; the others once,
	// and not synced before the power cut.
	randomBlocks = 512
	tailBlocks   = 256
)

// block is what version v of a file's block n holds; version 0 was never written.
func block(seed, n, v uint64) []byte {
	b := make([]byte, blockSize)
	if v > 0 {
		var key [32]byte
		for i, k := range []uint64{seed, n, v} {
			binary.LittleEndian.PutUint64(key[8*i:], k)
		}
		rand.NewChaCha8(key).Read(b)
		binary.LittleEndian.PutUint64(b, v)
	}
	return b
}

// writerEnv marks a process that is a writer, by its arguments: directory of the mount,
// way, seed, and the local file of its progress.
const writerEnv = "RDMAFS_INTEROP_WRITER"

// writer is a process that writes blocks of a file on a mount, an endless sequence that its seed gives, and
// calls fsync now and then. It is a process of its own since a child of one with open files
// closes its copies of them before it becomes another program, which waits for the server.
type writer struct {
	name     string // of the file
	way      string
	seed     uint64
	progress string
	in       io.WriteCloser
	out      *bufio.Scanner
}

// progress is how many writes a writer has begun, and how many its last fsync covers.
type progress struct{ Begun, Synced uint64 }

// nextBlock is the block of the writer's write k.
func nextBlock(random *rand.Rand, k uint64) uint64 {
	if k >= tailStart && k < tailStart+tailBlocks {
		return randomBlocks + k - tailStart
	}
	return random.Uint64N(randomBlocks)
}

// tailStart is the write after which the writer writes the last blocks, once.
const tailStart = 300

// runAsWriter is the process of a writer. Each line of its input is how many writes it is
// to make; it answers when they are made. A line that ends in "!" has fsync called now and then, and at the end.
func runAsWriter(args []string) error {
	dir, way := args[0], args[1]
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "data-"+way))
	if err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(dir, "lock-"+way))
	if err != nil {
		return err
	}
	defer lock.Close() // not before: with a file that is not used any more its lock would go
	log, err := os.OpenFile(args[3], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := setLock(lock); err != nil {
		return err
	}
	var p progress
	random, syncs := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
	versions := map[uint64]uint64{}
	note := func() error {
		b, err := binary.Append(nil, binary.LittleEndian, p)
		if err == nil {
			_, err = log.WriteAt(b, 0)
		}
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		line, sync := strings.CutSuffix(in.Text(), "!")
		count, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		for i := range count {
			n := nextBlock(random, p.Begun)
			versions[n]++
			p.Begun++
			if err := note(); err != nil {
				return err
			}
			if _, err := file.WriteAt(block(seed, n, versions[n]), int64(n)*blockSize); err != nil {
				return err
			}
			if !sync || syncs.IntN(20) > 0 && i < count-1 {
				continue
			}
			if err := file.Sync(); err != nil {
				return err
			}
			p.Synced = p.Begun
			if err := note(); err != nil {
				return err
			}
		}
		fmt.Println("done")
	}
	return nil
}

func startWriter(t *testing.T, dir, way string, seed uint64) *writer {
	t.Helper()
	w := &writer{name: "data-" + way, way: way, seed: seed, progress: filepath.Join(t.TempDir(), "progress")}
	if err := os.WriteFile(w.progress, make([]byte, binary.Size(progress{})), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", dir, way, fmt.Sprint(seed), w.progress)
	cmd.Env = append(os.Environ(), writerEnv+"=1")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.out = bufio.NewScanner(out)
	if w.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = cmd.Process.Kill()
		}
		w.in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	})
	return w
}

// run asks for so many writes; with sync, for fsync now and then, and at the end.
func (w *writer) run(t *testing.T, writes int, sync bool) {
	t.Helper()
	line := fmt.Sprint(writes)
	if sync {
		line += "!"
	}
	if _, err := fmt.Fprintln(w.in, line); err != nil {
		t.Fatal(err)
	}
}

// join waits until all that run has asked for is done.
func (w *writer) join(t *testing.T) {
	t.Helper()
	if !w.out.Scan() {
		t.Fatalf("%s: the writer has ended", w.name)
	}
}

// at is how far the writer has come.
func (w *writer) at(t *testing.T) (p progress) {
	t.Helper()
	b, err := os.ReadFile(w.progress)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := binary.Decode(b, binary.LittleEndian, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// versions are those of each block that the writes so far have written, and that fsync has
// returned for.
func (w *writer) versions(p progress) (written, synced []uint64) {
	written, synced = make([]uint64, randomBlocks+tailBlocks), make([]uint64, randomBlocks+tailBlocks)
	random := rand.New(rand.NewPCG(w.seed, 0))
	for k := range p.Begun {
		n := nextBlock(random, k)
		written[n]++
		if k < p.Synced {
			synced[n]++
		}
	}
	return written, synced
}

// content is the file as it was written.
func (w *writer) content(t *testing.T) []byte {
	t.Helper()
	var all []byte
	written, _ := w.versions(w.at(t))
	for n, v := range written {
		all = append(all, block(w.seed, uint64(n), v)...)
	}
	return all
}

// stored checks what the disk has of the file: of each block the version synced, or a
// later one that was written. It returns how many blocks lack what was written, and whether the
// last ones are among them.
func (w *writer) stored(t *testing.T, p progress, disk []byte) (lost, tail int) {
	t.Helper()
	written, synced := w.versions(p)
	disk = append(disk, make([]byte, max(0, len(written)*blockSize-len(disk)))...)
	for n := range written {
		b := disk[n*blockSize : (n+1)*blockSize]
		v := binary.LittleEndian.Uint64(b)
		switch {
		case v < synced[n] || v > written[n]:
			t.Errorf("%s: block %d is of version %d; %d was synced, %d written", w.name, n, v, synced[n], written[n])
		case !bytes.Equal(b, block(w.seed, uint64(n), v)):
			t.Errorf("%s: block %d of version %d is damaged", w.name, n, v)
		}
		if v < written[n] {
			lost++
			if n >= randomBlocks {
				tail++
			}
		}
	}
	return lost, tail
}

// setLock takes an exclusive lock of the whole file, which belongs to the
// open file.
func setLock(f *os.File) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}

// asWriter does not return if this process is a writer.
func asWriter() {
	if os.Getenv(writerEnv) == "" {
		return
	}
	if err := runAsWriter(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "writer %q: %v\n", os.Args[1:], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestPowerCut: the server loses power, and with it what it had not written to its disk.
// Over each transport, what fsync has returned for is there; what was sent UNSTABLE is
// lost, and written again; locks are taken again.
func TestPowerCut(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, DiskMiB: 256})
	ctx, cancel := context.WithTimeout(context.Background(), 9*time.Minute)
	defer cancel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var writers []*writer
	var dirs []string
	// Neither a writer nor the end of its mount waits for a server that stays away.
	giveUp := sync.OnceFunc(func() {
		for _, dir := range dirs {
			mount.Command(t, inNamespace(g), "umount", "-f", dir)
		}
	})
	defer context.AfterFunc(ctx, giveUp)()
	t.Cleanup(func() {
		if t.Failed() {
			giveUp()
		}
	})

	// The kernel writes to the disk only what it is told to.
	quiet := "echo 0 >/proc/sys/vm/dirty_writeback_centisecs && echo 90 >/proc/sys/vm/dirty_background_ratio && " +
		"echo 95 >/proc/sys/vm/dirty_ratio && mount -o remount,commit=3600 /export"
	guest(t, g, quiet)
	for i, way := range tapWays {
		m := mount.Mount(t, g.GuestAddr().String()+":/export", mount.Options{Words: way.words, Wrapper: inNamespace(g)})
		dirs = append(dirs, m.Dir)
		w := startWriter(t, m.Dir, way.name, seed+uint64(i))
		writers = append(writers, w)
		w.run(t, tailStart, true)
		w.run(t, tailBlocks, false)
	}
	for _, w := range writers {
		w.join(t)
		w.join(t)
	}
	// The server has all of it, in memory.
	for _, w := range writers {
		sum := fmt.Sprintf("%x", sha256.Sum256(w.content(t)))
		guest(t, g, fmt.Sprintf("until [ $(sha256sum </export/%s | cut -c1-64) = %s ]; do sleep 0.2; done", w.name, sum))
	}
	guest(t, g, "head -c 1000000 /dev/zero | tr '\\0' x >/export/control && [ $(tr -d x </export/control | wc -c) = 0 ]")

	powerCut(ctx, t, g)
	guest(t, g, quiet)
	if left := guest(t, g, "cat /export/control 2>/dev/null | tr -dc x | wc -c"); left != "0" {
		t.Errorf("the power cut has left %s bytes of a file that was written on the server and not synced", left)
	}
	for _, w := range writers {
		lost, tail := w.stored(t, w.at(t), onDisk(t, g, w))
		t.Logf("%s: the server has lost %d blocks as last written", w.name, lost)
		if tail < tailBlocks {
			t.Errorf("%s: the server has kept %d of %d blocks that were not synced", w.name, tailBlocks-tail, tailBlocks)
		}
	}
	for _, w := range writers {
		w.run(t, 400, true)
	}
	served(ctx, t, g, dirs)

	// The second one comes while they write.
	var before []progress
	for _, w := range writers {
		w.join(t)
		before = append(before, w.at(t))
		w.run(t, 1000, true)
	}
	for i, w := range writers {
		for w.at(t).Synced == before[i].Synced && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	if err := g.PowerCut(); err != nil {
		t.Fatal(err)
	}
	// The writers may come further in the mounts' memory; fsync does not return any more.
	var at []progress
	for _, w := range writers {
		at = append(at, w.at(t))
	}
	powerOn(ctx, t, g)
	guest(t, g, quiet)
	for i, w := range writers {
		at[i].Begun = w.at(t).Begun
		lost, _ := w.stored(t, at[i], onDisk(t, g, w))
		t.Logf("%s: at the second power cut, after %d writes, the server lost %d blocks as last written", w.name, at[i].Begun, lost)
	}
	served(ctx, t, g, dirs)
	for _, w := range writers {
		w.join(t)
	}
	// What the last fsync has returned for is all that there is.
	powerCut(ctx, t, g)
	for _, w := range writers {
		p := w.at(t)
		if lost, _ := w.stored(t, p, onDisk(t, g, w)); lost > 0 || p.Synced != p.Begun {
			t.Errorf("%s: %d blocks are lost, of %d writes %d were synced", w.name, lost, p.Begun, p.Synced)
		}
	}
	served(ctx, t, g, dirs)
}

// powerCut cuts the guest's power and boots it again, without the server.
func powerCut(ctx context.Context, t *testing.T, g *knfsd.Guest) {
	t.Helper()
	if err := g.PowerCut(); err != nil {
		t.Fatal(err)
	}
	powerOn(ctx, t, g)
}

func powerOn(ctx context.Context, t *testing.T, g *knfsd.Guest) {
	t.Helper()
	if err := g.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
}

// onDisk is what the guest reads of the file, nobody having written since it was booted.
func onDisk(t *testing.T, g *knfsd.Guest, w *writer) []byte {
	t.Helper()
	guest(t, g, "cp /export/"+w.name+" /share/")
	b, err := os.ReadFile(filepath.Join(g.Share(), w.name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// served starts the server, which grants no new lock until all have been taken again. No
// mount gets the lock of another one then.
func served(ctx context.Context, t *testing.T, g *knfsd.Guest, dirs []string) {
	t.Helper()
	if err := g.StartServerInGrace(ctx); err != nil {
		t.Fatal(err)
	}
	for _, way := range tapWays {
		guest(t, g, fmt.Sprintf("i=$(stat -c %%i /export/lock-%s) && until grep -q \"POSIX.*WRITE.*:$i 0 EOF\" /proc/locks; do sleep 0.2; done", way.name))
	}
	if err := g.EndGrace(ctx); err != nil {
		t.Fatal(err)
	}
	for i, dir := range dirs {
		other := tapWays[(i+1)%len(tapWays)].name
		f, err := os.OpenFile(filepath.Join(dir, "lock-"+other), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := setLock(f); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("after the restart %s gets the lock of %s: %v", tapWays[i].name, other, err)
		}
		f.Close()
	}
}
