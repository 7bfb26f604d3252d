package knfsd

import (
	"fmt"
	"slices"
)

// Network is how the host reaches the guest.
type Network uint8

const (
	// Slirp is qemu's user network: any user may have it. The guest's TCP
	// services are forwarded from free ports of 127.0.0.1; the guest
	// reaches nothing. UDP, and so RoCE, does not cross.
	Slirp Network = iota
	// Tap is a tap device in a network namespace of the guest's own, with
	// the host at HostAddr and the guest at GuestAddr. Needs root.
	Tap
)

// Service is something in the guest that has an address.
type Service uint8

const (
	TCP     Service = iota // NFS over TCP
	SIW                    // NFS over RDMA on iWARP: a TCP port
	RXE                    // NFS over RDMA on RoCEv2: the RDMA service's port, behind UDP 4791
	Mountd                 // MOUNT over TCP
	Rpcbind                // rpcbind over TCP
	NLM                    // lock manager over TCP
	services
)

// String names the service.
func (s Service) String() string {
	if s < services {
		return [...]string{"tcp", "siw", "rxe", "mountd", "rpcbind", "nlm"}[s]
	}
	return fmt.Sprintf("service %d", uint8(s))
}

// guestPort is where the service listens inside the guest.
func (s Service) guestPort() uint16 {
	return [...]uint16{TCP: 2049, SIW: 20049, RXE: 20049, Mountd: 20048, Rpcbind: 111, NLM: 32803}[s]
}

// forwarded are the services that Slirp makes reachable.
var forwarded = []Service{TCP, SIW, Mountd, Rpcbind, NLM}

// DefaultExportOptions are those of /export when Config names none.
const DefaultExportOptions = "rw,sync,insecure,no_root_squash,no_subtree_check,fsid=1"

// Config says which guest to start. The zero value is a server on stock siw,
// rxe and TCP that anyone can start.
type Config struct {
	Network Network

	// RDMA names the devices on the guest's network card: SIW, RXE or
	// both, which is the default. With both, the kernel's own client picks
	// one by itself; name one to decide it. An empty, non-nil slice is none.
	RDMA []Service

	// RepairedSIW takes the siw driver without the defect that guest/siw
	// tells of. State which one was used with every result.
	RepairedSIW bool

	// NoServer leaves the NFS server out: the guest is only a client.
	NoServer bool

	// ExportOptions replace DefaultExportOptions. A tmpfs needs an fsid=;
	// with fsid=0 the export is also the root of NFS version 4.
	ExportOptions string

	// DiskMiB, if not zero, exports an ext4 disk of that size in place of
	// a tmpfs.
	DiskMiB int

	// TmpfsMiB is the size of the exported tmpfs; 768 by default. It counts
	// against MemoryMiB.
	TmpfsMiB int

	// MTU of both ends of the network; 1500 by default. Slirp's own end has
	// no other, so a larger one is for what stays within the guest. rxe
	// needs 4200 for packets of 4096 bytes.
	MTU int

	// Threads of the server; 8 by default.
	Threads int

	// CPUs and MemoryMiB of the guest; 2 and 2048 by default.
	CPUs, MemoryMiB int

	// Share is a host directory that the guest sees as /share. By default
	// it is a temporary one that Stop removes.
	Share string
}

func (c Config) withDefaults() Config {
	if c.RDMA == nil {
		c.RDMA = []Service{SIW, RXE}
	}
	if c.ExportOptions == "" {
		c.ExportOptions = DefaultExportOptions
	}
	for _, d := range []struct {
		field *int
		value int
	}{
		{&c.TmpfsMiB, 768},
		{&c.MTU, 1500},
		{&c.Threads, 8},
		{&c.CPUs, 2},
		{&c.MemoryMiB, 2048},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return c
}

// check is called with defaults in place.
func (c Config) check() error {
	for _, s := range c.RDMA {
		if s != SIW && s != RXE {
			return fmt.Errorf("knfsd: %v is not an RDMA device", s)
		}
	}
	for _, n := range []int{c.TmpfsMiB, c.Threads, c.CPUs, c.MemoryMiB} {
		if n < 0 {
			return fmt.Errorf("knfsd: negative size in %+v", c)
		}
	}
	switch {
	case c.Network > Tap:
		return fmt.Errorf("knfsd: unknown network %d", c.Network)
	case c.Network == Slirp && c.MTU < 1500:
		return fmt.Errorf("knfsd: user networking has no MTU below 1500")
	case c.MTU < 576 || c.MTU > 65535:
		return fmt.Errorf("knfsd: MTU %d out of range", c.MTU)
	case c.DiskMiB < 0:
		return fmt.Errorf("knfsd: disk of %d MiB", c.DiskMiB)
	}
	return nil
}

func (c Config) has(s Service) bool { return slices.Contains(c.RDMA, s) }
