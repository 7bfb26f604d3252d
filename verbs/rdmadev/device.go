package rdmadev

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Device is an RDMA device. Text that the kernel does not give is empty.
type Device struct {
	Name string `json:"name"`
	// Driver is the kernel module of the device.
	Driver string `json:"driver,omitempty"`
	// Software: no adapter stands behind it (rxe, siw).
	Software bool `json:"software"`
	// Kind is the node type: "CA", "RNIC", …
	Kind     string `json:"kind,omitempty"`
	HCAType  string `json:"hca_type,omitempty"`
	Firmware string `json:"firmware,omitempty"`
	NodeGUID string `json:"node_guid,omitempty"`
	Ports    []Port `json:"ports"`
	// Nodes are the character devices that lead to it.
	Nodes []Node `json:"nodes"`
}

// Port is a port of a device.
type Port struct {
	Number int `json:"number"`
	// State and PhysState are the kernel's words: "ACTIVE", "LinkUp", …
	State     string `json:"state,omitempty"`
	PhysState string `json:"phys_state,omitempty"`
	LinkLayer string `json:"link_layer,omitempty"` // "InfiniBand", "Ethernet"
	Rate      string `json:"rate,omitempty"`
	GIDs      []GID  `json:"gids"`
}

// GID is an entry of a port's table that is in use.
type GID struct {
	Index int        `json:"index"`
	GID   netip.Addr `json:"gid"`
	// Type is "RoCE v2", "IB/RoCE v1", …
	Type   string `json:"type,omitempty"`
	Netdev string `json:"netdev,omitempty"`
}

// Active reports whether the port carries data.
func (p *Port) Active() bool { return p.State == "ACTIVE" }

// Netdevs are the network devices of the port's GIDs.
func (p *Port) Netdevs() []string {
	var names []string
	for _, g := range p.GIDs {
		if g.Netdev != "" && !slices.Contains(names, g.Netdev) {
			names = append(names, g.Netdev)
		}
	}
	return names
}

// Tree is where to read. System is the kernel's.
type Tree struct {
	Sys string // where sysfs is
	Dev string // where device nodes are
	Map Mapper
}

// Mapper finds what the class directories show only indirectly.
type Mapper interface {
	// CharDevices are the paths of a device's character devices.
	CharDevices(device string) []string
	// DeviceOf is the RDMA device of a network device; "" if it has none.
	DeviceOf(netdev string) string
}

// System is this machine's tree.
func System() *Tree { return &Tree{Sys: "/sys", Dev: "/dev", Map: rdmaMap{}} }

func (t *Tree) class(parts ...string) string {
	return filepath.Join(append([]string{t.Sys, "class"}, parts...)...)
}

// Devices reads all devices, in the order of their names.
func (t *Tree) Devices() []Device {
	var found []Device
	for _, name := range list(t.class("infiniband")) {
		found = append(found, t.device(name))
	}
	return found
}

func (t *Tree) device(name string) Device {
	dir := t.class("infiniband", name)
	d := Device{
		Name:     name,
		Kind:     afterColon(read(dir, "node_type")),
		HCAType:  read(dir, "hca_type"),
		Firmware: read(dir, "fw_ver"),
		NodeGUID: read(dir, "node_guid"),
		Nodes:    t.nodes(name),
	}
	d.Driver, d.Software = t.driver(dir, d.Kind)
	for _, p := range list(filepath.Join(dir, "ports")) {
		if n, err := strconv.Atoi(p); err == nil {
			d.Ports = append(d.Ports, readPort(filepath.Join(dir, "ports", p), n))
		}
	}
	slices.SortFunc(d.Ports, func(a, b Port) int { return a.Number - b.Number })
	return d
}

// driver is the module that made the device. Adapters name it; software
// devices, which hang in devices/virtual, do not, but only rxe has the file
// "parent" and only siw is a virtual RNIC.
func (t *Tree) driver(dir, kind string) (name string, software bool) {
	if to, err := os.Readlink(filepath.Join(dir, "device", "driver")); err == nil {
		return filepath.Base(to), false
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !strings.Contains(real, "/devices/virtual/") {
		return "", false
	}
	switch {
	case read(dir, "parent") != "":
		return "rdma_rxe", true
	case kind == "RNIC":
		return "siw", true
	}
	return "", true
}

func readPort(dir string, n int) Port {
	p := Port{
		Number:    n,
		State:     afterColon(read(dir, "state")),
		PhysState: afterColon(read(dir, "phys_state")),
		LinkLayer: read(dir, "link_layer"),
		Rate:      read(dir, "rate"),
	}
	for _, name := range list(filepath.Join(dir, "gids")) {
		index, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		gid, err := netip.ParseAddr(read(dir, "gids", name))
		if err != nil || gid.IsUnspecified() {
			continue // not in use
		}
		p.GIDs = append(p.GIDs, GID{
			Index:  index,
			GID:    gid,
			Type:   read(dir, "gid_attrs", "types", name),
			Netdev: read(dir, "gid_attrs", "ndevs", name),
		})
	}
	slices.SortFunc(p.GIDs, func(a, b GID) int { return a.Index - b.Index })
	return p
}
