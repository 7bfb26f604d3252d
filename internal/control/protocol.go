package control

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// AnswerTimeout is how long a client waits for what a daemon answers at once, and a
// daemon for a request.
const AnswerTimeout = 10 * time.Second

// writeTimeout bounds a daemon's writing of a line: it fits the socket, or the
// client does not read.
const writeTimeout = time.Second

// The bounds of a request and an answer, in bytes.
const (
	maxRequest = 64 + maxOptions
	maxOptions = 4096 // as mount(2) takes
	maxAnswer  = 1 << 20
)

// What a daemon says on a connection that it holds.
const (
	waiting = "waiting" // from here on its end is seen
	done    = "done"    // what was asked for is done
	ok      = "ok"      // it was done at once
)

// logPrefix stands before the level in a request that changes what is logged.
const logPrefix = "log="

// socketName is the name of the socket for a mount point, in a directory of
// sockets.
func socketName(mountPoint string) string {
	sum := sha256.Sum256([]byte(mountPoint))
	return fmt.Sprintf("%x.sock", sum[:8])
}
