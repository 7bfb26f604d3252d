// Package visibility is one script of what two machines with one export see of each
// other's changes, and when: at once, once a file is opened, or once cached attributes
// have expired. It runs on mounts of any client, through system calls only, and says the same
// words of each, so that clients can be compared; docs/semantics.md has the table.
//
// No clock decides. What a mount with attribute timeouts of many minutes sees at its
// first look was seen at once. What it does not see is awaited on a mount with a timeout of a second.
//
// It starts no goroutines.
package visibility
