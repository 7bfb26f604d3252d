package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/syslog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/test/journald"
)

// sendEnv has this program send what TestJournald reads back.
const sendEnv = "RDMAFS_TEST_JOURNAL_SEND"

// huge is longer than any datagram may be.
var huge = strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB

const severalLines = "a\nb\n"

func TestMain(m *testing.M) {
	if os.Getenv(sendEnv) == "" {
		os.Exit(m.Run())
	}
	j, err := Open(Socket, Field{"SYSLOG_IDENTIFIER", "rdmafs"}, Field{"RDMAFS_MOUNTPOINT", severalLines})
	for _, message := range []string{"plain", "with\na line end", huge} {
		if err == nil {
			err = j.Send(int(syslog.LOG_WARNING), message, Field{"RDMAFS_SERVER", "srv"})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestJournald: systemd-journald keeps every field as it was sent, one with line ends and one that fits no
// datagram, too, and knows who has sent it.
func TestJournald(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := journald.Records(t, journald.Run(t, sendEnv+`=1 "$1"
journalctl --sync
journalctl --all -D /run/log/journal -o json SYSLOG_IDENTIFIER=rdmafs`, exe))
	want := []string{"plain", "with\na line end", huge}
	if len(all) != len(want) {
		t.Fatalf("%d records, want %d", len(all), len(want))
	}
	for i, r := range all {
		if got := r["MESSAGE"]; got != want[i] {
			t.Errorf("record %d: %.80v, want %.80s", i, got, want[i])
		}
		if r["PRIORITY"] != "4" || r["RDMAFS_SERVER"] != "srv" || r["RDMAFS_MOUNTPOINT"] != severalLines ||
			r["_TRANSPORT"] != "journal" || r["_UID"] != "0" || r["_PID"] == nil {
			delete(r, "MESSAGE")
			t.Errorf("record %d: %v", i, r)
		}
	}
}

// listen is a socket in journald's place.
func listen(t *testing.T) (*net.UnixConn, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := filepath.Join(dir, "socket")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, at
}

// receive is the next record, and whether it came in a file.
func receive(t *testing.T, c *net.UnixConn) (record []byte, inFile bool) {
	t.Helper()
	b, oob := make([]byte, 1<<20), make([]byte, 256)
	n, k, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		t.Fatal(err)
	}
	if k == 0 {
		return b[:n], false
	}
	messages, err := unix.ParseSocketControlMessage(oob[:k])
	if err != nil || len(messages) != 1 || n != 0 {
		t.Fatalf("%d bytes and %d control messages, %v", n, len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("%v, %v", fds, err)
	}
	f := os.NewFile(uintptr(fds[0]), "record")
	defer f.Close()
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if want := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE; err != nil || seals != want {
		t.Errorf("seals %#x, want %#x, %v", seals, want, err)
	}
	all, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	return all, true
}

// TestRecord: what travels is what the protocol says, byte by byte.
func TestRecord(t *testing.T) {
	c, at := listen(t)
	j, err := Open(at, Field{"SYSLOG_IDENTIFIER", "rdmafs"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Send(3, "hello = world", Field{"RDMAFS_X1", "a\nbc"}, Field{"EMPTY", ""}); err != nil {
		t.Fatal(err)
	}
	want := "MESSAGE=hello = world\nPRIORITY=3\nSYSLOG_IDENTIFIER=rdmafs\nRDMAFS_X1\n" +
		string(binary.LittleEndian.AppendUint64(nil, 4)) + "a\nbc\nEMPTY=\n"
	if got, file := receive(t, c); string(got) != want || file {
		t.Errorf("%q, want %q (in a file: %t)", got, want, file)
	}
	if err := j.Send(3, huge); err != nil {
		t.Fatal(err)
	}
	want = "MESSAGE=" + huge + "\nPRIORITY=3\nSYSLOG_IDENTIFIER=rdmafs\n"
	if got, file := receive(t, c); !bytes.Equal(got, []byte(want)) || !file {
		t.Errorf("%d bytes, want %d (in a file: %t)", len(got), len(want), file)
	}
}

// TestNames: what cannot be the name of a field is refused, and nothing is sent; journald would drop it, or
// take it for a field of its own.
func TestNames(t *testing.T) {
	c, at := listen(t)
	for _, name := range []string{"", "_PID", "1A", "a", "A-B", "A=B", "A\nB", strings.Repeat("A", 65)} {
		if j, err := Open(at, Field{name, "x"}); err == nil {
			j.Close()
			t.Errorf("opened with %q", name)
		}
		j, err := Open(at)
		if err != nil {
			t.Fatal(err)
		}
		if j.Send(6, "m", Field{name, "x"}) == nil {
			t.Errorf("sent with %q", name)
		}
		if err := j.Send(6, "next", Field{strings.Repeat("A", 64), "x"}); err != nil {
			t.Error(err)
		}
		if got, _ := receive(t, c); !strings.HasPrefix(string(got), "MESSAGE=next\n") {
			t.Errorf("%q was sent", got)
		}
		j.Close()
	}
}

// TestNobodyListens: without a journald there is nothing to open; where one was and is no more, records are lost
// with an error, and the next one that is there is told how many.
func TestNobodyListens(t *testing.T) {
	c, at := listen(t)
	if _, err := Open(at + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	j, err := Open(at)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for range 2 {
		if err := j.Send(6, "lost"); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("sent to nobody: %v", err)
		}
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	c, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, want := range []string{"MESSAGE=here\n", "MESSAGE=2 messages before this were lost", "MESSAGE=and on\n"} {
		switch want {
		case "MESSAGE=here\n":
			err = j.Send(6, "here")
		case "MESSAGE=and on\n":
			err = j.Send(6, "and on")
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := receive(t, c); !strings.HasPrefix(string(got), want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if err := j.Send(6, "closed"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestFull: a journald that takes nothing stops the sender once, for a bounded time, and not again before it has taken a
// record; what was lost is counted.
func TestFull(t *testing.T) {
	c, at := listen(t)
	j, err := Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	taken, lost := 0, 0
	for lost < 100 { // a hundred waits would be longer than any test may take
		switch err := j.Send(6, "m"); {
		case err == nil:
			taken++
		case errors.Is(err, unix.EAGAIN):
			lost++
		default:
			t.Fatal(err)
		}
	}
	for range taken {
		receive(t, c)
	}
	if err := j.Send(6, "again"); err != nil {
		t.Fatal(err)
	}
	receive(t, c)
	if got, _ := receive(t, c); !strings.HasPrefix(string(got), "MESSAGE=100 messages before this were lost") {
		t.Errorf("%q", got)
	}
}
