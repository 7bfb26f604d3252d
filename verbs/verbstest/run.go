package verbstest

import (
	"testing"
	"time"
)

// Pace is what the line between two devices can do.
type Pace struct {
	// Limit ends a test that hangs.
	Limit time.Duration
	// Rounds is how many MiB the tests of throughput move each way.
	Rounds int
}

// Flaw is where a driver falls short of the contract.
type Flaw uint8

const (
	// LooseWindows: the driver holds a peer to the bounds of the region below
	// a window, not to those of the window.
	LooseWindows Flaw = iota + 1
	// TornReads: the driver sends wrong bytes when the peer Reads a few that
	// are on both sides of a page's end.
	TornReads
)

// Run runs the suite, leaving out what flaws are known to break. Each test opens
// its own pair of devices.
func Run(t *testing.T, newPair NewPair, flaws ...Flaw) {
	p := Pace{Limit: 2 * time.Minute, Rounds: 64}
	if testing.Short() || RaceEnabled {
		p.Rounds = 8
	}
	RunAt(t, newPair, p, flaws...)
}

// RunAt is Run over a line that is slow, or loses what it carries.
func RunAt(t *testing.T, newPair NewPair, p Pace, flaws ...Flaw) {
	for _, x := range []struct {
		name string
		test func(*rig)
	}{
		{"PrivateData", testPrivateData},
		{"Reject", testReject},
		{"RejectTooMuch", testRejectTooMuch},
		{"RefusedPort", testRefusedPort},
		{"DialContext", testDialContext},
		{"AcceptContext", testAcceptContext},
		{"ListenerClose", testListenerClose},
		{"ListenerClosedFirst", testListenerClosedFirst},
		{"ListenerCloseRefuses", testListenerCloseRefuses},
		{"PrepareError", testPrepareError},
		{"BadOptions", testBadOptions},
		{"LocalAddr", testLocalAddr},
		{"Close", testClose},
		{"PeerCloses", testPeerCloses},

		{"OrderedSends", testOrderedSends},
		{"SendShapes", testSendShapes},
		{"SendCompletions", testSendCompletions},
		{"CompletionWakesWait", testCompletionWakesWait},
		{"PostAndReap", testPostAndReap},
		{"ReceivesBesideReap", testReceivesBesideReap},
		{"WaitContext", testWaitContext},
		{"WaitFromMany", testWaitFromMany},
		{"QuietRequests", testQuietRequests},
		{"QueueFull", testQueueFull},
		{"UsageErrors", testUsageErrors},
		{"MissingReceive", testMissingReceive},
		{"SmallReceive", testSmallReceive},
		{"ConcurrentPosters", testConcurrentPosters},

		{"WriteThenSend", testWriteThenSend},
		{"WriteShapes", testWriteShapes},
		{"Read", testRead},
		{"ManyReads", testManyReads},
		{"ReadThenSend", testReadThenSend},

		{"WindowBounds", testWindowBounds},
		{"WindowRights", testWindowRights},
		{"WindowStates", testWindowStates},
		{"WindowKeys", testWindowKeys},
		{"FreeBehindFullQueue", testFreeBehindFullQueue},
		{"RemoteInvalidate", testRemoteInvalidate},
		{"InvalidateUnderWrites", testInvalidateUnderWrites},

		{"StreamBothWays", testStreamBothWays},
		{"ReadBothWays", testReadBothWays},
		{"CloseUnderTraffic", testCloseUnderTraffic},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(newRig(t, newPair, p, flaws)) })
	}
}
