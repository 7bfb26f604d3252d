package main

import (
	"bufio"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/source"
)

// addCompletions has shells complete what the usage line of each command names:
// mount points and servers, the options after -o, and nothing where it names nothing.
// Nothing that may not answer is looked at.
func addCompletions(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
			cmd.ValidArgsFunction = completeArgs(cmd.Use)
		}
	}
	each := func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "options" {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, completeOptions) // fails only for a flag that is not there
			}
		})
	}
	each(root)
	for _, cmd := range root.Commands() {
		each(cmd)
	}
}

// positions are the names that a usage line has for each argument: those of
// "bench DIRECTORY | SERVER:/EXPORT [-o OPTIONS]" are one, DIRECTORY or SERVER:/EXPORT.
func positions(use string) (names [][]string) {
	command, _, _ := strings.Cut(use, " ")
	for form := range strings.SplitSeq(use, " | ") {
		at := 0
		for _, word := range strings.Fields(form) {
			word = strings.TrimLeft(word, "[")
			if word == command || strings.HasPrefix(word, "-") || strings.HasPrefix(word, "OPTIONS") {
				continue
			}
			if at == len(names) {
				names = append(names, nil)
			}
			names[at] = append(names[at], word)
			at++
		}
	}
	return names
}

// completeArgs completes the arguments that a usage line names.
func completeArgs(use string) cobra.CompletionFunc {
	names := positions(use)
	return func(_ *cobra.Command, args []string, typed string) (found []cobra.Completion, directive cobra.ShellCompDirective) {
		directive = cobra.ShellCompDirectiveNoFileComp
		at := len(args)
		if n := len(names); at >= n && n > 0 && strings.HasSuffix(names[n-1][0], "...") {
			at = n - 1
		}
		if at >= len(names) {
			return nil, directive
		}
		for _, name := range names[at] {
			switch {
			case strings.Contains(name, "SERVER"):
				found = append(found, knownSources(typed)...)
			case name == "MOUNTPOINT" && len(args) == 0:
				found = append(found, mountPoints(typed)...)
			case name == "MOUNTPOINT" || name == "DIRECTORY":
				directive = cobra.ShellCompDirectiveFilterDirs
			default:
				directive = cobra.ShellCompDirectiveDefault
			}
		}
		if len(found) > 0 {
			// Directories are offered instead of words, never beside them.
			directive = cobra.ShellCompDirectiveNoFileComp
		}
		return found, directive
	}
}

func completeOptions(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before, words := options.Complete(typed)
	directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	var found []cobra.Completion
	for _, w := range words {
		if w.Open {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		found = append(found, cobra.CompletionWithDesc(before+w.Word, w.Meaning))
	}
	return found, directive
}

// mountPoints are those of rdmafs, as the mount table has them.
func mountPoints(typed string) (found []cobra.Completion) {
	table, err := mounttable.Read()
	if err != nil {
		return nil
	}
	for _, m := range table {
		if m.Type == "fuse.rdmafs" && strings.HasPrefix(m.Dir, typed) && plain.Text(m.Dir) == m.Dir {
			found = append(found, cobra.CompletionWithDesc(m.Dir, plain.Text(m.Source)))
		}
	}
	return found
}

// fstab is where the exports that this machine mounts are written down.
var fstab = "/etc/fstab"

// knownSources are the exports that fstab mounts by NFS or by rdmafs.
func knownSources(typed string) (found []cobra.Completion) {
	f, err := os.Open(fstab)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || strings.HasPrefix(fields[0], "#") || !strings.HasPrefix(fields[0], typed) {
			continue
		}
		switch fields[2] {
		case "rdmafs", "fuse.rdmafs", "nfs", "nfs4":
			if s, err := source.Parse(fields[0]); err == nil && plain.Text(s.Text) == s.Text {
				found = append(found, cobra.CompletionWithDesc(s.Text, "on "+plain.Text(fields[1])))
			}
		}
	}
	return found
}
