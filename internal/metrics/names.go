package metrics

import "github.com/prometheus/client_golang/prometheus"

// mountLabels are on each metric.
var mountLabels = []string{"source", "mount_point"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("rdmafs_"+name, help, append(append([]string(nil), mountLabels...), labels...), nil)
}

var (
	up         = desc("up", "Whether the daemon of the mount answers.")
	serverUp   = desc("server_up", "Whether there is a connection to the server, and it answers.")
	dirty      = desc("dirty_bytes", "Data that is not stable on the server yet.")
	openFiles  = desc("open_files", "Open files.")
	waiting    = desc("waiting_calls", "Calls that have waited for longer than a moment.")
	oldestWait = desc("oldest_wait_seconds", "How long the oldest of these calls has waited.")
	registered = desc("registered_bytes", "Memory that is registered with the transport.")

	connects       = desc("connections_total", "Connections made.")
	connectFails   = desc("connection_failures_total", "Attempts to connect that failed.")
	timeouts       = desc("timeouts_total", "Times that a reply did not come in time.")
	creditWaits    = desc("credit_waits_total", "Calls that waited for a credit.")
	badReplies     = desc("bad_replies_total", "Replies that violate the protocol, or belong to no call.")
	registrations  = desc("registrations_total", "Registrations of memory.")
	transportBytes = desc("transport_bytes_total", "Bytes sent and received.", "direction")
	chunks         = desc("calls_by_chunk_total", "How calls and replies travelled over RDMA; a call can be of two kinds.", "kind")
	cacheLookups   = desc("cache_lookups_total", "Answers of the cache (hit), and questions to the server in their place (miss).", "cache", "result")
	fuseRequests   = desc("fuse_requests_total", "Requests of the kernel.", "request")

	procedureErrors  = desc("procedure_errors_total", "Calls without a reply, or whose reply says that they failed.", "program", "procedure")
	procedureResends = desc("procedure_resends_total", "Calls sent again.", "program", "procedure")
	procedureBytes   = desc("procedure_bytes_total", "Bytes of calls and replies.", "program", "procedure", "direction")
	queueTime        = desc("procedure_queue_seconds", "From a call to its last transmission.", "program", "procedure")
	tripTime         = desc("procedure_rtt_seconds", "From the last transmission to the reply.", "program", "procedure")
	executionTime    = desc("procedure_execution_seconds", "From a call to its reply.", "program", "procedure")
)
