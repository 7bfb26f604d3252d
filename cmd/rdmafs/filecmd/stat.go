package filecmd

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/filetree"
	"github.com/rdmafs/rdmafs/internal/plain"
)

const statHelp = `Show the attributes of files of an export, without mounting.

--format takes these of stat(1): %n name, %s size, %b blocks of 512 bytes, %F type,
%a mode in octal, %A mode as ls -l has it, %u %U user, %g %G group, %i inode, %h links,
%x %X access, %y %Y modification, %z %Z change: for people, and in seconds.`

func newStat() *cobra.Command {
	var words *[]string
	var follow, asJSON bool
	var format string
	cmd := &cobra.Command{
		Use:     "stat SERVER:/PATH...",
		Short:   "Show attributes of files of an export, without mounting",
		Long:    statHelp,
		Example: "  rdmafs stat --format '%s %n' server:/export/f",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needArgs(cmd, args, 1, "SERVER:/PATH..."); err != nil {
				return err
			}
			if asJSON && format != "" {
				return fmt.Errorf("--json and --format exclude each other")
			}
			if err := checkFormat(format); err != nil {
				return err
			}
			return execute(cmd, *words, func(ctx context.Context, r *run) error {
				return r.each(ctx, args, remoteOperand, func(o operand, t filetree.Tree, name string) error {
					look := t.Lstat
					if follow {
						look = t.Stat
					}
					info, err := look(name)
					if err != nil {
						return err
					}
					switch {
					case asJSON:
						return plain.WriteJSON(r.out, attributesOf(o.text, info))
					case format != "":
						fmt.Fprintln(r.out, statLine(format, r.show(o.text), info))
						return nil
					}
					printStat(r, o.text, info)
					return nil
				})
			})
		},
	}
	words = optionsFlag(cmd)
	cmd.Flags().BoolVarP(&follow, "dereference", "L", false, "of what symbolic links lead to")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVarP(&format, "format", "c", "", "print a line of this form")
	return cmd
}

// attributes are those of a file, as --json prints them.
type attributes struct {
	Path       string    `json:"path"`
	Type       string    `json:"type"`
	Mode       string    `json:"mode"` // octal
	Links      uint64    `json:"links"`
	UID        int       `json:"uid"`
	GID        int       `json:"gid"`
	Size       int64     `json:"size"`
	Used       int64     `json:"used"` // bytes
	Inode      uint64    `json:"inode"`
	AccessTime time.Time `json:"access_time"`
	ModTime    time.Time `json:"modification_time"`
	ChangeTime time.Time `json:"change_time"`
}

func attributesOf(name string, info fs.FileInfo) attributes {
	_, ino, names := filetree.ID(info)
	uid, gid := filetree.Owner(info)
	return attributes{
		Path: name, Type: typeName(info), Mode: fmt.Sprintf("%04o", unixMode(info.Mode())), Links: names, UID: uid, GID: gid,
		Size: info.Size(), Used: filetree.Used(info), Inode: ino,
		AccessTime: filetree.AccessTime(info), ModTime: info.ModTime(), ChangeTime: filetree.ChangeTime(info),
	}
}

// timeFormat is that of stat(1).
const timeFormat = "2006-01-02 15:04:05.000000000 -0700"

// statField is what a letter of --format stands for.
func statField(c byte, name string, a *attributes, mode fs.FileMode) (string, bool) {
	switch c {
	case 'n':
		return name, true
	case 's':
		return strconv.FormatInt(a.Size, 10), true
	case 'b':
		return strconv.FormatInt(a.Used/512, 10), true
	case 'F':
		return a.Type, true
	case 'a':
		return strconv.FormatUint(uint64(unixMode(mode)), 8), true
	case 'A':
		return modeString(mode), true
	case 'u':
		return strconv.Itoa(a.UID), true
	case 'U':
		return users.of(a.UID, "UNKNOWN"), true
	case 'g':
		return strconv.Itoa(a.GID), true
	case 'G':
		return groups.of(a.GID, "UNKNOWN"), true
	case 'i':
		return strconv.FormatUint(a.Inode, 10), true
	case 'h':
		return strconv.FormatUint(a.Links, 10), true
	case 'x':
		return a.AccessTime.Format(timeFormat), true
	case 'X':
		return strconv.FormatInt(a.AccessTime.Unix(), 10), true
	case 'y':
		return a.ModTime.Format(timeFormat), true
	case 'Y':
		return strconv.FormatInt(a.ModTime.Unix(), 10), true
	case 'z':
		return a.ChangeTime.Format(timeFormat), true
	case 'Z':
		return strconv.FormatInt(a.ChangeTime.Unix(), 10), true
	case '%':
		return "%", true
	}
	return "", false
}

// checkFormat says which letter of a format is none.
func checkFormat(format string) error {
	for rest := format; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return nil
		}
		if after == "" {
			return fmt.Errorf("--format ends in a %%")
		}
		if _, ok := statField(after[0], "", &attributes{}, 0); !ok {
			return fmt.Errorf("--format knows no %%%c (rdmafs stat --help lists what there is)", after[0])
		}
		rest = after[1:]
	}
}

// statLine is a line of a format that checkFormat has passed.
func statLine(format, name string, info fs.FileInfo) string {
	a := attributesOf(name, info)
	var b strings.Builder
	for k := 0; k < len(format); k++ {
		if format[k] != '%' {
			b.WriteByte(format[k])
			continue
		}
		k++
		text, _ := statField(format[k], name, &a, info.Mode())
		b.WriteString(text)
	}
	return b.String()
}

func printStat(r *run, name string, info fs.FileInfo) {
	line := func(format string) { fmt.Fprintln(r.out, statLine(format, r.show(name), info)) }
	line("  File: %n")
	line("  Size: %s\tBlocks: %b\t%F")
	line(" Inode: %i\tLinks: %h")
	line("Access: (%a/%A)\tUid: (%u/%U)\tGid: (%g/%G)")
	line("Access: %x")
	line("Modify: %y")
	line("Change: %z")
}
