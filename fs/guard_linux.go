package fs

import (
	"os"
	"os/exec"
)

// guard is a fusermount3 that goes on after it has mounted, and unmounts what it has
// mounted when the other end of socket is closed and nobody answers for the mount: it
// outlives a process that is killed.
type guard struct {
	cmd    *exec.Cmd
	socket *os.File
}

// end ends the guard of a mount that is unmounted. A nil guard has nothing to end.
func (g *guard) end() {
	if g == nil {
		return
	}
	g.socket.Close()
	_ = g.cmd.Wait() // what it found unmounted it leaves alone
}
