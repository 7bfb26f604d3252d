// Package reconnect makes a transport.Caller of a transport.Dialer: it keeps
// links up and resends calls.
//
// It owns transaction ids, the choice of a link for each call, reconnecting,
// resending and timeouts. It refuses to know what a link is made of.
//
// Calls. The caller's goroutine takes a link and exchanges the call. If that fails
// without a reply it does so again under the same transaction id, so that the
// server's duplicate request cache recognizes the call. A reply is final, even one
// that violates the transport's protocol. A call without a reply for timeo condemns
// its link: the link is closed, which releases the payloads of all its calls, and
// all of them are resent on another link. The next wait is longer by timeo, until
// timeo × (retrans + 1) have passed; then a call of a soft mount fails, and one of
// a hard mount goes on forever, which is logged once, as is the server's return. It is logged, too, when
// the context of a call of a hard mount ends with the cause transport.ErrTimeout: its caller has
// waited as long and goes on without.
// From its first timeout on a call is overdue (Link.ExchangeOverdue): the server
// may answer others and not this one. As all calls on a link start a new wait on
// the next one, a link is replaced at most once per timeo.
//
// Links. A slot connects when a call wants a link: at once the first time, then
// 100 ms after the start of the previous attempt, doubled up to a second until a
// link brings a valid reply again. A link that is lost while no call wants one is
// not replaced, unless Config.Keep says so. A new link is established before calls are sent over it: the calls
// of Config.Establish come first; and if the transport carries one call until the
// first reply, each link but the first begins with a NULL call, unless a reply has
// come already, so that no call that the server does not answer can be that one.
//
// Examination. While a call waits, its link is asked each second whether it is
// stalled, and a NULL call is made on it, one at a time: TCP notices that nothing
// gets through only if something was sent, and retransmits at growing intervals. A
// stalled link is closed, and its calls are resent, but not as overdue.
//
// Counting. Each call that has ended is added to Config.Account. Those that take long are listed for Health when their
// timer first fires, so that others pay nothing for it.
//
// Goroutines: one runSlot per slot, started by New, and one runExamine per link
// that is being examined; Close joins them. Timers set flags, wake runSlot and
// start runExamine.
//
// Locks: Caller.mu, never held while a link is used.
package reconnect
