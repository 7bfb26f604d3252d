package rdmafs_test

import (
	"fmt"
	"log"
	"os"

	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// serveExample starts a server on loopback, and returns the options by which
// its export, 127.0.0.1:/export, is reached.
func serveExample() (options string, stop func()) {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "rdmafs-example.")
	must(err)
	must(os.Chmod(dir, 0o777))
	s, err := nfsd.New(nfsd.Config{Exports: []nfsd.Export{{Dir: dir, Path: "/export", Squash: nfsd.SquashNone}}})
	must(err)
	dev := iwarp.Open(iwarp.Config{})
	nfs, err := s.ListenRDMA(dev, "127.0.0.1:0", rpcrdma.ServerConfig{})
	must(err)
	mountd, err := s.ListenTCP("127.0.0.1:0")
	must(err)
	return fmt.Sprintf("rdma=iwarp,port=%d,mountport=%d", nfs.Port(), mountd.Port()), func() {
		must(s.Close())
		must(dev.Close())
		must(os.RemoveAll(dir))
	}
}
