package knfsd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// qmp speaks to qemu's own control socket. One user at a time.
type qmp struct {
	f  *os.File
	in *bufio.Scanner
}

// maxQMPLine bounds what one answer may take.
const maxQMPLine = 1 << 20

func newQMP(f *os.File) *qmp {
	q := &qmp{f: f, in: bufio.NewScanner(f)}
	q.in.Buffer(nil, maxQMPLine)
	return q
}

type qmpMessage struct {
	QMP    json.RawMessage `json:"QMP"`
	Event  string          `json:"event"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

// next is the next message that is not an event.
func (q *qmp) next() (qmpMessage, error) {
	for q.in.Scan() {
		var m qmpMessage
		if err := json.Unmarshal(q.in.Bytes(), &m); err != nil {
			return m, fmt.Errorf("knfsd: qemu: %w", err)
		}
		if m.Event == "" {
			return m, nil
		}
	}
	if err := q.in.Err(); err != nil {
		return qmpMessage{}, fmt.Errorf("knfsd: qemu: %w", err)
	}
	return qmpMessage{}, fmt.Errorf("knfsd: qemu: %w", io.ErrUnexpectedEOF)
}

// greet takes qemu's greeting and leaves its negotiation mode.
func (q *qmp) greet(ctx context.Context) error {
	defer q.bound(ctx)()
	if m, err := q.next(); err != nil {
		return err
	} else if m.QMP == nil {
		return fmt.Errorf("knfsd: qemu sent no greeting")
	}
	_, err := q.execute("qmp_capabilities", nil)
	return err
}

// execute runs one command.
func (q *qmp) execute(command string, arguments any) (json.RawMessage, error) {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	b, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if _, err := q.f.Write(append(b, '\n')); err != nil {
		return nil, fmt.Errorf("knfsd: qemu: %w", err)
	}
	m, err := q.next()
	if err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, fmt.Errorf("knfsd: qemu: %s: %s", command, m.Error.Desc)
	}
	return m.Return, nil
}

// bound has ctx end reads and writes; the result undoes it.
func (q *qmp) bound(ctx context.Context) func() {
	stop := context.AfterFunc(ctx, func() { _ = q.f.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// forwards asks which host port leads to each guest port. The ports were left
// for the system to choose, so no other program can have taken them in between.
func (q *qmp) forwards(ctx context.Context) (map[uint16]uint16, error) {
	defer q.bound(ctx)()
	raw, err := q.execute("human-monitor-command", map[string]string{"command-line": "info usernet"})
	if err != nil {
		return nil, err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, fmt.Errorf("knfsd: qemu: %w", err)
	}
	return parseForwards(text)
}

// parseForwards reads the lines of forwarded TCP ports in qemu's table:
// protocol, descriptor, source address and port, destination address and port.
func parseForwards(table string) (map[uint16]uint16, error) {
	ports := make(map[uint16]uint16)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 6 || f[0] != "TCP[HOST_FORWARD]" {
			continue
		}
		host, err := strconv.ParseUint(f[3], 10, 16)
		if err != nil {
			return nil, fmt.Errorf("knfsd: qemu's table of ports: %w", err)
		}
		guest, err := strconv.ParseUint(f[5], 10, 16)
		if err != nil {
			return nil, fmt.Errorf("knfsd: qemu's table of ports: %w", err)
		}
		ports[uint16(guest)] = uint16(host)
	}
	return ports, nil
}
