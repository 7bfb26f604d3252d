//go:build knfsd

package knfsd

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestScratch(t *testing.T) {
	c := Config{RDMA: []Service{RXE}, MTU: 4200, MemoryMiB: 3072}
	if os.Getenv("SCRATCH_DEV") == "siw" {
		c.RDMA = []Service{SIW}
	}
	g := StartTest(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	for _, p := range []Program{{Package: "github.com/rdmafs/rdmafs/cmd/rdmafs"}, {Package: "github.com/rdmafs/rdmafs/test/bench/scratch"}} {
		n, err := g.Install(ctx, p)
		t.Log(n, err)
	}
	b, _ := os.ReadFile(os.Getenv("SCRATCH"))
	out, code, err := g.Run(ctx, string(b))
	t.Logf("%v %v\n%s", code, err, out)
	if err != nil {
		t.Log(g.Console())
	}
}
