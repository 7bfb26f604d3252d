package doctor

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/verbs/rdmadev"
)

// Windows says what kinds of memory window a device has.
type Windows struct {
	Type1  bool `json:"type_1"`
	Type2A bool `json:"type_2a"`
	Type2B bool `json:"type_2b"`
	// Usable: one of type 2 could be made.
	Usable bool `json:"usable"`
}

func (w Windows) String() string {
	var kinds []string
	for _, k := range []struct {
		name string
		has  bool
	}{{"1", w.Type1}, {"2A", w.Type2A}, {"2B", w.Type2B}} {
		if k.has {
			kinds = append(kinds, k.name)
		}
	}
	switch {
	case w.Usable:
		return "type " + strings.Join(kinds, ", ") + ": a key for each call, which the server may invalidate"
	case len(kinds) > 0:
		return "type " + strings.Join(kinds, ", ") + ", which cannot be used: keys last as long as the connection"
	}
	return "none: keys last as long as the connection"
}

// AskWindows asks a device by name.
type AskWindows func(device string) (Windows, error)

// Inventory is the RDMA devices of this machine.
type Inventory struct {
	Devices []Listed        `json:"devices"`
	Modules rdmadev.Modules `json:"modules"`
	// Absence is why programs cannot use any, nil if they can.
	Absence *rdmadev.Absence `json:"absence,omitempty"`
}

// Listed is a device with what sysfs does not have.
type Listed struct {
	rdmadev.Device
	// Windows is nil when they are not known; Unknown says why.
	Windows *Windows `json:"windows"`
	Unknown string   `json:"windows_unknown,omitempty"`
}

// TakeInventory reads a tree, and asks each device for its windows.
func TakeInventory(t *rdmadev.Tree, ask AskWindows) *Inventory {
	devices := t.Devices()
	inv := &Inventory{Devices: []Listed{}, Modules: t.Modules(), Absence: t.Absence(devices)}
	for _, d := range devices {
		l := Listed{Device: d}
		if w, err := ask(d.Name); err != nil {
			l.Unknown = err.Error()
		} else {
			l.Windows = &w
		}
		inv.Devices = append(inv.Devices, l)
	}
	return inv
}

// WriteInventory prints it for people.
func WriteInventory(to io.Writer, inv *Inventory) {
	for i := range inv.Devices {
		if i > 0 {
			fmt.Fprintln(to)
		}
		writeDevice(to, &inv.Devices[i])
	}
	if a := inv.Absence; a != nil {
		if len(inv.Devices) > 0 {
			fmt.Fprintln(to)
		}
		plain.Fprintf(to, "No RDMA device can be used: %s.\n  -> %s\n", a.Why, a.Remedy)
	}
}

func writeDevice(to io.Writer, d *Listed) {
	kind := []string{}
	for _, k := range []string{d.Driver, d.HCAType, d.Kind} {
		if k != "" {
			kind = append(kind, k)
		}
	}
	if d.Software {
		kind = append(kind, "software")
	}
	plain.Fprintf(to, "%s (%s)\n", d.Name, strings.Join(kind, ", "))
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	defer w.Flush()
	line := func(name, format string, args ...any) {
		plain.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if d.Firmware != "" {
		line("firmware", "%s", d.Firmware)
	}
	line("node GUID", "%s", d.NodeGUID)
	for _, p := range d.Ports {
		line(fmt.Sprintf("port %d", p.Number), "%s (%s), %s, %s", strings.ToLower(p.State), p.PhysState, p.LinkLayer, p.Rate)
		for _, g := range p.GIDs {
			what := g.GID.String()
			if g.GID.Is4In6() {
				what = g.GID.Unmap().String()
			}
			for _, more := range []string{g.Type, g.Netdev} {
				if more != "" {
					what += ", " + more
				}
			}
			line(fmt.Sprintf("GID %d", g.Index), "%s", what)
		}
	}
	for _, n := range d.Nodes {
		switch {
		case n.Usable:
			line(n.Path, "you may open it")
		case n.Needed:
			line(n.Path, "you may not open it: %s", n.Why)
		default:
			line(n.Path, "you may not open it (and need not)")
		}
	}
	if d.Windows != nil {
		line("windows", "%s", d.Windows)
	} else {
		line("windows", "not known: %s", d.Unknown)
	}
}
