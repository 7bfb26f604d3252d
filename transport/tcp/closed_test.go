package tcp

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestGivenUpIsNotSentLater: the close of a link is a reset, so that the system
// does not go on sending calls that were sent again elsewhere. An orderly end
// would show here as the end of the stream.
func TestGivenUpIsNotSentLater(t *testing.T) {
	ended := make(chan error, 1)
	_, l := dial(t, scripted(t, func(conn net.Conn) {
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	}), Config{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server's connection ended with %v, want a reset", err)
	}
}
