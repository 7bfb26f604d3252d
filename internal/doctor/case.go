package doctor

import (
	"context"
	"net/netip"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/rdmadev"
)

// Case is what is to be examined. Its functions are those of the mount.
type Case struct {
	// Target is the argument as given, "" to examine this machine alone; Host
	// is its server, Export its path, "" when only a server was named.
	Target, Host, Export string
	// Words are the mount options as given.
	Words string
	// Version is that of NFS, 3 or 4, and 0 for the highest that the server has.
	Version uint32
	// Timeout bounds each attempt to connect and what is asked over the connection.
	Timeout time.Duration
	// Cred is the user whose rights in the export are asked for. Write: a file may be made
	// there and removed again, to move data both ways, and to be locked. Locks: the
	// options have locks taken at the server.
	Cred  nfsclient.Cred
	Write bool
	Locks bool

	// Fuse checks what mount checks before it starts.
	Fuse func() error
	// Rings looks whether requests can come by io_uring. RingsChosen: the mount's
	// options insist on it.
	Rings       func() error
	RingsChosen bool
	// Devices is where the kernel's RDMA devices are, Memory what this process
	// may lock for them.
	Devices *rdmadev.Tree
	Memory  Memory
	// Libraries finds a shared library, "" when it is not installed.
	Libraries func(name string) string

	Providers []Provider
	// RDMA: the options let the mount use RDMA.
	RDMA bool

	Resolve func(ctx context.Context) ([]netip.Addr, error)
	Route   func(to netip.Addr) (rdmadev.Route, error)
	// Kerberos looks at what calls with sec=krb5 and the like need; nil with other options.
	Kerberos func(ctx context.Context) []Finding
	// Ways are all ways to the server, those that the mount may take in the
	// order in which it tries them.
	Ways []Way
	// Exports lists what the server at an address exports.
	Exports func(ctx context.Context, at netip.Addr) ([]Export, error)
	// Trial mounts as the command does, and undoes it. detail is how the
	// mount would travel.
	Trial func(ctx context.Context) (detail string, err error)
	// Explain takes an error of these functions apart.
	Explain func(err error) (what, remedy string)
}

// Memory is what a mount makes of the limit on locked memory.
type Memory struct {
	// Limit is in bytes, NoLimit if there is none.
	Limit uint64
	// Note is what the limit costs the mount, Err why it is too low.
	Note string
	Err  error
}

// NoLimit stands for no limit.
const NoLimit = 1<<64 - 1

// Provider is a provider of RDMA that this build has.
type Provider struct {
	Name string
	// Devices: it works through the kernel's RDMA devices.
	Devices bool
	// Chosen: the mount's options allow it.
	Chosen bool
	// Needs says what it needs, and Missing what of it this machine lacks.
	Needs   string
	Missing func() error
}

// Way is one way for RPCs to reach the server.
type Way struct {
	Name string // "rdma/iwarp", "tcp"
	Port uint16
	// Chosen: the mount may take it. Otherwise Options are the mount options
	// that would make it.
	Chosen  bool
	Options string
	// Open prepares the way to an address. An error says why this machine has
	// none.
	Open func(ctx context.Context, at netip.Addr) (Contact, error)
}

// Contact is a way to one address. Every Contact must be closed.
type Contact interface {
	// Connect makes a connection. Errors are those that mount would give.
	Connect(ctx context.Context) (transport.Link, error)
	// Terms are what set-up settled; nil where there is nothing to settle.
	Terms(l transport.Link) *Terms
	// Encryption is what the connection agreed on; nil where it is in clear text.
	Encryption() *Encryption
	// Versions asks for the versions of RPC-over-RDMA, on a connection of its
	// own.
	Versions(ctx context.Context) (low, high uint32, err error)
	// Mount asks for the export and for the server's limits over this way.
	// detail is what the server said. Links must have been closed; of the
	// above, nothing may follow.
	Mount(ctx context.Context) (detail string, err error)
	// Compounds are the calls of NFS version 4 so far, which Mount and Client have made; none with version 3.
	Compounds() []Compound
	// Client is the export, once Mount has succeeded.
	Client() nfsclient.Client
	// LoweredMTU is the path MTU that was found to be the largest that passes, 0
	// if the route's is good.
	LoweredMTU() int
	Close()
}

// Compound is a call of NFS version 4: the operation that it was made for, by name, and what became of it.
type Compound struct {
	Op string
	// Status is the server's answer by name, without NFS4ERR_; "" for success. Err is why there was none.
	Status string
	Err    error
}

// Terms are what set-up of an RDMA connection settled, and credits.
type Terms struct {
	// Told: the server showed private data of RFC 8797.
	Told       bool `json:"private_data"`
	SendInline int  `json:"inline_send"`
	RecvInline int  `json:"inline_receive"`
	// OfferInvalidate and AgreeInvalidate are the R bits of both sides.
	OfferInvalidate bool `json:"remote_invalidation_offered"`
	AgreeInvalidate bool `json:"remote_invalidation_agreed"`
	Asked           int  `json:"credits_asked"`
	Granted         int  `json:"credits_granted"`
}

// Encryption is how a connection is encrypted.
type Encryption struct {
	// What tells of it. Until is when the first of the server's certificates ends.
	What  string    `json:"what"`
	Until time.Time `json:"until"`
	// ExposedKey is the file of this host's private key, if others may read it.
	ExposedKey string `json:"exposed_key,omitempty"`
}

// Export is a line of the server's list.
type Export struct {
	Path   string   `json:"path"`
	Groups []string `json:"groups,omitempty"`
}
