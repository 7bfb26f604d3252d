package torture

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/test/hostile"
)

// RunRandomOps is the main function of a process that uses a mount whose server
// may lie. It prints "done" after each operation, and ends when standard input
// does.
func RunRandomOps(dir string) error {
	var stop atomic.Bool
	go runStop(&stop)
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; !stop.Load(); i++ {
		hostile.RandomOp(r, filepath.Join(dir, "truth"), filepath.Join(dir, fmt.Sprint("own", i%50)))
		if _, err := fmt.Println("done"); err != nil {
			return err
		}
	}
	return nil
}

func runStop(stop *atomic.Bool) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop.Store(true)
}
