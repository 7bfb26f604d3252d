// Package reconnect makes a transport.Caller of a transport.Dialer: it keeps
// links up and calls going.
//
// It owns transaction ids, the choice of a link for each call, reconnecting,
// resending and timeouts. It refuses to know what a link is made of.
//
// Calls. The caller's goroutine takes a link, exchanges, and when that fails
// without an answer does so again under the same transaction id, so that the
// server's duplicate request cache can tell. An answer, even one that says that
// the transport's protocol was broken, is final. A call without reply for timeo
// condemns its link: the link is closed, which gives every call on it its
// payloads back, and all of them are sent again on another. The next wait is
// longer by timeo, until timeo × (retrans + 1) have passed; then a soft mount's
// call fails, and a hard mount's goes on for ever, which is logged once, as is
// the server's return. From its first timeout on a call is overdue
// (Link.ExchangeOverdue): others may be answered while it is not. As all calls on
// a link get their time anew on the next, a link is replaced for them at most once
// in timeo.
//
// Links. A slot connects when a call wants it: at once the first time, and then
// 100 ms after the attempt before, which doubles to a second until a link brings
// a valid reply again. A link lost while no call wants one stays lost. A new link
// is established before calls go over it: the calls of Config.Establish come
// first, and of a transport whose links carry one call until the first reply, each
// link but the first begins with a NULL call if there was none, so that no call
// that the server does not answer can be that one.
//
// Examination. While a call waits, its link is asked each second if it is stalled,
// and a NULL call is made on it, one at a time: TCP notices that nothing gets
// through only where something was sent, and waits ever longer before it tries
// again. A stalled link is closed, and its calls are sent again, not as overdue.
//
// Goroutines: one runSlot for each slot, started by New, and one runExamine for
// each link that is being examined, joined by Close. Timers only set flags, wake
// and start them.
//
// Locks: Caller.mu, held for moments, never while a link is used.
package reconnect
