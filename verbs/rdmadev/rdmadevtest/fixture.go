// Package rdmadevtest makes trees of files as the kernel shows RDMA devices, for
// tests of what reads them.
package rdmadevtest

import (
	"os"
	"path/filepath"
	"testing"
)

// Plant makes a tree of files; a name that ends in "@" is a symbolic link to
// its text, one that ends in "/" an empty directory.
func Plant(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		link := name[len(name)-1] == '@'
		if link {
			name = name[:len(name)-1]
		}
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case link:
			err = os.Symlink(text, path)
		case name[len(name)-1] == '/':
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Map stands for rdmamap, which knows the real directories only.
type Map struct {
	Nodes map[string][]string
	IPoIB map[string]string
}

// CharDevices implements rdmadev.Mapper.
func (m Map) CharDevices(device string) []string { return m.Nodes[device] }

// DeviceOf implements rdmadev.Mapper.
func (m Map) DeviceOf(netdev string) string { return m.IPoIB[netdev] }

// What follows are the files of three kinds of device, as Linux 6.12 lays them
// out: below devices/virtual for software, below the PCI function for adapters,
// and linked from the class.

const zeroGID = "0000:0000:0000:0000:0000:0000:0000:0000\n"

// RXE is rxe0, a software RoCE device on eth0 with 10.99.0.2, and its nodes.
var RXE = map[string]string{
	"sys/class/infiniband/rxe0@":                                    "../../devices/virtual/infiniband/rxe0",
	"sys/devices/virtual/infiniband/rxe0/parent":                    "eth0\n",
	"sys/devices/virtual/infiniband/rxe0/node_type":                 "1: CA\n",
	"sys/devices/virtual/infiniband/rxe0/node_guid":                 "5054:00ff:fe12:3456\n",
	"sys/devices/virtual/infiniband/rxe0/fw_ver":                    "\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/state":             "4: ACTIVE\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/phys_state":        "5: LinkUp\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/link_layer":        "Ethernet\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/rate":              "2.5 Gb/sec (1X SDR)\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/gids/0":            "fe80:0000:0000:0000:5054:00ff:fe12:3456\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/gids/1":            "0000:0000:0000:0000:0000:ffff:0a63:0002\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/gids/2":            zeroGID,
	"sys/devices/virtual/infiniband/rxe0/ports/1/gids/10":           zeroGID,
	"sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/types/0": "RoCE v2\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/types/1": "RoCE v2\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/ndevs/0": "eth0\n",
	"sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/ndevs/1": "eth0\n",
	"sys/class/infiniband_verbs/abi_version":                        "6\n",
	"sys/class/infiniband_verbs/uverbs0@":                           "../../devices/virtual/infiniband_verbs/uverbs0",
	"sys/devices/virtual/infiniband_verbs/uverbs0/ibdev":            "rxe0\n",
	"sys/devices/virtual/infiniband_verbs/uverbs0/dev":              "231:192\n",
	"sys/class/misc/rdma_cm@":                                       "../../devices/virtual/misc/rdma_cm",
	"sys/devices/virtual/misc/rdma_cm/dev":                          "10:122\n",
	"dev/infiniband/uverbs0":                                        "",
	"dev/infiniband/rdma_cm":                                        "",
}

// SIW is siw0, a software iWARP device on eth0.
var SIW = map[string]string{
	"sys/class/infiniband/siw0@":                                    "../../devices/virtual/infiniband/siw0",
	"sys/devices/virtual/infiniband/siw0/node_type":                 "4: RNIC\n",
	"sys/devices/virtual/infiniband/siw0/node_guid":                 "5054:00ff:fe12:3456\n",
	"sys/devices/virtual/infiniband/siw0/fw_ver":                    "\n",
	"sys/devices/virtual/infiniband/siw0/ports/1/state":             "4: ACTIVE\n",
	"sys/devices/virtual/infiniband/siw0/ports/1/phys_state":        "5: LinkUp\n",
	"sys/devices/virtual/infiniband/siw0/ports/1/link_layer":        "Ethernet\n",
	"sys/devices/virtual/infiniband/siw0/ports/1/rate":              "2.5 Gb/sec (1X SDR)\n",
	"sys/devices/virtual/infiniband/siw0/ports/1/gids/0":            "5254:0012:3456:0000:0000:0000:0000:0000\n",
	"sys/devices/virtual/infiniband/siw0/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
	"sys/devices/virtual/infiniband/siw0/ports/1/gid_attrs/ndevs/0": "eth0\n",
	"sys/devices/virtual/infiniband_verbs/uverbs1/ibdev":            "siw0\n",
	"sys/class/infiniband_verbs/uverbs1@":                           "../../devices/virtual/infiniband_verbs/uverbs1",
	"dev/infiniband/uverbs1":                                        "",
}

const pci = "sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/"

// MLX5 is mlx5_0, an InfiniBand adapter whose port is down and whose uverbs
// node is missing.
var MLX5 = map[string]string{
	"sys/class/infiniband/mlx5_0@":                      "../../devices/pci0000:00/0000:00:02.0/0000:03:00.0/infiniband/mlx5_0",
	pci + "driver@":                                     "../../../../bus/pci/drivers/mlx5_core",
	pci + "infiniband/mlx5_0/device@":                   "../../../0000:03:00.0",
	pci + "infiniband/mlx5_0/node_type":                 "1: CA\n",
	pci + "infiniband/mlx5_0/node_guid":                 "b859:9f03:0012:3456\n",
	pci + "infiniband/mlx5_0/fw_ver":                    "16.35.3502\n",
	pci + "infiniband/mlx5_0/hca_type":                  "MT4119\n",
	pci + "infiniband/mlx5_0/ports/1/state":             "1: DOWN\n",
	pci + "infiniband/mlx5_0/ports/1/phys_state":        "3: Disabled\n",
	pci + "infiniband/mlx5_0/ports/1/link_layer":        "InfiniBand\n",
	pci + "infiniband/mlx5_0/ports/1/rate":              "100 Gb/sec (4X EDR)\n",
	pci + "infiniband/mlx5_0/ports/1/gids/0":            "fe80:0000:0000:0000:b859:9f03:0012:3456\n",
	pci + "infiniband/mlx5_0/ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
	"sys/class/infiniband_verbs/uverbs2@":               "../../devices/pci0000:00/0000:00:02.0/0000:03:00.0/infiniband_verbs/uverbs2",
	pci + "infiniband_verbs/uverbs2/ibdev":              "mlx5_0\n",
	"sys/bus/pci/drivers/mlx5_core/uevent":              "",
	"dev/infiniband/umad0":                              "",
}
