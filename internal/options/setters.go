package options

import (
	"errors"
	"fmt"
	"net/netip"
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

func refused(why string) setter {
	return func(*Options, string, bool) error { return errors.New(why) }
}

func passed(word string) setter {
	return flag(func(o *Options) { o.Fuse = append(o.Fuse, word) })
}

// version3 takes the one version of NFS.
func version3(o *Options, v string, has bool) error {
	if !has || v != "3" && v != "3.0" {
		return errors.New("rdmafs speaks NFS version 3 only (vers=3, which the server must offer)")
	}
	o.Vers = "3"
	return nil
}

// rdma is proto=rdma when alone, and the provider with a value.
func rdma(o *Options, v string, has bool) error {
	if !has {
		o.Proto = "rdma"
		return nil
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
