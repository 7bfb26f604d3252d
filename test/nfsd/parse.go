package nfsd

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ParseExport reads an export as the command line has it: DIR[:option,…]. A
// directory whose name holds a colon must be followed by one.
func ParseExport(v string) (Export, error) {
	dir, opts := v, ""
	if i := strings.LastIndexByte(v, ':'); i >= 0 {
		dir, opts = v[:i], v[i+1:]
	}
	abs, err := filepath.Abs(dir)
	if err != nil || dir == "" {
		return Export{}, fmt.Errorf("export %q: no directory", v)
	}
	if st, err := os.Stat(abs); err != nil || !st.IsDir() {
		return Export{}, fmt.Errorf("export %q: %s is not a directory", v, abs)
	}
	x := Export{Dir: abs}
	for opt := range strings.SplitSeq(opts, ",") {
		if opt == "" {
			continue
		}
		if err := x.option(opt); err != nil {
			return Export{}, fmt.Errorf("export %q: %w", v, err)
		}
	}
	return x, nil
}

func (x *Export) option(opt string) error {
	name, val, has := strings.Cut(opt, "=")
	number := func() (uint32, error) {
		n, err := strconv.ParseUint(val, 0, 32)
		if err != nil {
			return 0, fmt.Errorf("option %s: %q is no number", name, val)
		}
		return uint32(n), nil
	}
	switch name {
	case "path":
		x.Path = val
		return nil
	case "sec":
		var err error
		x.Security, err = ParseSecurity(val, "+")
		return err
	case "id", "anonuid", "anongid":
		n, err := number()
		switch name {
		case "id":
			x.ID = n
		case "anonuid":
			x.AnonUID = &n
		default:
			x.AnonGID = &n
		}
		return err
	}
	if has {
		return fmt.Errorf("unknown option %q", opt)
	}
	switch name {
	case "ro":
		x.ReadOnly = true
	case "rw":
		x.ReadOnly = false
	case "sync":
		x.Async = false
	case "async":
		x.Async = true
	case "acl":
		x.ACL = true
	case "lossy":
		x.Lossy = true
	case "secure":
		x.Secure = true
	case "inode_handles":
		x.InodeHandles = true
	case "root_squash":
		x.Squash = SquashRoot
	case "no_root_squash":
		x.Squash = SquashNone
	case "all_squash":
		x.Squash = SquashAll
	default:
		return fmt.Errorf("unknown option %q", opt)
	}
	return nil
}
