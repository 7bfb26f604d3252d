package doctor

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs/rdmadev"
	"github.com/rdmafs/rdmafs/verbs/rdmadev/rdmadevtest"

	"github.com/rdmafs/rdmafs/internal/plain"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, got)
	}
}

// sample has a step of every kind.
func sample() *Report {
	terms := &Terms{Told: true, SendInline: 4096, RecvInline: 4096, OfferInvalidate: true, AgreeInvalidate: true, Asked: 128, Granted: 64}
	route := rdmadev.Route{Netdev: "eth0", Source: netip.MustParseAddr("10.99.0.1"), MTU: 1500}
	times := &Times{Calls: 200, Min: 21 * time.Microsecond, Median: 26400, P99: 61 * time.Microsecond}
	return &Report{
		Target: "server:/export",
		Sections: []Section{
			{"This machine", []Step{ok("FUSE", "file systems can be mounted"), skipped("provider ibv", "libibverbs.so.1 is not installed")}},
			{"The way to server", []Step{routeStep(netip.MustParseAddr("10.99.0.2"), route)}},
			{"rdma/iwarp to 10.99.0.2:20049", []Step{privateData(terms), {Name: "NULL call", Status: OK, Detail: times.String(), Facts: times}}},
			{"Other ways", []Step{warning("tcp:2049", "connection refused: mount does not need it", "")}},
			{"The export /export", []Step{failure("admission", `no such export: "<none>"`, "server exports: /a, /b")}},
		},
		Verdict: "mount would fail: admission: no such export",
	}
}

func TestWriteText(t *testing.T) {
	var b bytes.Buffer
	r := sample()
	for _, s := range r.Sections {
		WriteSection(&b, s)
	}
	WriteVerdict(&b, r)
	golden(t, "report.txt", b.Bytes())
}

func TestWriteJSON(t *testing.T) {
	var b bytes.Buffer
	if err := plain.WriteJSON(&b, sample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", b.Bytes())
}

// TestWriteInventory prints every kind of device, with and without windows.
func TestWriteInventory(t *testing.T) {
	root := t.TempDir()
	for _, files := range []map[string]string{rdmadevtest.RXE, rdmadevtest.SIW, rdmadevtest.MLX5} {
		rdmadevtest.Plant(t, root, files)
	}
	tree := &rdmadev.Tree{Sys: filepath.Join(root, "sys"), Dev: filepath.Join(root, "dev"), Map: rdmadevtest.Map{}}
	inv := TakeInventory(tree, func(device string) (Windows, error) {
		switch device {
		case "rxe0":
			return Windows{Type1: true, Type2B: true, Usable: true}, nil
		case "siw0":
			return Windows{}, nil
		}
		return Windows{}, os.ErrNotExist
	})
	for _, l := range inv.Devices {
		for i := range l.Nodes {
			l.Nodes[i].Path = strings.TrimPrefix(l.Nodes[i].Path, root)
		}
	}
	var b bytes.Buffer
	WriteInventory(&b, inv)
	golden(t, "devices.txt", b.Bytes())
	for _, l := range inv.Devices {
		if (l.Windows == nil) != (l.Name == "mlx5_0") || (l.Unknown == "") != (l.Windows != nil) {
			t.Errorf("%s: windows %v, %q", l.Name, l.Windows, l.Unknown)
		}
	}
}

func TestWriteInventoryOfNothing(t *testing.T) {
	root := t.TempDir()
	rdmadevtest.Plant(t, root, map[string]string{"sys/class/net/": ""})
	inv := TakeInventory(&rdmadev.Tree{Sys: filepath.Join(root, "sys"), Dev: root, Map: rdmadevtest.Map{}}, nil)
	var b bytes.Buffer
	WriteInventory(&b, inv)
	golden(t, "none.txt", b.Bytes())
}
