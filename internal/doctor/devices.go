package doctor

import (
	"fmt"
	"strings"

	"github.com/rdmafs/rdmafs/verbs/rdmadev"
)

// libraries are rdma-core's, which a provider for RDMA devices loads.
var libraries = []string{"libibverbs.so.1", "librdmacm.so.1"}

// severity is the status of a step when the kernel's RDMA devices do not work.
func (e *examination) severity() Status {
	s := Warning
	for _, p := range e.Providers {
		switch {
		case !e.RDMA || !p.Chosen:
		case !p.Devices:
			return Warning // it needs none
		default:
			s = Failure
		}
	}
	return s
}

// deviceProvider reports whether this build can use the kernel's devices.
func (e *examination) deviceProvider() bool {
	for _, p := range e.Providers {
		if p.Devices {
			return true
		}
	}
	return false
}

// devices looks at the kernel's RDMA devices and at what programs need to use them.
func (e *examination) devices() Section {
	s := Section{Title: "RDMA devices"}
	severity := e.severity()
	missing := severity // skipped for a mount that needs no device
	if missing != Failure {
		missing = Skipped
	}
	if e.deviceProvider() {
		s.add(e.libraries(missing))
	} else {
		s.add(skipped("libraries", "this build has no provider for RDMA devices"))
	}
	m := e.Devices.Modules()
	switch {
	case m.Core && m.Verbs && m.CM:
		st := ok("kernel modules", "devices, verbs and connection manager are there")
		st.Facts = m
		s.add(st)
	default:
		a := e.Devices.Absence(e.rdma)
		s.add(Step{Name: "kernel modules", Status: missing, Detail: a.Why, Remedy: onlyFor(missing, a.Remedy), Facts: m})
		if !m.Core {
			return s
		}
	}
	if len(e.rdma) == 0 {
		if a := e.Devices.Absence(e.rdma); m.Verbs && m.CM {
			s.add(bad(missing, "devices", a.Why, onlyFor(missing, a.Remedy)))
		}
		return s
	}
	for i := range e.rdma {
		s.add(device(&e.rdma[i], severity)...)
	}
	s.add(e.memlock(severity))
	return s
}

// onlyFor drops the remedy of a step that is skipped.
func onlyFor(s Status, remedy string) string {
	if s == Skipped {
		return ""
	}
	return remedy
}

func (e *examination) libraries(missing Status) Step {
	var found, absent []string
	for _, l := range libraries {
		if p := e.Libraries(l); p != "" {
			found = append(found, p)
		} else {
			absent = append(absent, l)
		}
	}
	if len(absent) == 0 {
		return ok("libraries", strings.Join(found, ", "))
	}
	return bad(missing, "libraries", "not installed: "+strings.Join(absent, ", "),
		onlyFor(missing, "install rdma-core: apt install libibverbs1 librdmacm1 ibverbs-providers, or dnf install libibverbs librdmacm"))
}

// device judges one device: its ports, and whether this user may use it.
func device(d *rdmadev.Device, severity Status) []Step {
	var steps []Step
	kind := d.Driver
	if kind == "" {
		kind = d.Kind
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		name := fmt.Sprintf("%s port %d", d.Name, p.Number)
		what := fmt.Sprintf("%s, %s, %s %s", kind, p.LinkLayer, strings.ToLower(p.State), p.Rate)
		if on := p.Netdevs(); len(on) > 0 {
			what += ", on " + strings.Join(on, ", ")
		}
		st := Step{Name: name, Status: OK, Detail: what, Facts: p}
		if !p.Active() {
			st.Status, st.Detail = severity, fmt.Sprintf("%s: the link is %s", what, p.PhysState)
			st.Remedy = "bring the link up: ip link set DEVICE up, the cable, the subnet manager on InfiniBand"
		}
		steps = append(steps, st)
	}
	var may []string
	for _, n := range d.Nodes {
		switch {
		case !n.Needed:
		case n.Usable:
			may = append(may, n.Path)
		default:
			steps = append(steps, bad(severity, d.Name+" access", fmt.Sprintf("%s: %s", n.Path, n.Why),
				"give this user the node (chmod 666, or udev's rules of rdma-core); in a container add --device="+n.Path))
		}
	}
	if len(may) > 0 {
		steps = append(steps, ok(d.Name+" access", strings.Join(may, " and ")+" can be opened"))
	}
	return steps
}

// memlock judges how much memory devices may pin.
func (e *examination) memlock(severity Status) Step {
	const name = "locked memory"
	m := e.Memory
	switch {
	case m.Err != nil:
		what, remedy := e.Explain(m.Err)
		return bad(severity, name, what, remedy)
	case m.Note != "":
		return warning(name, m.Note, "")
	case m.Limit == NoLimit:
		return ok(name, "no limit")
	}
	return ok(name, fmt.Sprintf("RLIMIT_MEMLOCK is %d MiB, which is enough", m.Limit>>20))
}
