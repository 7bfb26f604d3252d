package options

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// maxPorts bounds the addresses of remoteports= and localports=.
const maxPorts = 256

// Spread reports whether connections go to several addresses of the server.
func (o *Options) Spread() bool { return len(o.RemotePorts) > 0 || o.RemoteDNS }

// remotePorts takes addresses of the server, or the word for all of its name.
func remotePorts(o *Options, v string, has bool) error {
	if v == "dns" {
		o.RemotePorts, o.RemoteDNS = nil, true
		return nil
	}
	return ports("addresses of the server, or dns", func(o *Options, all []netip.Addr) { o.RemotePorts, o.RemoteDNS = all, false })(o, v, has)
}

// ports takes single addresses and ranges, with ~ between them.
func ports(what string, set func(*Options, []netip.Addr)) setter {
	return func(o *Options, v string, _ bool) error {
		var all []netip.Addr
		for part := range strings.SplitSeq(v, "~") {
			var err error
			if all, err = addRange(all, part); err != nil {
				return fmt.Errorf("wants %s as A-B~C: %v", what, err)
			}
		}
		set(o, all)
		return nil
	}
}

// addRange adds the addresses of "A" or "A-B" that are not there yet.
func addRange(all []netip.Addr, text string) ([]netip.Addr, error) {
	first, last, two := strings.Cut(text, "-")
	from, err := netip.ParseAddr(first)
	to := from
	if two && err == nil {
		to, err = netip.ParseAddr(last)
	}
	switch {
	case err != nil:
		return nil, err
	case from.Is4() != to.Is4() || to.Less(from) || from.Zone() != to.Zone():
		return nil, fmt.Errorf("%s is no range", text)
	}
	for a := from; ; a = a.Next() {
		if a.IsUnspecified() || a.IsMulticast() {
			return nil, fmt.Errorf("%s is the address of no host", a)
		}
		if u := a.Unmap(); !slices.Contains(all, u) {
			if all = append(all, u); len(all) > maxPorts {
				return nil, fmt.Errorf("more than %d addresses", maxPorts)
			}
		}
		if a == to {
			return all, nil
		}
	}
}

// readDirPlus takes rdirplus alone, or with a value as nfs(5) has it.
func readDirPlus(o *Options, v string, has bool) error {
	if has && v != "force" && v != "none" {
		return errors.New("wants force or none, or no value")
	}
	o.NoReadDirPlus = has && v == "none"
	return nil
}
