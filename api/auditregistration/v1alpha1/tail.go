package v1alpha1

// Where events are streamed while they happen.
const (
	// TailPath is where a server of ours streams them.
	TailPath = "/proviso/audit/tail"
	// TailBesidePath is where a stock server passes the question on, to the sidecar that serves this group: as the
	// verb watch on auditsinks/tail, which is not cut off as a request that takes too long.
	TailBesidePath = "/apis/" + GroupName + "/v1alpha1/watch/auditsinks/-/tail"
)

// EffectivePath is where a server of ours shows the compiled policies of its sinks.
const EffectivePath = "/proviso/audit/effective"
