package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rdmafs/rdmafs/internal/options"
)

//go:generate go test -run ^TestManual$ . -update

var update = flag.Bool("update", false, "write packaging/man anew")

const manualDir = "../../packaging/man"

// page is a manual page in the making, by the macros of man(7).
type page struct{ strings.Builder }

func newPage(name, section, title, short string) *page {
	p := &page{}
	p.WriteString(".\\\" Made by go generate ./cmd/rdmafs from the commands and the table of options.\n")
	fmt.Fprintf(p, ".TH %s %s \"\" rdmafs \"%s\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), section, title, roff(name), roff(short))
	return p
}

// roff is text that roff leaves alone.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "–", `\(en`, "→", `\(->`, "…", "...").Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

func (p *page) section(title string) { fmt.Fprintf(p, ".SH %s\n", title) }

// term is an entry of a list: what, in bold, and below it what it means.
func (p *page) term(what, meaning string) {
	fmt.Fprintf(p, ".TP\n.B %s\n%s\n", roff(what), roff(meaning))
}

// text is prose whose paragraphs have empty lines between them; those that are
// indented stay as they are.
func (p *page) text(s string) {
	for k, paragraph := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if k > 0 {
			p.WriteString(".PP\n")
		}
		indented := strings.HasPrefix(paragraph, " ")
		if indented {
			p.WriteString(".nf\n")
		}
		for line := range strings.SplitSeq(paragraph, "\n") {
			if !indented {
				line = strings.TrimSpace(line)
			}
			p.WriteString(roff(strings.TrimRight(line, " ")) + "\n")
		}
		if indented {
			p.WriteString(".fi\n")
		}
	}
}

func (p *page) flags(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		what := "--" + f.Name
		if f.Shorthand != "" {
			what = "-" + f.Shorthand + ", " + what
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			what += " " + value
		}
		p.term(what, sentence(usage))
	})
}

// sentence is a part of one with its end.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// commandPage is rdmafs(1).
func commandPage() string {
	root := newRootCommand(nil)
	p := newPage("rdmafs", "1", "User Commands", root.Short)
	p.section("SYNOPSIS")
	for k, cmd := range root.Commands() {
		if k > 0 {
			p.WriteString(".br\n")
		}
		fmt.Fprintf(p, ".B %s\n", roff(cmd.UseLine()))
	}
	p.section("DESCRIPTION")
	p.text(root.Long)
	p.section("COMMANDS")
	for _, cmd := range root.Commands() {
		fmt.Fprintf(p, ".SS %s\n", roff(cmd.Name()))
		p.text(strings.ReplaceAll(cmp.Or(cmd.Long, cmd.Short+"."), options.Help(), "The mount options are in mount.rdmafs(8)."))
		if len(cmd.Aliases) > 0 {
			p.text("\n")
			fmt.Fprintf(p, ".PP\nAlso: %s\n", roff(strings.Join(cmd.Aliases, ", ")))
		}
		p.flags(cmd)
		if cmd.Example != "" {
			p.WriteString(".PP\n")
			p.text(cmd.Example)
		}
	}
	p.section("EXIT STATUS")
	p.WriteString("Those of mount(8):\n")
	p.term("0", "Success.")
	p.term("1", "The command line is wrong, or not permitted.")
	p.term("2", "This machine lacks something.")
	p.term("8", "Interrupted.")
	p.term("32", "Mounting or unmounting has failed.")
	p.section("FILES")
	p.term("/run/rdmafs", "Control sockets of root's mounts.")
	p.term("$XDG_RUNTIME_DIR/rdmafs", "Those of other users, or else /run/user/UID/rdmafs, or a directory rdmafs-UID in $TMPDIR.")
	p.term("/etc/fuse.conf", "Whether other users than root may let others in (user_allow_other).")
	p.section("SEE ALSO")
	p.WriteString(".BR mount.rdmafs (8),\n.BR fusermount3 (1),\n.BR fstab (5),\n.BR nfs (5)\n")
	return p.String()
}

// optionsPage is mount.rdmafs(8).
func optionsPage() string {
	p := newPage("mount.rdmafs", "8", "System Administration", "mount an NFS export over RDMA from user space")
	p.section("SYNOPSIS")
	p.WriteString(".B mount \\-t rdmafs\n.RI [ \"\\-o option\" [ ,option \"]...] \" server:/export \" \" directory\n.br\n" +
		".B rdmafs mount\n.I server:/export directory\n.RI [ \"\\-o option\" [ ,option ]...]\n")
	p.section("DESCRIPTION")
	p.text(`mount.rdmafs is what mount(8) calls for the file system types rdmafs and fuse.rdmafs. It returns when the mount is usable; a daemon goes on in the background and logs to journald or syslog.

In fstab(5):

    server:/export  /srv/data  fuse.rdmafs  _netdev,allow_other  0 0

Without allow_other only the user who has mounted, root here, gets in.

Of contradicting options the last one holds. An option that is not here is an error that names it. Times are in the units of nfs(5).`)
	for _, s := range []struct {
		title, text string
		kind        options.Kind
	}{
		{"OPTIONS", "", options.Effective},
		{"OPTIONS THAT CHANGE NOTHING", "They are taken from nfs(5), and say what is so anyway.", options.Inert},
		{"OPTIONS FOR THE KERNEL", "Options of mount(8) that are handed to the kernel with the FUSE mount.", options.Passed},
		{"OPTIONS OF MOUNT AND FSTAB", "They are ignored, as is every word that begins with x-.", options.Ignored},
		{"OPTIONS THAT ARE REFUSED", "The error says the same.", options.Refused},
	} {
		p.section(s.title)
		if s.text != "" {
			p.text(s.text)
		}
		var words []string
		for _, o := range options.Table {
			if o.Kind != s.kind {
				continue
			}
			if s.kind == options.Passed || s.kind == options.Ignored {
				words = append(words, o.Usage())
				continue
			}
			meaning := sentence(cmp.Or(o.Detail, o.Meaning))
			if o.Default != "" {
				meaning += " Default: " + o.Default + "."
			}
			if o.NFS != "" && s.kind == options.Effective {
				meaning += " In nfs(5): " + o.NFS + "."
			}
			p.term(o.Usage(), meaning)
		}
		if len(words) > 0 {
			fmt.Fprintf(p, ".PP\n.B %s\n", roff(strings.Join(words, ", ")))
		}
	}
	p.section("SEE ALSO")
	p.WriteString(".BR rdmafs (1),\n.BR mount (8),\n.BR fstab (5),\n.BR nfs (5),\n.BR systemd.mount (5)\n")
	return p.String()
}

var manual = map[string]func() string{"rdmafs.1": commandPage, "mount.rdmafs.8": optionsPage}

// TestManual: the manual pages have every command, flag and option as the program
// has them.
func TestManual(t *testing.T) {
	for name, make := range manual {
		want := make()
		path := filepath.Join(manualDir, name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("packaging/man/%s is not what the program says: go generate ./cmd/rdmafs", name)
		}
	}
	for _, o := range options.Table {
		if !strings.Contains(optionsPage(), roff(o.Usage())) {
			t.Errorf("%s is not in mount.rdmafs(8)", o.Name)
		}
	}
}

// TestManualRenders: the formatters find nothing wrong with the pages.
func TestManualRenders(t *testing.T) {
	for name := range manual {
		path := filepath.Join(manualDir, name)
		t.Run("mandoc/"+name, func(t *testing.T) {
			program(t, "mandoc")
			// Of style: none. The date is left out so that builds are equal, and other
			// packages' manual pages need not be here.
			out, _ := exec.Command("mandoc", "-T", "lint", "-W", "warning", path).CombinedOutput() // its code tells the same
			for line := range strings.Lines(string(out)) {
				if !strings.Contains(line, "missing date") {
					t.Error(line)
				}
			}
		})
		t.Run("man/"+name, func(t *testing.T) {
			program(t, "man")
			program(t, "groff")
			cmd := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", path)
			cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANROFFSEQ=", "MANWIDTH=80")
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil || said.Len() > 0 {
				t.Errorf("%v: %s", err, said.String())
			}
			if len(out) == 0 {
				t.Error("the page is empty")
			}
		})
	}
}

// program skips a test that needs a program which is not here.
func program(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed (make test-packages installs it)", name)
	}
}
