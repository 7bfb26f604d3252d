// Package callback serves the calls that an NFSv4.1 or 4.2 server makes on its client, over the
// connections that the client has made: CB_NULL, and CB_COMPOUND beginning with CB_SEQUENCE (RFC 8881
// sections 2.10.3.1 and 20).
//
// It owns the slots of the session's back channel and the replies kept in them, so that a call that is
// sent again is not carried out again. It refuses to know what is recalled: that is for its Client, whose
// methods only note what is asked and return at once. A server waits for each reply before it goes
// on with others, and a reply that waits for a call to the server could wait for ever.
//
// CB_RECALL, CB_GETATTR, CB_RECALL_ANY, CB_RECALL_SLOT, CB_NOTIFY_LOCK and CB_OFFLOAD are handed to the
// Client. CB_LAYOUTRECALL is answered with NOMATCHING_LAYOUT, as this client has no layouts, all else that the
// minor version defines with NOTSUPP. Lists of referring calls are accepted. They are not needed: a Client
// knows by the handle which of its calls under way a recall may have overtaken.
//
// # Invariants
//
//   - A slot carries one call at a time, and its sequence ID goes on by one with each.
//   - The operations of a call are carried out once, whatever is sent again.
//
// # Goroutines and locks
//
// None of its own: the transport runs Serve. Service.mu guards session and slots; it is never held
// while the Client is called.
package callback
