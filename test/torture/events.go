package torture

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// A worker's events are lines, each written before or after what it reports.
const (
	evOpen   = "open"   // file, id, low, others, path: a new file
	evWrite  = "write"  // file, off, n, number: about to write
	evDone   = "done"   // file: the write has succeeded
	evSync   = "sync"   // file: about to sync or close
	evAck    = "ack"    // file: sync or close has succeeded
	evError  = "error"  // file, errno, what: an error was reported
	evBegin  = "begin"  // file, path=state|state …: a call on names is about to be made
	evEnd    = "end"    // file, true or false: it was done
	evRead   = "read"   // file: something was read and compared
	evBad    = "bad"    // text: what was read is wrong
	evFinish = "finish" // the worker has closed everything
)

// eventWriter writes events. Each is one write of less than a pipe takes at once.
type eventWriter struct{ mu sync.Mutex }

func (t *eventWriter) emit(words ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = os.Stdout.WriteString(strings.TrimSuffix(fmt.Sprintln(words...), "\n") + "\n")
}

// number of an error, 0 when it has none.
func number(err error) syscall.Errno {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return 0
}
