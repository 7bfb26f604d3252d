package cm

// row is what an input does in a state: an action, and the next state. The
// zero row ignores the input.
type row struct {
	to state
	do func(*Manager, *conn, *happening)
}

// transitions is the state machine. Inputs have been checked to be of the
// connection before they come here.
var transitions = [states][inputs]row{
	reqSent: {
		inMRA:     {reqWait, (*Manager).wait},
		inREJ:     {gone, (*Manager).rejectedByPeer},
		inREP:     {activeUp, (*Manager).connected},
		inDREQ:    {gone, (*Manager).leftEarly},
		inTimer:   {reqSent, (*Manager).again},
		inExpired: {gone, (*Manager).giveUp},
		inClose:   {gone, (*Manager).sendTimeout},
	},
	reqWait: {
		inMRA:     {reqWait, (*Manager).wait},
		inREJ:     {gone, (*Manager).rejectedByPeer},
		inREP:     {activeUp, (*Manager).connected},
		inDREQ:    {gone, (*Manager).leftEarly},
		inTimer:   {reqSent, (*Manager).again},
		inExpired: {gone, (*Manager).giveUp},
		inClose:   {gone, (*Manager).sendTimeout},
	},
	reqRcvd: {
		inREQ:     {reqRcvd, (*Manager).sendMRA},
		inREJ:     {gone, (*Manager).rejectedByPeer},
		inExpired: {rejected, (*Manager).undecided},
		inStale:   {gone, (*Manager).stale},
		inAccept:  {repSent, (*Manager).sendREP},
		inReject:  {rejected, (*Manager).sendREJ},
		inClose:   {rejected, (*Manager).sendREJ},
	},
	repSent: {
		inREQ:     {repSent, (*Manager).again},
		inMRA:     {repWait, (*Manager).wait},
		inREJ:     {timewait, (*Manager).rejectedByPeer},
		inRTU:     {passiveUp, (*Manager).established},
		inData:    {passiveUp, (*Manager).established},
		inDREQ:    {timewait, (*Manager).leftEarly},
		inTimer:   {repSent, (*Manager).again},
		inExpired: {timewait, (*Manager).giveUp},
		inStale:   {timewait, (*Manager).stale},
		inClose:   {dreqSent, (*Manager).sendDREQ},
	},
	repWait: {
		inREQ:     {repWait, (*Manager).again},
		inMRA:     {repWait, (*Manager).wait},
		inREJ:     {timewait, (*Manager).rejectedByPeer},
		inRTU:     {passiveUp, (*Manager).established},
		inData:    {passiveUp, (*Manager).established},
		inDREQ:    {timewait, (*Manager).leftEarly},
		inTimer:   {repSent, (*Manager).again},
		inExpired: {timewait, (*Manager).giveUp},
		inStale:   {timewait, (*Manager).stale},
		inClose:   {dreqSent, (*Manager).sendDREQ},
	},
	activeUp: {
		inREJ:     {timewait, (*Manager).disconnected},
		inREP:     {activeUp, (*Manager).again},
		inDREQ:    {timewait, (*Manager).left},
		inTimer:   {activeUp, (*Manager).again},
		inExpired: {activeUp, nil},
		inStale:   {dreqSent, (*Manager).replaced},
		inClose:   {dreqSent, (*Manager).sendDREQ},
	},
	passiveUp: {
		inREJ:   {timewait, (*Manager).disconnected},
		inDREQ:  {timewait, (*Manager).left},
		inStale: {dreqSent, (*Manager).replaced},
		inClose: {dreqSent, (*Manager).sendDREQ},
	},
	dreqSent: {
		inREJ:     {timewait, nil},
		inDREQ:    {timewait, (*Manager).sendDREP},
		inDREP:    {timewait, nil},
		inTimer:   {dreqSent, (*Manager).again},
		inExpired: {timewait, nil},
	},
	rejected: {
		inREQ:     {rejected, (*Manager).again},
		inExpired: {gone, nil},
	},
	timewait: {
		inREQ:     {timewait, (*Manager).sendStale},
		inDREQ:    {timewait, (*Manager).sendDREP},
		inExpired: {gone, nil},
	},
}
