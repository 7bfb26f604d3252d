// Package wire encodes and decodes the messages of the Network Lock Manager,
// version 4 (RFC 1813 appendix II; NLMv3 and its types are in X/Open XNFS, chapter
// 10), and of the Network Status Monitor, version 1 (XNFS, chapter 11).
//
// It owns one symmetric type a message: Append for its sender, Parse for its
// receiver, so that client and embedded server share them. It refuses to judge
// values beyond what XDR and the bounds of const.go say: what a status or a range
// means is its caller's affair. SHARE, the asynchronous procedures other than
// GRANTED_MSG and GRANTED_RES, and all of NSM but SM_NOTIFY are left out.
//
// Parse never fails by itself; it leaves the error in the Reader, where the caller
// finds it by r.Err or r.End. What it returns is copied from the message.
//
// The package has no state and starts no goroutine.
package wire
