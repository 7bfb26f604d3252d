package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// bashOptions completes the list behind -o. cobra's script quotes the commas in
// it, and then finds that nothing matches what was typed. Of a word with "=", which
// is in COMP_WORDBREAKS, bash replaces only what stands behind it.
const bashOptions = `
__rdmafs_complete()
{
    local cur prev words cword
    _get_comp_words_by_ref -n "=:" cur prev words cword
    if [[ $prev != -o && $prev != --options ]]; then
        __start_rdmafs "$@"
        return
    fi
    local found
    found=$("${words[0]/#\~/$HOME}" __completeNoDesc "${words[@]:1:cword-1}" "$cur" 2>/dev/null) || return
    found=${found%:*}
    mapfile -t COMPREPLY < <(printf %s "$found")
    if [[ $found == *=$'\n'* ]]; then
        compopt -o nospace
    fi
    if [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${cur%=*}="}")
    fi
}
complete -o nosort -F __rdmafs_complete rdmafs
`

func newCompletionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print what makes a shell complete commands, options, mounts and servers",
		Long: `Print what makes a shell complete commands, flags, mount options and their values,
mount points, and the servers in /etc/fstab. Packages and "make install" put it where
shells look for it; without them:

  source <(rdmafs completion bash)     # needs the package bash-completion
  source <(rdmafs completion zsh)
  rdmafs completion fish | source`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withCode(exitUsage, fmt.Errorf("completion wants one of bash, zsh and fish"))
			}
			return withCode(exitSystem, writeCompletion(cmd.Root(), cmd.OutOrStdout(), args[0]))
		},
	}
}

func writeCompletion(root *cobra.Command, w io.Writer, shell string) error {
	switch shell {
	case "bash":
		if err := root.GenBashCompletionV2(w, true); err != nil {
			return err
		}
		_, err := io.WriteString(w, bashOptions)
		return err
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	}
	return withCode(exitUsage, fmt.Errorf("no completion for %q: only for bash, zsh and fish", shell))
}
