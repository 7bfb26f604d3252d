package mount

import (
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/journald"
)

// TestJournal: a daemon logs to the journal where there is journald, in each format: its messages are found by the
// mount point and have server, export and severity. status says so, and rdmafs log how to find them. logfile= keeps
// them out of it.
func TestJournal(t *testing.T) {
	s := startServer(t, serverOptions{})
	dir, file := t.TempDir(), t.TempDir()
	out := journald.Run(t, `
rdmafs=$1 source=$2 dir=$3 words=$4 file=$5
for format in text json; do
  "$rdmafs" mount "$source" "$dir" -o "$words,logformat=$format" >&2
  "$rdmafs" status "$dir" | grep -q '^ *log  *journal' || echo "status does not name the journal" >&2
  "$rdmafs" log "$dir" 2>"$file/said" && echo "log has shown something" >&2
  grep -q "journalctl 'RDMAFS_MOUNTPOINT=$dir'" "$file/said" || cat "$file/said" >&2
  "$rdmafs" umount "$dir" >&2
done
"$rdmafs" mount "$source" "$file" -o "$words,logfile=$file.log" >&2
"$rdmafs" umount "$file" >&2
journalctl --sync
journalctl --all -D /run/log/journal -o json SYSLOG_IDENTIFIER=rdmafs`, Binary(t), s.source(), dir, s.words("tcp", ""), file)
	formats := map[string]int{}
	for _, r := range journald.Records(t, out) {
		message, _ := r["MESSAGE"].(string)
		switch {
		case strings.HasPrefix(message, dir+": mounted "+s.source()+" (tcp, "):
			formats["text"]++
		case strings.HasPrefix(message, "{") && strings.Contains(message, `"msg":"mounted `+s.source()):
			formats["json"]++
		}
		if r["RDMAFS_MOUNTPOINT"] != dir || r["RDMAFS_SERVER"] != "127.0.0.1" || r["RDMAFS_EXPORT"] != s.export ||
			r["SYSLOG_FACILITY"] != "3" || r["_TRANSPORT"] != "journal" || r["_COMM"] != "rdmafs" {
			t.Errorf("%v", r)
		}
		if p := r["PRIORITY"]; p != "5" && !(p == "4" && !strings.Contains(message, "mounted")) {
			t.Errorf("severity %v of %q", p, message)
		}
	}
	if formats["text"] != 1 || formats["json"] != 1 {
		t.Errorf("%v of the messages that a mount was made, in %s", formats, out)
	}
}
