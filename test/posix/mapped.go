package posix

import (
	"io"
	"os"
)

// Store copies b into a mapping of a file. The pages are faulted in by the
// kernel, within a system call: a goroutine that touched them itself could not
// be stopped until the server has answered, the garbage collector would wait
// for it, and a server in this process for the collector. b must fit a pipe.
func Store(mapping, b []byte) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.Write(b); err != nil {
		return err
	}
	_, err = io.ReadFull(r, mapping[:len(b)])
	return err
}
