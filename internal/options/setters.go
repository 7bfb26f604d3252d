package options

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setter takes one option; hasValue is what distinguishes "word=" from "word".
type setter func(o *Options, value string, hasValue bool) error

func flag(set func(*Options)) setter {
	return func(o *Options, v string, has bool) error {
		if has {
			return fmt.Errorf("takes no value")
		}
		set(o)
		return nil
	}
}

func number(low, high int, set func(*Options, int)) setter {
	return func(o *Options, v string, has bool) error {
		n, err := strconv.Atoi(v)
		if !has || err != nil || n < low || n > high {
			return fmt.Errorf("wants a number from %d to %d", low, high)
		}
		set(o, n)
		return nil
	}
}

// maxRetry is a year, in minutes.
const maxRetry = 365 * 24 * 60

const maxSeconds = 10 * 365 * 24 * 3600

func seconds(set func(*Options, time.Duration)) setter {
	return number(0, maxSeconds, func(o *Options, n int) { set(o, time.Duration(n)*time.Second) })
}

func oneOf(words []string, set func(*Options, string)) setter {
	return func(o *Options, v string, has bool) error {
		if !has || !slices.Contains(words, v) {
			return fmt.Errorf("wants one of %s", strings.Join(words, ", "))
		}
		set(o, v)
		return nil
	}
}

// only is for options that have one value here.
func only(word string) setter { return oneOf([]string{word}, func(*Options, string) {}) }

func ignored(*Options, string, bool) error { return nil }

// ignoreWord is for words that change nothing.
var ignoreWord = flag(func(*Options) {})

func refused(why string) setter {
	return func(*Options, string, bool) error { return errors.New(why) }
}

func passed(word string) setter {
	return flag(func(o *Options) { o.Fuse = append(o.Fuse, word) })
}

// clamped is number for options that mount.nfs(8) and servers' guides give with values
// beyond the bounds: the bound is taken, and Notes says so.
func clamped(name string, low, high int, set func(*Options, int)) setter {
	return func(o *Options, v string, has bool) error {
		n, err := strconv.Atoi(v)
		if !has || err != nil && !errors.Is(err, strconv.ErrRange) || n < 0 {
			return fmt.Errorf("wants a number from %d to %d", low, high)
		}
		taken := min(max(n, low), high)
		if taken != n {
			o.note("%s=%s is taken as %s=%d", name, v, name, taken)
		}
		set(o, taken)
		return nil
	}
}

// The bounds of rsize and wsize, in bytes, and what is taken for less.
const (
	minBlock   = 1 << 10
	maxBlock   = 1 << 20
	smallBlock = 4 << 10
)

// block takes a size as nfs(5) has it: a multiple of 1024 at most 1 MiB; 4096 for what is
// less than 1024, and the server's for 0.
func block(name string, set func(*Options, int)) setter {
	return func(o *Options, v string, has bool) error {
		n, err := strconv.Atoi(v)
		if !has || err != nil && !errors.Is(err, strconv.ErrRange) || n < 0 {
			return fmt.Errorf("wants a number of bytes")
		}
		taken := min(n, maxBlock) &^ (minBlock - 1)
		if n > 0 && n < minBlock {
			taken = smallBlock
		}
		if taken != n {
			o.note("%s=%s is taken as %s=%d", name, v, name, taken)
		}
		set(o, taken)
		return nil
	}
}

// numberOnly is for options whose number changes nothing.
func numberOnly(low, high int) setter { return number(low, high, func(*Options, int) {}) }

// protos are the values of proto=.
var protos = []string{"rdma", "rdma6", "tcp", "tcp6"}

// proto takes how calls travel; 6 at the end is for IPv6.
func proto(o *Options, v string, has bool) error {
	if v == "udp" || v == "udp6" {
		return errors.New(noUDP)
	}
	return oneOf(protos, func(o *Options, v string) {
		o.Proto, o.IPv6 = strings.CutSuffix(v, "6")
	})(o, v, has)
}

// protoWord is proto= as a word alone.
func protoWord(word string) setter {
	return flag(func(o *Options) { _ = proto(o, word, true) }) // it is one of protos
}

const noUDP = "NFS is not spoken over UDP, which loses data at today's speeds (proto=rdma or proto=tcp)"

// sec takes the one flavor of security.
func sec(o *Options, v string, has bool) error {
	return oneOf([]string{"sys", "krb5", "krb5i", "krb5p"}, func(o *Options, v string) { o.Sec = v })(o, v, has)
}

// keytab takes the path of a keytab, with or without FILE: in front.
func keytab(o *Options, v string, has bool) error {
	v = strings.TrimPrefix(v, "FILE:")
	if !has || !filepath.IsAbs(v) {
		return errors.New("wants an absolute path")
	}
	o.Keytab = v
	return nil
}

// ccache takes the name of a cache of tickets.
func ccache(o *Options, v string, has bool) error {
	kind, rest, typed := strings.Cut(v, ":")
	if filepath.IsAbs(v) {
		kind, rest, typed = "FILE", v, true
	}
	ok := false
	switch kind {
	case "FILE", "DIR":
		ok = filepath.IsAbs(strings.TrimPrefix(rest, ":"))
	case "KEYRING":
		ok = rest != ""
	case "KCM":
		ok = true
	}
	if !has || !typed || !ok {
		return errors.New("wants FILE: or DIR: and an absolute path, KEYRING: and a name, or KCM: and a name or nothing")
	}
	o.CCache = v
	return nil
}

// lookupCache takes which names are cached.
func lookupCache(o *Options, v string, has bool) error {
	return oneOf([]string{"all", "none", "pos", "positive"}, func(o *Options, v string) {
		if v == "positive" {
			v = "pos"
		}
		o.LookupCache = v
	})(o, v, has)
}

// text takes any value but none.
func text(what string, set func(*Options, string)) setter {
	return func(o *Options, v string, has bool) error {
		if !has || v == "" {
			return fmt.Errorf("wants %s", what)
		}
		set(o, v)
		return nil
	}
}

// address takes an IP address.
func address(set func(*Options, netip.Addr)) setter {
	return func(o *Options, v string, has bool) error {
		a, err := netip.ParseAddr(v)
		if !has || err != nil || a.IsUnspecified() || a.IsMulticast() {
			return fmt.Errorf("wants an IP address")
		}
		set(o, a.Unmap())
		return nil
	}
}

// rdma is proto=rdma when alone, and the provider with a value.
func rdma(o *Options, v string, has bool) error {
	if !has {
		return proto(o, "rdma", true)
	}
	names := append([]string{"auto"}, Providers...)
	return oneOf(names, func(o *Options, v string) { o.RDMA = v })(o, v, true)
}

// msgp takes ALIGN:THRESHOLD.
func msgp(o *Options, v string, has bool) error {
	a, t, both := strings.Cut(v, ":")
	align, errA := strconv.Atoi(a)
	threshold, errT := strconv.Atoi(t)
	if !both || errA != nil || errT != nil || align < 2 || align > 4096 || threshold < 512 || threshold > 65536 {
		return fmt.Errorf("wants ALIGN:THRESHOLD, from 2 to 4096 and from 512 to 65536")
	}
	o.PadAlign, o.PadThreshold = align, threshold
	return nil
}

// over takes how requests come from the kernel; auto is a choice of this version's.
func over(o *Options, v string) {
	if v == "auto" {
		v = "dev"
	}
	o.Over = v
}

// rdmaDev takes the name of a device, which only one provider has.
func rdmaDev(o *Options, v string, has bool) error {
	if !has || v == "" {
		return fmt.Errorf("wants the name of an RDMA device")
	}
	o.RDMADev, o.RDMA = v, "ibv"
	return nil
}

func srcAddr(o *Options, v string, has bool) error {
	a, err := netip.ParseAddr(v)
	if !has || err != nil || a.IsUnspecified() {
		return fmt.Errorf("wants an IP address of this machine")
	}
	o.SrcAddr = a.Unmap()
	return nil
}
