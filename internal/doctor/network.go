package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/rdmafs/rdmafs/verbs/rdmadev"
)

// network finds the server's addresses, and for each the route and the RDMA
// devices on it.
func (e *examination) network(ctx context.Context) (Section, []netip.Addr) {
	s := Section{Title: "The way to " + e.Host}
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	addrs, err := e.Resolve(ctx)
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("%s has no address", e.Host)
	}
	if err != nil {
		s.add(failure("name", err.Error(), "check the spelling, /etc/hosts and /etc/resolv.conf; an address works without them"))
		return s, nil
	}
	var words []string
	for _, a := range addrs {
		words = append(words, a.String())
	}
	s.add(ok("name", strings.Join(words, ", ")))
	routed := false
	var steps []Step
	for _, a := range addrs {
		r, err := e.Route(a)
		if err != nil {
			steps = append(steps, warning("route", fmt.Sprintf("%s: %v", a, err), "is the network up? ip route get "+a.String()))
			continue
		}
		routed = true
		steps = append(steps, routeStep(a, r))
		steps = append(steps, e.devicesOn(r)...)
	}
	if !routed {
		for i := range steps {
			steps[i].Status = Failure
		}
	}
	s.add(steps...)
	return s, addrs
}

func routeStep(to netip.Addr, r rdmadev.Route) Step {
	what := fmt.Sprintf("%s over %s (MTU %d)", to, r.Netdev, r.MTU)
	if r.Source.IsValid() {
		what += fmt.Sprintf(" from %s", r.Source)
	}
	if r.Gateway.IsValid() {
		what += fmt.Sprintf(" by %s", r.Gateway)
	}
	if r.Local {
		what += ": this machine itself"
	}
	return Step{Name: "route", Status: OK, Detail: what, Facts: r}
}

// devicesOn lists the RDMA devices on a route, and whether they have the GID that
// the route needs.
func (e *examination) devicesOn(r rdmadev.Route) []Step {
	const name = "device on route"
	if len(e.rdma) == 0 {
		return nil // devices has reported it
	}
	at := e.Devices.On(e.rdma, r.Netdev)
	if len(at) == 0 {
		if e.severity() != Failure {
			return []Step{skipped(name, "no RDMA device stands on "+r.Netdev)}
		}
		return []Step{failure(name, "no RDMA device stands on "+r.Netdev,
			"name an address of the server that is reached over the adapter, or: rdma link add rxe0 type rxe netdev "+r.Netdev)}
	}
	var steps []Step
	for _, x := range at {
		what := fmt.Sprintf("%s port %d", x.Device.Name, x.Port.Number)
		gid, needed := gidFor(x, r.Source)
		switch {
		case !needed:
			steps = append(steps, ok(name, what))
		case gid != nil:
			steps = append(steps, Step{Name: name, Status: OK, Detail: fmt.Sprintf("%s, GID %d is %s, %s", what, gid.Index, gid.GID, gid.Type), Facts: gid})
		default:
			steps = append(steps, bad(e.severity(), name, fmt.Sprintf("%s has no RoCE v2 GID of %s", what, r.Source),
				"give "+r.Netdev+" the address after the device was made, or enable RoCE v2 on the adapter"))
		}
	}
	return steps
}

// gidFor is the GID of a port that stands for a source address. Only RoCE needs one.
func gidFor(x rdmadev.At, source netip.Addr) (gid *rdmadev.GID, needed bool) {
	if x.Port.LinkLayer != "Ethernet" || x.Device.Kind == "RNIC" || !source.IsValid() {
		return nil, false
	}
	for i := range x.Port.GIDs {
		g := &x.Port.GIDs[i]
		if g.Type == "RoCE v2" && g.GID.Unmap() == source.Unmap().WithZone("") {
			return g, true
		}
	}
	return nil, true
}
