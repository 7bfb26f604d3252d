package rdmadev

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Node is a character device.
type Node struct {
	Path string `json:"path"`
	// Needed: verbs go through it. The others are for subnet management.
	Needed bool `json:"needed"`
	// Usable: this user may open it. Otherwise Why is the reason.
	Usable bool   `json:"usable"`
	Why    string `json:"why,omitempty"`
}

// cmNode is the connection manager's, one for all devices.
const cmNode = "rdma_cm"

// nodes are a device's character devices. Those that verbs need are in it even
// when they are absent.
func (t *Tree) nodes(device string) []Node {
	paths := t.Map.CharDevices(device)
	for _, name := range list(t.class("infiniband_verbs")) {
		if read(t.class("infiniband_verbs", name), "ibdev") == device {
			paths = append(paths, filepath.Join(t.Dev, "infiniband", name))
		}
	}
	paths = append(paths, filepath.Join(t.Dev, "infiniband", cmNode))
	slices.Sort(paths)
	var nodes []Node
	for _, p := range slices.Compact(paths) {
		n := Node{Path: p}
		base := filepath.Base(p)
		n.Needed = base == cmNode || strings.HasPrefix(base, "uverbs")
		err := n.try()
		n.Usable = err == nil
		if err != nil {
			n.Why = err.Error()
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// try returns why the node cannot be opened, or nil. A node that verbs need is
// opened, as nothing else shows a container's device rules; of another only the
// permissions are checked, as opening an issm announces a subnet manager.
func (n *Node) try() error {
	if !n.Needed {
		return reason(unix.Faccessat(unix.AT_FDCWD, n.Path, unix.R_OK|unix.W_OK, unix.AT_EACCESS))
	}
	f, err := os.OpenFile(n.Path, os.O_RDWR, 0)
	if err != nil {
		return reason(err)
	}
	return f.Close()
}

// reason is the errno without the text around it.
func reason(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
