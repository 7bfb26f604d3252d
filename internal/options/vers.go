package options

import (
	"errors"
	"strings"
)

// noVersion says which versions there are.
const noVersion = "rdmafs speaks the NFS versions 3, 4.1 and 4.2 (vers=3, 4.1 or 4.2, 4 for the highest of 4.2 and 4.1 that the server has, or auto for the highest of all)"

// noTrunks is why the server's other addresses are not asked for.
const noTrunks = "a server is not asked for other addresses of its own; leave it out, or name them with remoteports="

// noMigration is why a file system is not followed to where it has moved.
const noMigration = "a file system that has moved to another server is not followed there; leave it out"

const (
	versMeaning = "NFS version; 4 is the highest of 4.2 and 4.1 that the server has, auto of 4.2, 4.1 and 3"
	versDefault = "auto; 3 with mountport, mounthost, mountaddr, mountproto, mountvers or nlmport"
	versDetail  = versMeaning + ", which the log names: 3 if the server refuses version 4 or has no such path in it, and not if it does not answer; with 4 the export's path is that of the server's pseudo file system, locks need no other service, and options of MOUNT and NLM say nothing. Without a version an option of MOUNT or NLM means 3, which alone has them"
	versNFS     = "the same, but that mountport= leaves the default there"
)

// versions are the values of vers= and what they mean.
var versions = map[string]string{"3": "3", "3.0": "3", "4": "4", "4.1": "4.1", "4.2": "4.2", versAuto: versAuto}

// versAuto stands for the highest version that the server has.
const versAuto = "auto"

// ofHelpers are the options of MOUNT and NLM, which version 3 alone needs.
var ofHelpers = map[string]bool{"mountport": true, "mounthost": true, "mountaddr": true, "mountproto": true, "mountvers": true, "nlmport": true}

// defaultVersion is the version when no option names one. helped: an option of ofHelpers was given.
func defaultVersion(helped bool) string {
	if helped {
		return "3"
	}
	return versAuto
}

// vers takes the version of NFS.
func vers(o *Options, v string, has bool) error {
	meant, ok := versions[v]
	if !has || !ok {
		return errors.New(noVersion)
	}
	o.Vers = meant
	return nil
}

// versWord is vers=v as a word alone.
func versWord(v string) setter {
	return flag(func(o *Options) { o.Vers = versions[v] })
}

// minorVersion completes vers=4, which stands before it.
func minorVersion(o *Options, v string, has bool) error {
	switch {
	case !has || v != "1" && v != "2":
		return errors.New(noVersion)
	case !strings.HasPrefix(o.Vers, "4"):
		return errors.New("it goes with vers=4, which must stand before it")
	}
	o.Vers = "4." + v
	return nil
}

// Versions are the values of Vers to try in turn, the best first: one alone, unless the server is to decide.
func (o *Options) Versions() []string {
	if o.Vers == versAuto {
		return []string{"4", "3"}
	}
	return []string{o.Vers}
}

// Minors are the minor versions of NFS version 4 to try, the best first; none for version 3. Vers is one
// of Versions.
func (o *Options) Minors() []uint32 {
	switch o.Vers {
	case "4":
		return []uint32{2, 1}
	case "4.1":
		return []uint32{1}
	case "4.2":
		return []uint32{2}
	}
	return nil
}
