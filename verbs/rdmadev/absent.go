package rdmadev

import "path/filepath"

// Absence is why there is nothing to work with, and what may help.
type Absence struct {
	Why    string `json:"why"`
	Remedy string `json:"remedy"`
}

// Modules lists which parts of the kernel's RDMA are there. Modules that are
// built in show in their classes, too.
type Modules struct {
	Core  bool `json:"ib_core"`   // devices
	Verbs bool `json:"ib_uverbs"` // their use by programs
	CM    bool `json:"rdma_ucm"`  // connections by programs
}

// Modules looks for the kernel's RDMA.
func (t *Tree) Modules() Modules {
	return Modules{
		Core:  exists(t.class("infiniband")),
		Verbs: exists(t.class("infiniband_verbs")),
		CM:    exists(t.class("misc", cmNode)),
	}
}

// Absence says why programs cannot use any RDMA device; nil when nothing is
// missing on the way to devices.
func (t *Tree) Absence(devices []Device) *Absence {
	m := t.Modules()
	switch {
	case !exists(filepath.Join(t.Sys, "class")):
		return &Absence{"sysfs is not mounted on " + t.Sys, "mount -t sysfs sysfs " + t.Sys}
	case !m.Core:
		return &Absence{"the kernel's RDMA support is not loaded",
			"as root: modprobe -a ib_uverbs rdma_ucm, and the adapter's driver (in a container: on the host)"}
	case len(devices) == 0:
		return &Absence{"the kernel's RDMA support is loaded, but there is no device",
			"load the adapter's driver; or make a software device as root: rdma link add rxe0 type rxe netdev eth0 " +
				"(a container sees a device only with its network device: rdma system show)"}
	case !m.Verbs || !m.CM:
		return &Absence{"there are devices, but the kernel offers them to no program",
			"as root: modprobe -a ib_uverbs rdma_ucm"}
	case !exists(filepath.Join(t.Dev, "infiniband")):
		return &Absence{filepath.Join(t.Dev, "infiniband") + " does not exist, though the kernel has devices",
			"give the container the nodes: --device=/dev/infiniband/uverbs0 --device=/dev/infiniband/rdma_cm"}
	}
	return nil
}
