// Package rights compares who may do what on a mount with what the local kernel allows on
// a directory of a local file system: the same scripts are run in both, by processes of
// several users, and each result, and the state of the files after it, must be the same.
//
// It owns the users (user.go), what they can do (worker.go), the scripts (scripts.go)
// and the comparison (run.go). It knows no permission rule: the kernel is the oracle. A
// server that makes users anonymous is compared with the oracle's anonymous user.
//
// A program that calls Run must call Worker first in its main: the users' processes
// are that program, executed anew.
package rights
