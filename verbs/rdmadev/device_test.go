package rdmadev

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/rdmadev/rdmadevtest"
)

func tree(t *testing.T, m rdmadevtest.Map, parts ...map[string]string) *Tree {
	t.Helper()
	root := t.TempDir()
	for _, p := range parts {
		rdmadevtest.Plant(t, root, p)
	}
	return &Tree{Sys: filepath.Join(root, "sys"), Dev: filepath.Join(root, "dev"), Map: m}
}

func TestDevices(t *testing.T) {
	m := rdmadevtest.Map{Nodes: map[string][]string{}}
	tr := tree(t, m, rdmadevtest.RXE, rdmadevtest.SIW, rdmadevtest.MLX5)
	node := func(name string, needed bool, why string) Node {
		return Node{Path: filepath.Join(tr.Dev, "infiniband", name), Needed: needed, Usable: why == "", Why: why}
	}
	m.Nodes["mlx5_0"] = []string{filepath.Join(tr.Dev, "infiniband", "umad0"), filepath.Join(tr.Dev, "infiniband", "rdma_cm")}
	cm := node("rdma_cm", true, "")
	v4 := netip.MustParseAddr
	want := []Device{
		{Name: "mlx5_0", Driver: "mlx5_core", Kind: "CA", HCAType: "MT4119", Firmware: "16.35.3502", NodeGUID: "b859:9f03:0012:3456",
			Ports: []Port{{Number: 1, State: "DOWN", PhysState: "Disabled", LinkLayer: "InfiniBand", Rate: "100 Gb/sec (4X EDR)",
				GIDs: []GID{{0, v4("fe80::b859:9f03:12:3456"), "IB/RoCE v1", ""}}}},
			Nodes: []Node{cm, node("umad0", false, ""), node("uverbs2", true, "no such file or directory")}},
		{Name: "rxe0", Driver: "rdma_rxe", Software: true, Kind: "CA", NodeGUID: "5054:00ff:fe12:3456",
			Ports: []Port{{Number: 1, State: "ACTIVE", PhysState: "LinkUp", LinkLayer: "Ethernet", Rate: "2.5 Gb/sec (1X SDR)",
				GIDs: []GID{{0, v4("fe80::5054:ff:fe12:3456"), "RoCE v2", "eth0"}, {1, v4("::ffff:10.99.0.2"), "RoCE v2", "eth0"}}}},
			Nodes: []Node{cm, node("uverbs0", true, "")}},
		{Name: "siw0", Driver: "siw", Software: true, Kind: "RNIC", NodeGUID: "5054:00ff:fe12:3456",
			Ports: []Port{{Number: 1, State: "ACTIVE", PhysState: "LinkUp", LinkLayer: "Ethernet", Rate: "2.5 Gb/sec (1X SDR)",
				GIDs: []GID{{0, v4("5254:12:3456::"), "IB/RoCE v1", "eth0"}}}},
			Nodes: []Node{cm, node("uverbs1", true, "")}},
	}
	got := tr.Devices()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", asJSON(t, got), asJSON(t, want))
	}
	if a := tr.Absence(got); a != nil {
		t.Errorf("something is missing: %+v", a)
	}
}

func asJSON(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNodeNotPermitted: a node that this user may not open is reported with the
// reason.
func TestNodeNotPermitted(t *testing.T) {
	tr := tree(t, rdmadevtest.Map{}, rdmadevtest.RXE)
	path := filepath.Join(tr.Dev, "infiniband", "uverbs0")
	// Neither root nor anybody else can open a directory for writing.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range tr.Devices()[0].Nodes {
		if want := filepath.Base(n.Path) == "rdma_cm"; n.Usable != want || (n.Why == "") != want {
			t.Errorf("%+v", n)
		}
	}
}

// TestOddFiles: what the files hold is the drivers' affair, and some hold
// nothing, or go away.
func TestOddFiles(t *testing.T) {
	const dir = "sys/devices/virtual/infiniband/x/"
	for name, files := range map[string]map[string]string{
		"nothing":          {dir + "uevent": ""},
		"no ports":         {dir + "node_type": "1: CA\n", dir + "ports/README": "?"},
		"odd port numbers": {dir + "ports/one/state": "4: ACTIVE", dir + "ports/99999999999999999999/state": "?"},
		"odd GIDs": {dir + "ports/1/gids/0": "not a gid\n", dir + "ports/1/gids/x": "fe80::1\n", dir + "ports/1/gids/1": "",
			dir + "ports/1/gids/2": strings.Repeat("f", 1<<16)},
		"no newline, control characters": {dir + "fw_ver": "1.2\x1b[2J\u009b3", dir + "ports/1/state": "ACTIVE"},
		"directories for files":          {dir + "fw_ver/a": "", dir + "ports/1/state/a": "", dir + "ports/1/gids/0/a": ""},
	} {
		t.Run(name, func(t *testing.T) {
			files["sys/class/infiniband/x@"] = "../../devices/virtual/infiniband/x"
			tr := tree(t, rdmadevtest.Map{}, files)
			got := tr.Devices()
			if len(got) != 1 || got[0].Name != "x" || strings.ContainsAny(got[0].Firmware, "\x1b\u009b") {
				t.Fatalf("%+v", got)
			}
			for _, p := range got[0].Ports {
				if p.Number != 1 || len(p.GIDs) != 0 {
					t.Errorf("%+v", p)
				}
			}
		})
	}
	t.Run("a dangling device", func(t *testing.T) {
		tr := tree(t, rdmadevtest.Map{}, map[string]string{"sys/class/infiniband/gone@": "../../devices/virtual/infiniband/gone"})
		if got := tr.Devices(); len(got) != 1 || got[0].Name != "gone" || len(got[0].Ports) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAbsence(t *testing.T) {
	without := func(all map[string]string, names ...string) map[string]string {
		kept := map[string]string{}
		for k, v := range all {
			keep := true
			for _, n := range names {
				keep = keep && !strings.HasPrefix(k, n)
			}
			if keep {
				kept[k] = v
			}
		}
		return kept
	}
	// The class directory stays when its last device goes.
	noDevice := without(rdmadevtest.RXE, "sys/class/infiniband/rxe0")
	noDevice["sys/class/infiniband/"] = ""
	for _, c := range []struct {
		name        string
		files       map[string]string
		why, remedy string
	}{
		{"no sysfs", map[string]string{"dev/null": ""}, "sysfs", "mount"},
		{"no modules", map[string]string{"sys/class/net/lo": ""}, "not loaded", "modprobe"},
		{"no device", noDevice, "no device", "rdma link add"},
		{"no verbs", without(rdmadevtest.RXE, "sys/class/infiniband_verbs"), "no program", "ib_uverbs"},
		{"no connection manager", without(rdmadevtest.RXE, "sys/class/misc"), "no program", "rdma_ucm"},
		{"a container without nodes", without(rdmadevtest.RXE, "dev/"), "does not exist", "--device"},
		{"all there", rdmadevtest.RXE, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := tree(t, rdmadevtest.Map{}, c.files)
			a := tr.Absence(tr.Devices())
			if c.why == "" {
				if a != nil {
					t.Errorf("%+v", a)
				}
				return
			}
			if a == nil || !strings.Contains(a.Why, c.why) || !strings.Contains(a.Remedy, c.remedy) {
				t.Errorf("%+v does not say %q and %q", a, c.why, c.remedy)
			}
		})
	}
}

// TestOn finds devices by the network device under them.
func TestOn(t *testing.T) {
	tr := tree(t, rdmadevtest.Map{IPoIB: map[string]string{"ib0": "mlx5_0"}}, rdmadevtest.RXE, rdmadevtest.SIW, rdmadevtest.MLX5)
	devices := tr.Devices()
	for netdev, want := range map[string]string{"eth0": "rxe0 siw0", "ib0": "mlx5_0", "eth1": "", "": ""} {
		var names []string
		for _, at := range tr.On(devices, netdev) {
			names = append(names, at.Device.Name)
			if at.Port.Number != 1 {
				t.Errorf("%s: port %d", netdev, at.Port.Number)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", netdev, got, want)
		}
	}
}

// TestSystem reads this machine, whatever it has.
func TestSystem(t *testing.T) {
	tr := System()
	devices := tr.Devices()
	if len(devices) == 0 {
		if a := tr.Absence(devices); a == nil || a.Why == "" || a.Remedy == "" {
			t.Errorf("no device, and the reason is %+v", a)
		}
	}
	for _, d := range devices {
		if d.Name == "" || len(d.Ports) == 0 || len(d.Nodes) == 0 {
			t.Errorf("%+v", d)
		}
	}
	if tr.Map.DeviceOf("lo") != "" || tr.Map.DeviceOf("no-such-netdev") != "" {
		t.Error("a device stands on lo, or on none")
	}
}
